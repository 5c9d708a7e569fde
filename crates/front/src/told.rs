//! What a view of /proc has been told of the processes that are shown in it, and what it is to be told next.

use space::{BodyEvent, Event};
use std::collections::{BTreeSet, HashMap};
use vocab::{NodeId, Pid};
use wire::ask::Answer;

/// Processes that are told of in a message.
const AT_ONCE: usize = 8192;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Told {
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
    /// Nothing has been told, and perhaps these are to be shown.
    pub(crate) fn anew(all: impl Iterator<Item = Pid>) -> Told {
        Told { changed: all.collect(), ..Told::default() }
    }

    /// The space is about to hear of this.
    pub(crate) fn about(&mut self, event: &Event) {
        match event {
            Event::Held { pid } | Event::Gone { pid } | Event::Moved { pid, .. } | Event::Leaves { pid } => {
                self.changed.insert(*pid);
            }
            Event::GhostFound { person, .. } => {
                self.changed.insert(person.pid);
            }
            // Only now is it known where they are, of a daemon that follows another one.
            Event::NodeBack { bodies, .. } => self.changed.extend(bodies.iter().map(|person| person.pid)),
            Event::Body { event: BodyEvent::Forked { child, .. }, .. } => {
                self.changed.insert(*child);
            }
            Event::Body { event: BodyEvent::Reaped { .. }, .. } => {}
            // The body has become something else, and then what shows it has.
            Event::Body { event, .. } => {
                let other = matches!(event, BodyEvent::Named { .. } | BodyEvent::Credentials { .. });
                self.stirs(event.pid(), other);
            }
            Event::Done { pid, .. } => self.stirs(*pid, false),
            _ => {}
        }
    }

    /// What it was is shown no longer.
    fn stirs(&mut self, pid: Pid, other: bool) {
        if self.told.contains_key(&pid) {
            self.changed.insert(pid);
            self.stirred.insert(pid);
            if other {
                self.others.insert(pid);
            }
        }
    }

    /// What is to be told next, if anything is; `node` says where a process is that is to be shown.
    pub(crate) fn next(&mut self, node: impl Fn(Pid) -> Option<NodeId>) -> Option<Answer> {
        let (mut stand, mut gone, mut others) = (Vec::new(), Vec::new(), Vec::new());
        while stand.len() + gone.len() < AT_ONCE {
            let Some(pid) = self.changed.pop_first() else { break };
            match (node(pid), self.told.get(&pid)) {
                (Some(node), told) if self.stirred.remove(&pid) || told != Some(&node) => {
                    self.told.insert(pid, node);
                    stand.push((pid, node));
                    others.extend(self.others.remove(&pid).then_some(pid));
                }
                (None, Some(_)) => {
                    self.told.remove(&pid);
                    gone.push(pid);
                }
                _ => {}
            }
        }
        let any = !stand.is_empty() || !gone.is_empty();
        any.then_some(Answer::Ghosts { stand, gone, others })
    }
}
