//! The thread that listens: to the daemon, to the channels of all copies, and to the other threads.

use super::asking::{Answered, Asking};
use super::channels::Channels;
use super::late;
use super::lines::Lines;
use super::program::window;
use super::show::Show;
use kern::relay::RELAY;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;
use vocab::{Exit, Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::run::{Window, LATE_RELAY};

/// The exit status of the first copy once it is known, as a wait status; -1 before.
pub(crate) static OUTCOME: AtomicI32 = AtomicI32::new(-1);

/// See the module.
pub(crate) struct Hub {
    channels: Arc<Channels>,
    asking: Option<Asking>,
    /// Where the daemon listens, and its successors; `None` when one of those was asked already.
    successor: Option<PathBuf>,
    /// One of those has said which nodes are lost.
    knows_lost: bool,
    /// The window that the programs were last told, where they have terminals.
    window: Option<Option<(u16, u16)>>,
    drained: bool,
    /// For the output of descendants: both streams.
    late_lines: [Option<Lines>; 2],
    /// To the main thread, for the streams of a program that comes here.
    to_main: OwnedFd,
    ends: Told,
}

/// How the copies have ended, to be told of after all.
#[derive(Default)]
struct Told {
    show: Show,
    copies: Vec<(NodeId, Option<Exit>)>,
}

impl Hub {
    pub(crate) fn new(
        channels: Arc<Channels>,
        asking: Asking,
        socket: PathBuf,
        to_main: OwnedFd,
        terminal: bool,
        late_lines: [Option<Lines>; 2],
    ) -> Hub {
        let window = terminal.then(window);
        let (asking, successor) = (Some(asking), Some(socket));
        Hub {
            channels,
            asking,
            successor,
            knows_lost: false,
            window,
            drained: false,
            late_lines,
            to_main,
            ends: Told::default(),
        }
    }

    /// It is told after all, as `show` says, how the copies on these nodes have ended.
    pub(super) fn telling(mut self, show: Show, nodes: &[NodeId]) -> Hub {
        self.ends = Told { show, copies: nodes.iter().map(|node| (*node, None)).collect() };
        self
    }

    /// Listens until the process ends.
    pub(crate) fn run(mut self) {
        if let Err(fault) = self.listen() {
            tracing::error!(%fault, "the relay has failed");
            self.channels.give_up_waiting(true, &format!("shoal: the relay has failed: {fault}\n"));
            RELAY.set_drained();
        }
    }

    fn listen(&mut self) -> Result<()> {
        if let Some(asking) = &self.asking {
            self.channels.listen(asking.as_fd())?;
        }
        let mut ready = Vec::new();
        // What came together with the first answer is there already.
        self.hear_daemon();
        loop {
            self.channels.wait(&mut ready)?;
            self.hear_daemon();
            self.ask_delivered();
            self.tell_passed();
            self.ask_successor();
            self.tell_window();
            let unfinished = self.channels.close_finished();
            if !self.drained && self.channels.all_marked() && self.ends_are_told() {
                self.drained = true;
                let here = self.channels.is_program_here();
                if here {
                    self.program_is_here();
                }
                if unfinished {
                    self.hand_over(here);
                }
                RELAY.set_drained();
            }
        }
    }

    /// The programs have ended, and descendants of theirs still have their streams open: a process of its own relays on,
    /// as the descendants themselves would write and read after a local program's end.
    fn hand_over(&mut self, apart: bool) {
        for (of, node) in self.channels.nodes() {
            self.late_lines.iter_mut().flatten().for_each(|lines| lines.moved((of.0, 0), of, node));
        }
        // From its beginning on, and with it what forks it: by that name a signal to the group passes it by, which would stop it.
        if let Err(fault) = kern::ns::set_name(LATE_RELAY) {
            tracing::warn!(%fault, "the relay of what descendants write");
        }
        match self.channels.hand_over(apart) {
            Ok(None) => {}
            Ok(Some(channels)) => {
                self.asking = None;
                late::relay(channels, std::mem::take(&mut self.late_lines));
                std::process::exit(0);
            }
            Err(fault) => tracing::warn!(%fault, "the streams of descendants are cut off"),
        }
    }

    /// The main thread, which becomes the program, gets its streams.
    fn program_is_here(&mut self) {
        if let Err(fault) = self.channels.send_home(self.to_main.as_fd()) {
            tracing::error!(%fault, "the program has no standard streams");
        }
    }

    /// The process is to end, as a daemon says that followed the one that we have asked, or (on a node) is linked to such a one; that one would
    /// have told which nodes are lost.
    /// From a lost node not even the end of its streams may come.
    fn ask_successor(&mut self) {
        if self.drained || self.asking.is_some() || !RELAY.is_ending() {
            return;
        }
        let Some(socket) = self.successor.take() else { return };
        let asked = Asking::connect(&socket).and_then(|mut asking| {
            asking.ask(&Ask::Nodes)?;
            self.channels.listen(asking.as_fd())?;
            Ok(asking)
        });
        match asked {
            Ok(asking) => self.asking = Some(asking),
            Err(fault) => tracing::debug!(%fault, "no successor of the daemon"),
        }
    }

    /// Before the programs are told what has been learnt: have they had their signals?
    fn ask_delivered(&mut self) {
        let Some(asking) = &mut self.asking else { return self.channels.tell_without_asking() };
        let pid = Pid(std::process::id() as i32);
        let mut copies = self.channels.to_ask().into_iter();
        if let Err(fault) = copies.try_for_each(|copy| asking.ask(&Ask::Delivered { pid, copy })) {
            self.lose_daemon(&fault);
        }
    }

    /// Descendants that come here may write from now on.
    fn tell_passed(&mut self) {
        let Some(asking) = &mut self.asking else { return };
        let mut passed = self.channels.take_passed().into_iter();
        if let Err(fault) = passed.try_for_each(|branch| asking.ask(&Ask::Passed { branch })) {
            self.lose_daemon(&fault);
        }
    }

    fn lose_daemon(&mut self, fault: &Fault) {
        // The streams do not need it; only those that have not been connected will never be.
        tracing::debug!(%fault, "the daemon has gone");
        self.asking = None;
        self.channels.daemon_gone(fault);
        if RELAY.is_ending() && self.successor.is_none() && !self.knows_lost {
            // Nobody else is asked, and what comes no more would be waited for.
            self.channels.give_up_waiting(true, &format!("shoal: the program's streams were cut off: {fault}\n"));
        }
    }

    fn hear_daemon(&mut self) {
        let Some(asking) = &mut self.asking else { return };
        // Taking what is there costs a call; asking whether something is there would cost the same.
        let received = asking.receive();
        let heard = loop {
            match self.asking.as_mut().map(Asking::next) {
                Some(Ok(Some(answered))) => {
                    if let Err(fault) = self.hear(answered) {
                        break Err(fault);
                    }
                }
                Some(Err(fault)) => break Err(fault),
                _ => break Ok(()),
            }
        };
        if let Err(fault) = received.and(heard) {
            self.lose_daemon(&fault);
        }
    }

    fn hear(&mut self, (answer, descriptor): Answered) -> Result<()> {
        match (answer, descriptor) {
            (Answer::Channel { copy, further }, Some(fd)) => {
                self.channels.connected(copy as usize, fd, further.as_ref())
            }
            (Answer::Stays { copy, branch }, _) => {
                self.channels.stays(copy as usize, branch);
                Ok(())
            }
            (Answer::Home { copy, branch }, _) => self.channels.comes_home(copy as usize, branch),
            (Answer::Alongside { copy, branch }, _) => {
                self.channels.comes_alongside(copy as usize, branch);
                Ok(())
            }
            (Answer::Delivered { copy }, _) => {
                self.channels.delivered(copy as usize);
                Ok(())
            }
            (Answer::NotStarted { copy, fault, status }, _) => {
                self.note(copy, Exit::Code(status));
                self.channels.give_up(copy as usize, Some(format!("shoal: {fault}\n")));
                Ok(())
            }
            (Answer::Ended { copy, exit }, _) => {
                self.note(copy, exit);
                match exit {
                    Exit::NodeLost => self.channels.lost(copy as usize),
                    _ => self.channels.ended(copy as usize),
                }
                Ok(())
            }
            (Answer::Nodes(rows), _) => {
                self.knows_lost = true;
                self.channels.lost_but(|node| rows.iter().any(|row| row.node == node && row.state != "down"));
                Ok(())
            }
            (Answer::NodeLost(node), _) => {
                self.channels.node_lost(node);
                Ok(())
            }
            // On a node: the daemon there is not linked to the one any more that knows what we have asked.
            (Answer::Failed(fault), _) => Err(fault),
            (other, _) => Err(Fault::wire(format!("the daemon said {other:?}"))),
        }
    }

    fn tell_window(&mut self) {
        let Some(told) = &mut self.window else { return };
        let now = window();
        if *told != now {
            *told = now;
            if let Some((rows, columns)) = now {
                self.channels.window(Window { rows, columns });
            }
        }
    }

    fn note(&mut self, copy: u32, exit: Exit) {
        if copy == 0 {
            OUTCOME.store(exit.to_status(), Ordering::SeqCst);
        }
        let show = self.ends.show;
        if let Some((node, end)) = self.ends.copies.get_mut(copy as usize) {
            *end = Some(exit);
            if let Some(line) = show.end(*node, exit) {
                // Where it cannot be written nobody is told.
                let _ = std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes());
            }
        }
    }

    /// Says how the copies have ended, where that is wanted, once it is known of all. False: it may still come.
    fn ends_are_told(&mut self) -> bool {
        let Told { show, copies } = &self.ends;
        if !show.tells_ends(copies.len()) {
            return true;
        }
        let ends: Vec<(NodeId, Exit)> = copies.iter().filter_map(|(node, end)| Some((*node, (*end)?))).collect();
        // A daemon that is gone says nothing, nor does one that has ended us.
        let more = ends.len() < copies.len() && self.asking.is_some() && !RELAY.is_ending();
        if !more {
            tell_ends(*show, &ends);
            self.ends = Told::default();
        }
        !more
    }
}

/// Says on standard error how copies have ended.
pub(super) fn tell_ends(show: Show, ends: &[(NodeId, Exit)]) {
    let lines: String = show.ends(ends).into_iter().map(|line| format!("bpsh: {line}\n")).collect();
    // Where it cannot be written nobody is told.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), lines.as_bytes());
}
