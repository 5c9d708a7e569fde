//! Programs that clients have asked for: who asked, and which channel belongs to which copy.

use crate::connection::Token;
use std::collections::HashMap;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{self, Answer, Further};
use wire::node::{ChannelTo, ToNode};
use wire::run::{Program, Stdio, COPIES, COPY};

/// Where answers to a question go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Asker {
    /// A client of this daemon.
    Local(Token),
    /// A client of a node's agent, with the agent's number for the question.
    Remote { node: NodeId, id: u64 },
}

/// One `shoal run`.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) asker: Asker,
    pub(crate) program: Program,
    /// Where the relay takes its channels, as [`ChannelTo::address`].
    pub(crate) address: String,
    pub(crate) copies: Vec<Copy>,
    /// Copies of which the end is not known.
    pub(crate) alive: usize,
}

impl Run {
    /// Each program has one of its own.
    fn has_terminal(&self) -> bool {
        matches!(self.program.stdio, Stdio::Terminal { .. })
    }
}

/// One copy of its program.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) node: NodeId,
    /// Once it is known.
    pub(crate) pid: Option<Pid>,
    token: [u8; 16],
    key: [u8; 32],
    /// The branches of processes with its streams that are being moved.
    moving: HashMap<Pid, Branch>,
}

/// A channel that is to be that of a process that moves.
#[derive(Debug)]
struct Branch {
    number: u64,
    token: [u8; 16],
    /// Whoever called `shoal run` has it.
    had: bool,
}

/// What [`Runs::again`] has made.
#[derive(Debug)]
pub(crate) struct Again {
    /// How the new node reaches the relay.
    pub(crate) to: ChannelTo,
    pub(crate) branch: u64,
    /// The node of the relay, which is to be told first.
    pub(crate) relay: Option<(NodeId, ToNode)>,
}

/// Whose channel a token names.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Dialled {
    pub(crate) asker: Asker,
    /// What it is told with the channel's socket.
    pub(crate) answer: Answer,
}

/// All runs, by the PID of whoever called `shoal run`.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: HashMap<Pid, Run>,
    /// Channels that have not been dialled yet.
    /// They outlive the run: the last bytes of a quick program may come after its end.
    tokens: HashMap<[u8; 16], Dialled>,
    /// Which caller and copy a program's PID belongs to.
    programs: HashMap<Pid, (Pid, u32)>,
    /// The program with the streams, and the process that moves, by branch.
    branches: HashMap<u64, (Pid, Pid)>,
    /// The newest branch of any copy.
    branch: u64,
}

impl Runs {
    /// Notes a new run with a copy on each of `nodes`, and makes the channels' secrets.
    ///
    /// # Errors
    /// `Sys` when the kernel gives no random bytes.
    pub(crate) fn begin(&mut self, caller: Pid, nodes: &[NodeId], run: Run) -> Result<Vec<ask::Copy>> {
        let mut run = run;
        self.end(caller);
        for node in nodes {
            run.copies.push(Copy {
                node: *node,
                pid: None,
                token: link::random()?,
                key: link::random()?,
                moving: HashMap::new(),
            });
        }
        run.alive = nodes.len();
        if let Asker::Local(_) = run.asker {
            for (i, copy) in run.copies.iter().enumerate() {
                let answer = Answer::Channel { copy: i as u32, further: None };
                self.tokens.insert(copy.token, Dialled { asker: run.asker, answer });
            }
        }
        let granted = run
            .copies
            .iter()
            .map(|c| ask::Copy { node: c.node, key: c.key.to_vec(), token: c.token.to_vec() })
            .collect();
        self.runs.insert(caller, run);
        Ok(granted)
    }

    /// The process `pid`, which runs on `node`, has left a relay that calls itself `run`'s asker, with this token and key.
    pub(crate) fn follow(&mut self, pid: Pid, node: NodeId, (token, key): ([u8; 16], [u8; 32]), mut run: Run) {
        self.end(pid);
        run.copies.push(Copy { node, pid: Some(pid), token, key, moving: HashMap::new() });
        run.alive = 1;
        let answer = Answer::Channel { copy: 0, further: None };
        self.tokens.insert(token, Dialled { asker: run.asker, answer });
        self.programs.insert(pid, (pid, 0));
        self.runs.insert(pid, run);
    }

    /// Is this the connection on which `caller` has asked for what has not ended?
    pub(crate) fn is_asked_by(&self, caller: Pid, asker: Asker) -> bool {
        self.runs.get(&caller).is_some_and(|run| run.asker == asker)
    }

    /// Has `caller` asked for something that has not ended?
    pub(crate) fn has(&self, caller: Pid) -> bool {
        self.runs.contains_key(&caller)
    }

    /// The copy `copy` of `caller` gets PID `pid`: its program, and how its node reaches the relay.
    pub(crate) fn start(&mut self, caller: Pid, copy: u32, pid: Pid) -> Option<(Program, ChannelTo)> {
        let run = self.runs.get_mut(&caller)?;
        let many = run.copies.len();
        let one = run.copies.get_mut(copy as usize)?;
        one.pid = Some(pid);
        let node = one.node;
        self.programs.insert(pid, (caller, copy));
        let (token, key) = (one.token.to_vec(), one.key.to_vec());
        let (address, terminal) = (run.address.clone(), run.has_terminal());
        let mut program = run.program.clone();
        program.set_node(node);
        if many > 1 {
            program.set_variable(COPY.as_bytes(), copy.to_string().as_bytes());
            program.set_variable(COPIES.as_bytes(), many.to_string().as_bytes());
        }
        Some((program, ChannelTo { address, token, key, program: true, terminal, waits: false }))
    }

    /// The program's PID has ended, or could not be started: who is to be told, and for which copy.
    pub(crate) fn ended(&mut self, pid: Pid) -> Option<(Asker, u32, bool)> {
        let (caller, copy) = self.programs.remove(&pid)?;
        self.copy_ended(caller, copy)
    }

    /// The same, for a copy that never got a PID. The last value: was it the last copy?
    pub(crate) fn copy_ended(&mut self, caller: Pid, copy: u32) -> Option<(Asker, u32, bool)> {
        let run = self.runs.get_mut(&caller)?;
        run.alive = run.alive.saturating_sub(1);
        let (asker, last) = (run.asker, run.alive == 0);
        if last {
            self.end(caller);
        }
        Some((asker, copy, last))
    }

    /// A channel was dialled with this token: whose it is. A token works once.
    pub(crate) fn dialled(&mut self, token: &[u8; 16]) -> Option<Dialled> {
        let dialled = self.tokens.remove(token)?;
        if let Answer::Channel { further: Some(further), .. } = &dialled.answer {
            self.branched(further.branch);
        }
        Some(dialled)
    }

    /// Whoever called `shoal run` has the channel of this branch. The process that moves.
    pub(crate) fn branched(&mut self, branch: u64) -> Option<Pid> {
        let (program, pid) = *self.branches.get(&branch)?;
        let (_, _, copy) = self.copy_of(program)?;
        let one = copy.moving.get_mut(&pid).filter(|one| one.number == branch)?;
        one.had = true;
        Some(pid)
    }

    /// A process with the streams of `program`, perhaps that itself, is to move from one node to another `node`: how that node reaches the relay for them, and the branch. Then
    /// either [`Runs::moved`] or [`Runs::stays`] says what has become of it.
    ///
    /// # Errors
    /// `Refused` when its relay is not known here, or is on that node, or it is being moved already. `Sys` when the kernel gives no random bytes.
    pub(crate) fn again(&mut self, program: Pid, pid: Pid, (from, node): (NodeId, NodeId)) -> Result<Again> {
        self.branch += 1;
        let branch = self.branch;
        let Some(&(caller, number)) = self.programs.get(&program) else {
            return Err(Fault::refused(
                "nobody here knows the `shoal run` that relays its streams (a daemon that was started anew does not)",
            ));
        };
        let run = self.runs.get_mut(&caller).ok_or_else(|| Fault::bug("a program without its run"))?;
        let (asker, address, terminal) = (run.asker, run.address.clone(), run.has_terminal());
        let copy =
            run.copies.get_mut(number as usize).ok_or_else(|| Fault::bug("a copy that its run does not have"))?;
        if matches!(asker, Asker::Remote { node: relay, .. } if relay == node) {
            return Err(Fault::refused(format!("its streams are relayed by node {node} itself")));
        }
        if copy.moving.contains_key(&pid) {
            return Err(Fault::refused("it is being moved already"));
        }
        let (token, key): ([u8; 16], [u8; 32]) = (link::random()?, link::random()?);
        copy.moving.insert(pid, Branch { number: branch, token, had: false });
        self.branches.insert(branch, (program, pid));
        let its = program == pid;
        let further = Further { node, key: key.to_vec(), branch, program: its, from };
        let terminal = its && terminal;
        let (token_to, key_to) = (token.to_vec(), key.to_vec());
        let to = ChannelTo { address, token: token_to, key: key_to, program: its, terminal, waits: false };
        let relay = match asker {
            Asker::Remote { node, id } => {
                Some((node, ToNode::Branch { id, token: token.to_vec(), copy: number, further }))
            }
            Asker::Local(_) => {
                let answer = Answer::Channel { copy: number, further: Some(further) };
                self.tokens.insert(token, Dialled { asker, answer });
                None
            }
        };
        Ok(Again { to, branch, relay })
    }

    /// Has the process that called `shoal run` here become this program, and no other?
    pub(crate) fn is_by_itself(&self, pid: Pid) -> bool {
        let run = self.programs.get(&pid).filter(|(caller, _)| *caller == pid).and_then(|_| self.runs.get(&pid));
        run.is_some_and(|run| matches!((run.asker, &run.program.stdio), (Asker::Local(_), Stdio::Pipes)))
    }

    /// This program is to come here: what its relay is told, and the branch. As [`Runs::again`].
    ///
    /// # Errors
    /// `Refused` when its relay is not known, or it is being moved already.
    pub(crate) fn home(&mut self, pid: Pid) -> Result<((Asker, Answer), u64)> {
        self.comes(pid, pid, |copy, branch| Answer::Home { copy, branch })
    }

    /// The process `pid`, which has the streams of `program`, is to come here.
    ///
    /// # Errors
    /// As [`Runs::home`].
    pub(crate) fn alongside(&mut self, program: Pid, pid: Pid) -> Result<((Asker, Answer), u64)> {
        self.comes(program, pid, |copy, branch| Answer::Alongside { copy, branch })
    }

    fn comes(&mut self, program: Pid, pid: Pid, told: fn(u32, u64) -> Answer) -> Result<((Asker, Answer), u64)> {
        self.branch += 1;
        let branch = self.branch;
        let nobody = || Fault::refused("nobody here knows the `shoal run` that relays its streams");
        let (asker, number, copy) = self.copy_of(program).ok_or_else(nobody)?;
        match copy.moving.insert(pid, Branch { number: branch, token: [0; 16], had: true }) {
            None => Ok(((asker, told(number, branch)), branch)),
            Some(_) => Err(Fault::refused("it is being moved already")),
        }
    }

    /// Has whoever called `shoal run` the channel for the process `pid` that is to move with the streams of `program`, which has not ended?
    pub(crate) fn is_connected(&self, program: Pid, pid: Pid) -> bool {
        self.branch_of(program, pid).is_some_and(|(_, branch)| branch.had)
    }

    /// Has it been told of that channel by its node, and not said yet that it has it?
    pub(crate) fn is_to_connect(&self, program: Pid, pid: Pid) -> bool {
        self.branch_of(program, pid).is_some_and(|(asker, branch)| matches!(asker, Asker::Remote { .. }) && !branch.had)
    }

    fn branch_of(&self, program: Pid, pid: Pid) -> Option<(Asker, &Branch)> {
        let (caller, copy) = self.programs.get(&program)?;
        let run = self.runs.get(caller)?;
        Some((run.asker, run.copies.get(*copy as usize)?.moving.get(&pid)?))
    }

    /// The process `pid` with the streams of `program` is on `node` from now on.
    pub(crate) fn moved(&mut self, program: Pid, pid: Pid, node: NodeId) {
        let Some((_, _, copy)) = self.copy_of(program) else { return };
        if program == pid {
            copy.node = node;
        }
        if let Some(branch) = copy.moving.remove(&pid) {
            self.branches.remove(&branch.number);
        }
    }

    /// The process `pid` is not moved after all. Whoever has the channel that was for it already is to be told so, before it is told anything else of
    /// this copy; on a node, that node knows whether they have it.
    #[must_use]
    pub(crate) fn stays(&mut self, program: Pid, pid: Pid) -> Option<(Asker, Answer)> {
        let (asker, number, copy) = self.copy_of(program)?;
        let Branch { number: branch, token, had } = copy.moving.remove(&pid)?;
        self.branches.remove(&branch);
        self.tokens.remove(&token);
        let told = had || matches!(asker, Asker::Remote { .. });
        told.then_some((asker, Answer::Stays { copy: number, branch }))
    }

    fn copy_of(&mut self, pid: Pid) -> Option<(Asker, u32, &mut Copy)> {
        let (caller, number) = *self.programs.get(&pid)?;
        let run = self.runs.get_mut(&caller)?;
        Some((run.asker, number, run.copies.get_mut(number as usize)?))
    }

    /// Clients of this daemon that take channels.
    pub(crate) fn local_askers(&self) -> Vec<Asker> {
        self.runs.values().map(|run| run.asker).filter(|asker| matches!(asker, Asker::Local(_))).collect()
    }

    /// Whoever asked is gone: nobody takes its channels.
    pub(crate) fn asker_gone(&mut self, asker: Asker) {
        self.tokens.retain(|_, dialled| dialled.asker != asker);
    }

    /// The program that is copy `copy` of what `caller` asked for.
    pub(crate) fn program(&self, caller: Pid, copy: u32) -> Option<Pid> {
        self.runs.get(&caller)?.copies.get(copy as usize)?.pid
    }

    /// Are the standard streams of this program relayed for somebody who called `shoal run`?
    pub(crate) fn relays(&self, pid: Pid) -> bool {
        self.programs.contains_key(&pid)
    }

    /// It is over, or could not be told that it has begun.
    pub(crate) fn end(&mut self, caller: Pid) {
        if let Some(run) = self.runs.remove(&caller) {
            for copy in run.copies {
                copy.pid.and_then(|pid| self.programs.remove(&pid));
                for branch in copy.moving.values() {
                    self.branches.remove(&branch.number);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: Pid = Pid(100);
    const PROGRAM: Pid = Pid(101);

    /// One program of `asker`, on node 1; its first channel has been dialled.
    fn runs(asker: Asker) -> Runs {
        let run = Run { asker, program: Program::default(), address: "here".into(), copies: vec![], alive: 0 };
        let mut runs = Runs::default();
        runs.begin(CALLER, &[NodeId(1)], run).expect("random bytes");
        let (_, to) = runs.start(CALLER, 0, PROGRAM).expect("it was begun");
        let first = Answer::Channel { copy: 0, further: None };
        let dialled = dial(&mut runs, &to);
        assert_eq!(dialled, matches!(asker, Asker::Local(_)).then_some(Dialled { asker, answer: first }));
        runs
    }

    fn dial(runs: &mut Runs, to: &ChannelTo) -> Option<Dialled> {
        runs.dialled(to.token.as_slice().try_into().expect("16 bytes"))
    }

    fn node(runs: &Runs) -> NodeId {
        runs.runs[&CALLER].copies[0].node
    }

    #[test]
    fn a_program_that_moves_gets_a_channel_with_a_key_of_its_own() {
        let asker = Asker::Local(7);
        let mut runs = runs(asker);
        let Again { to, branch, relay } = runs.again(PROGRAM, PROGRAM, (NodeId(1), NodeId(2))).expect("it can move");
        assert_eq!((to.address.as_str(), relay), ("here", None));
        assert!(runs
            .again(PROGRAM, PROGRAM, (NodeId(1), NodeId(3)))
            .expect_err("one move at a time")
            .to_string()
            .contains("already"));
        let further = Some(Further { node: NodeId(2), key: to.key.clone(), branch, program: true, from: NodeId(1) });
        assert!(!runs.is_connected(PROGRAM, PROGRAM));
        assert_eq!(dial(&mut runs, &to), Some(Dialled { asker, answer: Answer::Channel { copy: 0, further } }));
        assert!(runs.is_connected(PROGRAM, PROGRAM));
        assert_eq!(dial(&mut runs, &to), None);
        runs.moved(PROGRAM, PROGRAM, NodeId(2));
        assert_eq!(node(&runs), NodeId(2));
        let Again { to: next, .. } = runs.again(PROGRAM, PROGRAM, (NodeId(1), NodeId(1))).expect("it can move on");
        assert!(next.key != to.key && next.token != to.token);
        // A channel of a move that was may still be dialled after the program's end.
        runs.moved(PROGRAM, PROGRAM, NodeId(1));
        assert!(runs.ended(PROGRAM).is_some());
        assert!(dial(&mut runs, &next).is_some());
        assert!(!runs.is_connected(PROGRAM, PROGRAM), "nobody takes it");
    }

    /// The relay that it has left when it came home has the connection of its time before.
    #[test]
    fn who_asks_anew_asks_by_its_own_connection_alone() {
        let (before, now) = (Asker::Local(7), Asker::Local(8));
        let mut runs = runs(before);
        assert!(runs.is_asked_by(CALLER, before));
        runs.ended(PROGRAM);
        assert!(!runs.is_asked_by(CALLER, before));
        let run = Run { asker: now, program: Program::default(), address: String::new(), copies: Vec::new(), alive: 0 };
        runs.follow(CALLER, NodeId(1), ([0; 16], [0; 32]), run);
        assert!(runs.is_asked_by(CALLER, now) && !runs.is_asked_by(CALLER, before));
    }

    #[test]
    fn who_has_the_channel_of_a_move_that_came_to_nothing_is_told() {
        let asker = Asker::Local(7);
        let mut runs = runs(asker);
        let Again { to, .. } = runs.again(PROGRAM, PROGRAM, (NodeId(1), NodeId(2))).expect("it can move");
        assert_eq!(runs.stays(PROGRAM, PROGRAM), None);
        assert_eq!(dial(&mut runs, &to), None);
        let Again { to, branch, .. } = runs.again(PROGRAM, PROGRAM, (NodeId(1), NodeId(2))).expect("it can move");
        assert!(dial(&mut runs, &to).is_some());
        assert_eq!(runs.stays(PROGRAM, PROGRAM), Some((asker, Answer::Stays { copy: 0, branch })));
        assert_eq!((runs.stays(PROGRAM, PROGRAM), node(&runs)), (None, NodeId(1)));
    }

    #[test]
    fn a_relay_on_a_node_says_that_it_has_the_channel_and_is_told_when_it_stays() {
        let asker = Asker::Remote { node: NodeId(3), id: 5 };
        let mut runs = runs(asker);
        let Again { to, branch, relay } = runs.again(PROGRAM, PROGRAM, (NodeId(1), NodeId(2))).expect("it can move");
        let further = Further { node: NodeId(2), key: to.key.clone(), branch, program: true, from: NodeId(1) };
        let told = ToNode::Branch { id: 5, token: to.token.clone(), copy: 0, further };
        assert_eq!((relay, dial(&mut runs, &to)), (Some((NodeId(3), told)), None));
        assert!(!runs.is_connected(PROGRAM, PROGRAM) && runs.is_to_connect(PROGRAM, PROGRAM));
        assert_eq!((runs.branched(branch + 1), runs.branched(branch)), (None, Some(PROGRAM)));
        assert!(runs.is_connected(PROGRAM, PROGRAM) && !runs.is_to_connect(PROGRAM, PROGRAM));
        runs.moved(PROGRAM, PROGRAM, NodeId(2));
        assert!(runs.branches.is_empty());
        let Again { branch, .. } = runs.again(PROGRAM, PROGRAM, (NodeId(2), NodeId(1))).expect("it can move on");
        assert_eq!(runs.stays(PROGRAM, PROGRAM), Some((asker, Answer::Stays { copy: 0, branch })));
        assert_eq!((runs.branched(branch), runs.branches.len()), (None, 0));
    }

    #[test]
    fn streams_that_cannot_follow_are_refused_by_name() {
        let refusal = |runs: &mut Runs| {
            runs.again(PROGRAM, PROGRAM, (NodeId(1), NodeId(2))).expect_err("it cannot move").to_string()
        };
        assert!(refusal(&mut Runs::default()).contains("nobody here knows"));
        let mut remote = runs(Asker::Remote { node: NodeId(2), id: 1 });
        assert!(refusal(&mut remote).contains("relayed by node n2 itself"));
        let mut ended = runs(Asker::Local(7));
        ended.ended(PROGRAM);
        assert!(refusal(&mut ended).contains("nobody here knows"));
    }
}
