//! What the agent has and knows. Its acts are in the files beside this one, one topic each.

use crate::administer::Administration;
use crate::adopting::Adopting;
use crate::asks::Asks;
use crate::bodies::Bodies;
use crate::checks::Checks;
use crate::deliver::Sending;
use crate::elders::Elders;
use crate::ends::Ends;
use crate::entries::Entries;
use crate::events::Events;
use crate::fence::Fence;
use crate::gate::Waiting;
use crate::gates::Gates;
use crate::handles::Handles;
use crate::idle::Idle;
use crate::leases::Leases;
use crate::looking::Looker;
use crate::moving::Moving;
use crate::pace::Pace;
use crate::ps::Tables;
use crate::showing::Showing;
use crate::stands::Stands;
use crate::starts::Starts;
use crate::stopping::Stopping;
use crate::streams::Streams;
use crate::unheard::Unheard;
use crate::uplink::Uplink;
use crate::usage::Usages;
use crate::volley::Volley;
use ghost::{Ghosts, Happened};
use kern::epoll::Poller;
use kern::init::SignalFd;
use kern::perf::{Record, Records, Stops};
use kern::proc::Proc;
use link::beat::NodeLife;
use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use vocab::{NodeId, Pid};

/// Who a ready descriptor belongs to, as the number that epoll keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Link,
    Records,
    Ghosts,
    /// A new gate has come.
    Door,
    Gate(u32),
    Children,
    /// The socket of local clients.
    Local,
    /// The port of channels from other nodes.
    Channels,
    Client(u32),
    Greeting(u32),
    Body(Pid),
    /// Output waits until what happened before it is shown.
    Order,
    /// What the looker has found.
    Looker,
    /// What the looker has found of what /proc shows.
    Entries(u32),
    /// Somebody stops or goes on.
    Stops,
    /// The line to a process that moves another.
    Mover(u32),
    /// The line to the process that shows the whole space in /proc.
    View,
    /// The line to who serves the front end's files.
    Files,
}

const KIND: u32 = 32;

impl Token {
    pub(crate) fn number(self) -> u64 {
        let (kind, rest) = match self {
            Token::Link => (0, 0),
            Token::Records => (1, 0),
            Token::Ghosts => (2, 0),
            Token::Door => (3, 0),
            Token::Children => (4, 0),
            Token::Local => (5, 0),
            Token::Channels => (6, 0),
            Token::Client(n) => (7, n),
            Token::Greeting(n) => (8, n),
            Token::Body(pid) => (9, pid.0 as u32),
            Token::Order => (10, 0),
            Token::Looker => (11, 0),
            Token::Stops => (12, 0),
            Token::Mover(n) => (13, n),
            Token::Gate(n) => (14, n),
            Token::Entries(n) => (15, n),
            Token::View => (16, 0),
            Token::Files => (17, 0),
        };
        (kind << KIND) | u64::from(rest)
    }

    pub(crate) fn of(number: u64) -> Option<Token> {
        let rest = number as u32;
        Some(match number >> KIND {
            0 => Token::Link,
            1 => Token::Records,
            2 => Token::Ghosts,
            3 => Token::Door,
            4 => Token::Children,
            5 => Token::Local,
            6 => Token::Channels,
            7 => Token::Client(rest),
            8 => Token::Greeting(rest),
            9 => Token::Body(Pid(rest as i32)),
            10 => Token::Order,
            11 => Token::Looker,
            12 => Token::Stops,
            13 => Token::Mover(rest),
            14 => Token::Gate(rest),
            15 => Token::Entries(rest),
            16 => Token::View,
            17 => Token::Files,
            _ => return None,
        })
    }
}

/// The agent: init of the space's PID namespace on this node.
pub(crate) struct Agent {
    pub(crate) number: NodeId,
    /// The hold file of this node, for `shoal run` here.
    pub(crate) hold: String,
    /// Its directory, and one for a program that only root may enter.
    pub(crate) hold_directory: String,
    pub(crate) programs: String,
    /// To the outer process: until when this agent may live.
    pub(crate) outer: OwnedFd,
    pub(crate) proc: Proc,
    pub(crate) poller: Poller,
    pub(crate) children: SignalFd,

    pub(crate) uplink: Uplink,
    pub(crate) life: NodeLife,
    pub(crate) beat_us: u64,
    pub(crate) lost_grace_us: u64,
    /// Monotonic.
    pub(crate) next_beat_us: u64,
    /// The connection and the interest as epoll has them.
    pub(crate) polled_link: Option<(u64, kern::epoll::Interest)>,
    pub(crate) channel_port: u16,

    pub(crate) leases: Leases,
    pub(crate) fence: Fence,
    pub(crate) records: Records,
    pub(crate) scratch: Vec<Record>,
    /// Without it stops among neighbours are not seen.
    pub(crate) stops: Option<Stops>,
    pub(crate) pace: Pace,

    pub(crate) bodies: Bodies,
    pub(crate) events: Events,
    pub(crate) showing: Showing,
    pub(crate) checks: Checks,
    pub(crate) stopping: Stopping,
    /// Forked since the table was last compared with /proc.
    pub(crate) fresh: Vec<Pid>,
    /// Their first thread has exited; looked at when the next batch is made.
    pub(crate) leaving: BTreeSet<Pid>,
    pub(crate) volley: Volley,
    pub(crate) handles: Handles,

    pub(crate) ghosts: Ghosts,
    pub(crate) happened: Vec<Happened>,
    pub(crate) nursery: Pid,
    pub(crate) stands: Stands,
    /// Turns of the signals that stop or continue and that were told to the front end.
    pub(crate) turns: u64,
    pub(crate) idle: Idle,
    /// Of whom the front end was told that they stand here no more, and when (monotonic).
    pub(crate) told_gone: HashMap<Pid, u64>,
    pub(crate) starts: Starts,
    pub(crate) adopting: Adopting,
    pub(crate) unheard: Unheard,
    pub(crate) ends: Ends,
    pub(crate) moving: Moving,

    /// By target.
    pub(crate) sending: HashMap<Pid, Sending>,
    pub(crate) elders: Elders,

    pub(crate) gates: Gates,
    pub(crate) waiting: Waiting,
    pub(crate) usages: Usages,

    pub(crate) asks: Asks,
    pub(crate) streams: Streams,
    pub(crate) looker: Looker,
    pub(crate) entries: Entries,
    pub(crate) tables: Tables,
    /// Who shows programs the whole space in /proc, where they are to see it.
    pub(crate) view: Option<procfs::node_proc::Keeper>,
    pub(crate) administration: Administration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        for token in [
            Token::Link,
            Token::Order,
            Token::Looker,
            Token::Entries(1),
            Token::Stops,
            Token::View,
            Token::Files,
            Token::Mover(3),
            Token::Client(7),
            Token::Greeting(u32::MAX),
            Token::Body(Pid(4_194_303)),
        ] {
            assert_eq!(Token::of(token.number()), Some(token));
        }
        assert_eq!(Token::of(99 << KIND), None);
    }
}
