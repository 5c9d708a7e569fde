//! For a daemon: what who shows in /proc what others do elsewhere has been told of them, and what it is to be told next. What is to be shown is the daemon's
//! table, which it is asked for when something has changed.

use std::collections::{BTreeSet, HashMap};
use vocab::{NodeId, Pid};

/// Processes that are told of in a message.
const AT_ONCE: usize = 8192;

/// What there is to be told, each part as in [`wire::ask::Answer::Ghosts`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct News {
    pub stand: Vec<(Pid, NodeId)>,
    pub gone: Vec<Pid>,
    pub others: Vec<Pid>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Told {
    /// As it has been told.
    told: HashMap<Pid, NodeId>,
    /// Perhaps they are other than that.
    changed: BTreeSet<Pid>,
    /// Those of them that are to be told of again in any case.
    stirred: BTreeSet<Pid>,
    /// Those of them whose body may be another program's or user's.
    others: BTreeSet<Pid>,
}

impl Told {
    /// Nothing has been told yet, and these are there.
    pub fn nothing_of(all: impl Iterator<Item = Pid>) -> Told {
        Told { changed: all.collect(), ..Told::default() }
    }

    /// Perhaps it is other than was told.
    pub fn changed(&mut self, pid: Pid) {
        self.changed.insert(pid);
    }

    /// What was shown of it is shown no longer. `other`: what is guarded of it may be another user's or program's.
    pub fn stirs(&mut self, pid: Pid, other: bool) {
        if self.told.contains_key(&pid) {
            self.changed.insert(pid);
            self.stirred.insert(pid);
            if other {
                self.others.insert(pid);
            }
        }
    }

    /// What has changed, as many as go into a message; `shown`: where the body is of one that is to be shown. `None`: nothing more.
    pub fn news(&mut self, shown: impl Fn(Pid) -> Option<NodeId>) -> Option<News> {
        let mut news = News::default();
        while news.stand.len() + news.gone.len() < AT_ONCE {
            let Some(pid) = self.changed.pop_first() else { break };
            match (shown(pid), self.told.get(&pid)) {
                (Some(node), told) if self.stirred.remove(&pid) || told != Some(&node) => {
                    self.told.insert(pid, node);
                    news.stand.push((pid, node));
                    news.others.extend(self.others.remove(&pid).then_some(pid));
                }
                (None, Some(_)) => {
                    self.told.remove(&pid);
                    news.gone.push(pid);
                }
                _ => {}
            }
        }
        (!news.stand.is_empty() || !news.gone.is_empty()).then_some(news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_told_once() {
        let mut bodies = HashMap::from([(Pid(7), NodeId(0)), (Pid(8), NodeId(1))]);
        let mut told = Told::nothing_of(bodies.keys().copied());
        let news = told.news(|pid| bodies.get(&pid).copied()).expect("both");
        assert_eq!(news, News { stand: vec![(Pid(7), NodeId(0)), (Pid(8), NodeId(1))], ..News::default() });
        told.changed(Pid(7));
        told.stirs(Pid(9), true);
        assert_eq!(told.news(|pid| bodies.get(&pid).copied()), None);
        bodies.remove(&Pid(7));
        told.changed(Pid(7));
        told.stirs(Pid(8), true);
        let news = told.news(|pid| bodies.get(&pid).copied()).expect("both");
        assert_eq!((news.gone, news.stand, news.others), (vec![Pid(7)], vec![(Pid(8), NodeId(1))], vec![Pid(8)]));
        bodies.insert(Pid(8), NodeId(2));
        told.changed(Pid(8));
        let news = told.news(|pid| bodies.get(&pid).copied()).expect("it has moved");
        assert_eq!((news.stand, news.others), (vec![(Pid(8), NodeId(2))], vec![]));
    }
}
