//! Processes that a daemon before this one has had leave the front end, and whose ghosts do not relay yet.
//!
//! That their movers say, which wait for a successor, or what stands in their place: it executes the program of ghosts. The node to which they have gone says so in its
//! Hello. The channel that it had dialled was lost with the daemon before: it dials anew.
//!
//! | here | the node says | what is done |
//! |---|---|---|
//! | its mover waits | nothing yet | it may leave yet, or has: its mover says which |
//! | its mover has given up | it has arrived | it stays: `Abandon` |
//! | it has left | it has arrived | it is there: `Go` |
//! | it has left, or that is yet to be heard | it runs there, or has ended there | it is there |
//! | its ghost asks for its channel | nothing yet | it waits |
//! | its ghost asks for its channel | it is there | `Redial` |
//! | it has left | nothing, and its time is over | it has ended |

use crate::away::{Leaving, AWAYS};
use crate::connection::Token;
use crate::front::Front;
use kern::pidfd;
use kern::proc::PROC;
use space::Event;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use tracing::{info, warn};
use vocab::{Fault, NodeId, Pid, Result, Sig, SigInfo};
use wire::ask::Answer;
use wire::node::{ChannelTo, ToNode};

impl Front {
    /// Finds those of a daemon before this one. Before any node or client is heard.
    pub(crate) fn recover_aways(&mut self) -> Result<()> {
        for (pid, mover) in self.movers_left(AWAYS) {
            info!(%pid, "away: its mover waits");
            self.leaves_again(pid, Some(mover))?;
        }
        // A mover that is gone by now has left a ghost, or its process as it was.
        for pid in self.proc.pids()? {
            if !self.ghosts.has(pid) && !self.aways.all.contains_key(&pid) && self.is_ghost_to_be(pid) {
                info!(%pid, "away: its ghost is yet to hold");
                self.leaves_again(pid, None)?;
                self.departed(pid, Vec::new(), false);
            }
        }
        Ok(())
    }

    fn leaves_again(&mut self, pid: Pid, mover: Option<Token>) -> Result<()> {
        let stood = self.ghosts.has(pid);
        let mut one = Leaving::new(None)?;
        (one.mover, one.again, one.stood, one.bound) = (mover, true, stood, stood);
        self.aways.all.insert(pid, one);
        if !stood {
            self.know_native(pid);
            self.leaves_in_doubt(NodeId::FRONT, pid);
            self.settle();
        }
        Ok(())
    }

    /// Does this process execute `shoal ghost`, by which it is to be one?
    fn is_ghost_to_be(&self, pid: Pid) -> bool {
        let file = |path: &str| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
        let programs = crate::home::mount_point(&self.config.run_dir).join("shoal");
        let ours = file(&programs.to_string_lossy());
        let told = || std::fs::read(format!("{PROC}/{pid}/cmdline")).unwrap_or_default();
        ours.is_some()
            && ours == file(&format!("{PROC}/{pid}/exe"))
            && told().split(|b| *b == 0).nth(1) == Some(b"ghost")
    }

    /// Is it one of those?
    pub(crate) fn is_away_again(&self, pid: Pid) -> bool {
        self.aways.all.get(&pid).is_some_and(|one| one.again)
    }

    /// It cannot run here any more.
    pub(crate) fn has_departed(&mut self, pid: Pid) {
        if self.aways.all.get(&pid).is_some_and(|one| !one.bound) {
            self.is_bound(pid);
        }
    }

    /// Nothing of it is here but what becomes its ghost; these signals had come meanwhile.
    pub(crate) fn departed(&mut self, pid: Pid, come: Vec<SigInfo>, stopped: bool) {
        self.has_departed(pid);
        let known = self.aways.all.get_mut(&pid).map(|one| {
            one.sleeps = stopped;
            one.to.is_some() || one.stood
        });
        if stopped {
            self.is_roused(pid);
        }
        self.end_away(pid);
        match known {
            Some(true) => {
                self.signals_follow(NodeId::FRONT, pid, come);
                self.sleeps_again(pid, stopped);
            }
            _ => self.left_in_doubt(NodeId::FRONT, pid, come, false),
        }
    }

    fn sleeps_again(&mut self, pid: Pid, stopped: bool) {
        if stopped {
            self.events.push_back(Event::Sleeps { pid });
            self.settle();
        }
    }

    /// Its mover is gone, and has not said what it has left.
    pub(crate) fn departed_or_not(&mut self, pid: Pid) {
        if self.is_ghost_to_be(pid) || self.ghosts.has(pid) && self.aways.all.get(&pid).is_some_and(|one| one.stood) {
            return self.departed(pid, Vec::new(), false);
        }
        info!(%pid, "away: it stays");
        self.aways.all.remove(&pid);
        self.aways.stayed.insert(pid);
        self.stays_in_doubt(NodeId::FRONT, pid);
    }

    /// A node says of these that they run there, or have ended there: they have left here.
    pub(crate) fn departed_to(&mut self, node: NodeId, here: &[Pid]) {
        for pid in here.iter().copied() {
            if self.aways.all.get(&pid).is_none_or(|one| !one.again || one.to.is_some() || one.stood) {
                continue;
            }
            info!(%pid, to = %node, "away: it is there");
            self.has_departed(pid);
            let come = self.left_no_doubt(pid);
            self.forget_native(pid);
            // To a node that is not there it would be lost.
            self.events.push_back(Event::NodeUp { node });
            self.events.push_back(Event::Moved { pid, to: node });
            self.hear_ghost(pid);
            self.signals_follow(NodeId::FRONT, pid, come);
            self.events.push_back(Event::Left { pid });
            self.settle();
            self.lies_on(pid, node);
        }
    }

    /// What stands in its place holds. Before that it has its channel, perhaps from a daemon before this one: then it asks for none here.
    pub(crate) fn holds_in_place(&mut self, pid: Pid) {
        let Some(one) = self.aways.all.get_mut(&pid).filter(|one| one.again && one.bound) else { return };
        one.stood = true;
        if one.to.is_some() {
            self.forget_away(pid);
        }
    }

    /// It is known where it is: who waits for that goes on.
    pub(crate) fn lies_on(&mut self, pid: Pid, node: NodeId) {
        let Some(one) = self.aways.all.get_mut(&pid).filter(|one| one.again && one.to.is_none()) else { return };
        one.to = Some(node);
        let (stopped, asker) = (std::mem::take(&mut one.sleeps), one.asks.take());
        self.sleeps_again(pid, stopped);
        let Some(asker) = asker else { return self.forget_away(pid) };
        if let Err(fault) = self.stand_here(asker, pid) {
            self.answer(asker, Answer::Failed(fault), true);
        }
    }

    /// The node is to dial the channel for its ghost, which is not in the hands of a daemon any more.
    pub(crate) fn redial(&mut self, pid: Pid, node: NodeId, (token, key): ([u8; 16], [u8; 32])) {
        let (token, key) = (token.to_vec(), key.to_vec());
        let channel = ChannelTo { address: String::new(), token, key, program: true, terminal: false, waits: true };
        self.send(node, &ToNode::Redial { pid, channel: channel.clone() });
        self.aways.redials.insert(pid, (node, channel));
    }

    /// A node is back, and may not have heard it.
    pub(crate) fn redial_again(&mut self, node: NodeId) {
        self.aways.redials.retain(|pid, _| self.runs.relays(*pid));
        let all = self.aways.redials.iter().filter(|(_, (of, _))| *of == node);
        for (pid, channel) in all.map(|(pid, (_, channel))| (*pid, channel.clone())).collect::<Vec<_>>() {
            self.send(node, &ToNode::Redial { pid, channel });
        }
    }

    /// A channel was dialled with this token.
    pub(crate) fn redialled(&mut self, token: &[u8; 16]) {
        self.aways.redials.retain(|_, (_, channel)| channel.token != token);
    }

    /// The time in which nodes could come back is over: those of which no node has said anything have ended.
    pub(crate) fn departed_settle(&mut self) {
        self.aways.stayed.clear();
        let nowhere = self.aways.all.iter().filter(|(_, one)| one.again && one.to.is_none() && one.mover.is_none());
        for pid in nowhere.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            warn!(%pid, "away: no node has it");
            let _none = self.left_no_doubt(pid);
            let asker = self.aways.all.remove(&pid).and_then(|one| one.asks);
            // What stands there is no process that could stay. One that asks hears it; one that is stopped, and has not come to ask, cannot.
            let ghost = pidfd::open(pid).ok().filter(|_| asker.is_none() && self.is_ghost_to_be(pid));
            self.events.push_back(Event::Stays { pid });
            self.settle();
            if let Some(asker) = asker {
                self.answer(asker, Answer::Failed(Fault::gone("no node has the process")), true);
            }
            if let Some(ghost) = ghost {
                // It has ended by itself, then.
                let _ = pidfd::kill(ghost.as_fd(), Sig::KILL);
            }
        }
    }
}
