//! What /proc of this machine shows of ghosts, which is what their bodies do: a process of its own shows it (crate `procfs`), and this is how it hears of
//! ghosts, and of what nodes say. Nothing here waits for it; should it end, another one is started ([`procfs::keeper`]).
//!
//! The daemon itself, and what it starts, looks at a procfs of its own, which shows the ghosts ([`kern::proc::PROC`]).

use crate::config::{FrontConfig, Proc};
use crate::connection::{Connection, Token};
use crate::distant::Distant;
use crate::front::Front;
use crate::runs::Asker;
use crate::told::about;
use kern::clock::monotonic_us;
use procfs::keeper::{Keeper, Wanted as Kept};
use procfs::told::{News, Told};
use space::Event;
use tracing::info;
use vocab::errno::{EAGAIN, ENOTCONN};
use vocab::{Fault, NodeId, Pid};
use wire::ask::Answer;
use wire::entry::Wanted;
use wire::node::ToNode;
use wire::run::Caller;

/// So many bytes wait for it at most; what nodes say beyond that it is not told.
const FULL: usize = 16 * 1024 * 1024;

/// Who shows it, and what is told.
#[derive(Debug)]
pub(crate) struct Views {
    /// `None`: nobody's /proc is to show it.
    keeper: Option<Keeper>,
    /// Its connection, once it has asked for ghosts.
    line: Option<Token>,
    told: Told,
    /// Those of nodes.
    pub(crate) distant: Distant,
}

impl Views {
    pub(crate) fn new(config: &FrontConfig) -> Views {
        let private = config.proc == Proc::Private;
        let kept = Kept { run_dir: config.run_dir.clone(), fresh_ms: config.proc_fresh_ms, private };
        let keeper = (config.proc != Proc::Nobodys).then(|| Keeper::new(kept));
        Views { keeper, line: None, told: Told::default(), distant: Distant::default() }
    }
}

impl Front {
    pub(crate) fn start_views(&mut self, now_us: u64) {
        if let Some(keeper) = &mut self.views.keeper {
            keeper.start(now_us);
        }
    }

    pub(crate) fn views_serve(&mut self, asker: Asker) {
        let is_it = matches!(asker, Asker::Local(token) if self.views.line == Some(token));
        if let Some(keeper) = self.views.keeper.as_mut().filter(|_| is_it) {
            keeper.serves(monotonic_us());
        }
    }

    /// Has it ended, or is it stuck?
    pub(crate) fn look_after_views(&mut self, now_us: u64) {
        let Some(keeper) = &mut self.views.keeper else { return };
        if keeper.look_after(now_us) {
            let line = self.views.line.take();
            let connection = line.and_then(|line| self.take(line));
            drop(connection);
        }
    }

    /// One that does not speak with us any more is of no use.
    pub(crate) fn views_gone(&mut self, token: Token) {
        if self.views.line != Some(token) {
            return;
        }
        self.views.line = None;
        if let Some(keeper) = &mut self.views.keeper {
            keeper.hung_up();
        }
        self.look_after_views(monotonic_us());
    }

    /// It takes away what it has mounted as it sees its connection end. Not waited for for ever.
    pub(crate) fn end_views(&mut self) {
        if let Some(line) = self.views.line.take() {
            self.take(line);
        }
        if let Some(keeper) = &mut self.views.keeper {
            keeper.end();
        }
    }

    pub(crate) fn on_ghosts_wanted(&mut self, asker: Asker, caller: &Caller) {
        if caller.creds.uid.effective != 0 {
            let refused = Fault::refused("tell what runs elsewhere: that is for root");
            return self.answer(asker, Answer::Failed(refused), true);
        }
        let (line, keeper) = match (asker, &mut self.views.keeper) {
            (Asker::Remote { .. }, _) => return self.distant_view(asker),
            (Asker::Local(token), Some(keeper)) => (token, keeper),
            (Asker::Local(_), None) => {
                let refused = Fault::refused("tell of ghosts: /proc is to show none (proc = false)");
                return self.answer(asker, Answer::Failed(refused), true);
            }
        };
        info!("/proc shows what processes do elsewhere");
        self.views.line = Some(line);
        keeper.hears(monotonic_us());
        self.views.told = Told::nothing_of(self.space.iter().map(|view| view.person.pid));
    }

    pub(crate) fn on_entries_wanted(&mut self, asker: Asker, id: u64, node: NodeId, wanted: Wanted) {
        let is_it = matches!(asker, Asker::Local(token) if self.views.line == Some(token));
        if !is_it {
            let refused = Fault::refused("tell what is in /proc: that is for whoever has asked for ghosts");
            return self.answer(asker, Answer::Failed(refused), true);
        }
        self.ask_for_entries(id, node, wanted);
    }

    /// `id` comes back with the answer, to [`Front::on_entries`].
    pub(crate) fn ask_for_entries(&mut self, id: u64, node: NodeId, wanted: Wanted) {
        let linked = self.nodes.get_mut(node).is_some_and(|node| node.link.is_some());
        match linked && !node.is_front() {
            true => self.send(node, &ToNode::Entries { id, wanted }),
            false => self.on_entries(node, id, Vec::new(), true, ENOTCONN),
        }
    }

    pub(crate) fn on_entries(&mut self, node: NodeId, id: u64, found: Vec<u8>, last: bool, errno: i32) {
        if let Some((asker, id)) = self.views.distant.asked(id, last) {
            return self.answer(asker, Answer::Entries { id, found, last, errno, node }, last);
        }
        let Some(line) = self.views.line else { return };
        let full = matches!(self.connections.get(&line), Some(Connection::Client { link, .. }) if link.queued() > FULL);
        let (found, errno) = if full && !found.is_empty() { (Vec::new(), EAGAIN) } else { (found, errno) };
        self.answer(Asker::Local(line), Answer::Entries { id, found, last, errno, node }, last);
    }

    /// The space is about to hear of this, and views are to.
    pub(crate) fn about(&mut self, event: &Event) {
        if self.views.line.is_some() {
            about(&mut self.views.told, event);
        }
        self.views.distant.about(event);
    }

    /// Tells of the ghosts that have come, gone, or stand for a process of another node now.
    pub(crate) fn tell_views(&mut self) {
        while let Some(News { stand, gone, others }) = self.next_views() {
            let Some(line) = self.views.line else { return };
            self.answer(Asker::Local(line), Answer::Ghosts { stand, gone, others }, false);
        }
    }

    fn next_views(&mut self) -> Option<News> {
        self.views.line?;
        let (space, ghosts) = (&self.space, &self.ghosts);
        let shown = |pid: Pid| {
            let node = space.get(pid).map(|view| view.node);
            node.filter(|node| !node.is_front() && ghosts.has(pid))
        };
        self.views.told.news(shown)
    }
}
