//! Memory that comes after the process: the mover of the new node asks for what is needed, and the one of the old node sends that, and everything else when
//! nothing is asked for.
//!
//! Nobody else can bring it. So when the connection breaks before all has come, the process is lost, and with it the children that it has forked meanwhile.

use super::orders::{Held as Hold, Said};
use super::{carrier::wait, carrier::Carrier, carrier::Word};
use ckpt::ahead::Ahead;
use ckpt::held::Held;
use kern::areas::{areas, AreaFlags};
use kern::clock::monotonic_us;
use kern::faultpoint::reach;
use kern::pagemap::Run;
use kern::poll::Ready;
use kern::proc::root;
use link::Secure;
use minicbor::{Decode, Encode};
use std::os::fd::{AsRawFd, BorrowedFd};
use vocab::{Fault, Pid, Result};
use wire::carry::Piece;

/// From the new node's mover.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
enum Tell {
    /// The process needs the page at this address.
    #[n(0)]
    Want(#[n(0)] u64),
    /// So many bytes have been taken.
    #[n(1)]
    Got(#[n(0)] u64),
    /// Nothing more is needed.
    #[n(2)]
    Done,
}

/// Bytes on the way that nobody has asked for: what is asked for has to wait behind them.
const ON_THE_WAY: u64 = 1024 * 1024;
/// Microseconds, for what nobody tells.
const SOON: u64 = 1_000;
/// Bytes of the address before those of a piece. A piece without any says that all has been sent.
const ADDRESS: usize = 8;

fn send(link: &mut Secure, (at, bytes): (u64, Vec<u8>)) -> Result<u64> {
    let mut piece = Vec::with_capacity(ADDRESS + bytes.len());
    piece.extend_from_slice(&at.to_le_bytes());
    piece.extend_from_slice(&bytes);
    link.send(&Piece { bytes: piece })?;
    Ok(bytes.len() as u64)
}

/// Sends what is behind until nothing more is needed.
///
/// # Errors
/// `Gone` when the other side is; what keeps the memory from being read.
pub(super) fn serve(held: &Held, carrier: &mut Carrier) -> Result<()> {
    let (mut keeper, link) = (held.keeper()?, carrier.link());
    let (mut sent, mut got, mut over) = (0, 0, false);
    loop {
        while let Some(tell) = link.next::<Tell>()? {
            match tell {
                Tell::Want(at) => {
                    for block in keeper.wanted(at)? {
                        sent += send(link, block)?;
                    }
                }
                Tell::Got(bytes) => got += bytes,
                Tell::Done => return Ok(()),
            }
        }
        let room = !over && sent - got < ON_THE_WAY;
        if room {
            match keeper.another()? {
                Some(block) => sent += send(link, block)?,
                None => {
                    over = true;
                    link.send(&Piece { bytes: Vec::new() })?;
                }
            }
        }
        link.flush()?;
        let ready = Ready { writable: link.wants_write(), ..Ready::READ };
        // As long as there is room it is not waited.
        if !room {
            wait(&[(link.fd(), ready)], None)?;
        }
        link.receive()?;
    }
}

/// The agent gets a copy of this descriptor: so nobody goes on with zeroes if this mover ends.
pub(super) fn hold(bell: BorrowedFd<'_>, word: &mut Word) -> Result<()> {
    word.say(&Said::Hold(Hold { number: bell.as_raw_fd() }))
}

/// A process that is about to run without all of its memory.
pub(super) struct Pending {
    ahead: Ahead,
}

impl Pending {
    /// The agent has a copy of the descriptor if it is `held`, and gets one else.
    pub(super) fn new(ahead: Ahead, held: bool, word: &mut Word) -> Result<Pending> {
        if let Some(bell) = ahead.bell().filter(|_| !held) {
            hold(bell, word)?;
        }
        Ok(Pending { ahead })
    }

    /// Readable when something is needed.
    pub(super) fn bells(&self) -> Vec<BorrowedFd<'_>> {
        self.ahead.bells()
    }

    /// Brings all of it, while the process runs. If it cannot, the agent is told who is lost, and ends this mover.
    pub(super) fn fetch(mut self, pid: Pid, mut carrier: Carrier, word: &mut Word) -> Result<()> {
        reach("in fetches");
        match self.bring(carrier.link()) {
            Ok(()) => {
                reach("in has fetched");
                word.say(&Said::Whole)?;
                let link = carrier.link();
                link.send(&Tell::Done).and_then(|()| link.flush())
            }
            Err(fault) => self.lost(pid, fault, word),
        }
    }

    /// It cannot go on, since what it needs is gone.
    pub(super) fn lost(self, pid: Pid, fault: Fault, word: &mut Word) -> Result<()> {
        let fault = fault.doing(format!("bring the rest of the memory of {pid}"));
        word.say(&Said::Lost { fault, with: self.children(pid) })?;
        // What is missing stays missing until they have been killed.
        loop {
            word.wait()?;
        }
    }

    /// Others whose memory was to come: it has forked them.
    fn children(&self, pid: Pid) -> Vec<Pid> {
        let numbers = std::fs::read_dir(root()).into_iter().flatten().flatten();
        let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).map(Pid);
        let waits = |other: &Pid| {
            let all = areas(*other, true).unwrap_or_default();
            let open = all.into_iter().filter(|area| area.flags.contains(AreaFlags::USERFAULT));
            let open: Vec<Run> = open.map(|area| Run { start: area.start, end: area.end }).collect();
            *other != pid && self.ahead.has(&open)
        };
        pids.filter(waits).collect()
    }

    fn bring(&mut self, link: &mut Secure) -> Result<()> {
        let mut over = false;
        loop {
            for at in self.ahead.look()? {
                link.send(&Tell::Want(at))?;
            }
            if self.ahead.is_over() {
                return Ok(());
            }
            let came = link.next::<Piece>()?;
            let more = came.is_some();
            match came.as_ref().map(|piece| piece.bytes.split_first_chunk::<ADDRESS>()) {
                Some(Some((at, bytes))) => {
                    self.ahead.put(u64::from_le_bytes(*at), bytes)?;
                    link.send(&Tell::Got(bytes.len() as u64))?;
                }
                Some(None) => {
                    over = true;
                    self.ahead.has_all();
                }
                None => {}
            }
            link.flush()?;
            if more {
                continue;
            }
            let mut lines = vec![(link.fd(), Ready { writable: link.wants_write(), ..Ready::READ })];
            lines.extend(self.ahead.bells().into_iter().map(|bell| (bell, Ready::READ)));
            match wait(&lines, self.ahead.is_late().then(|| monotonic_us() + SOON)) {
                // Nobody tells when what was late can be done.
                Err(fault) if self.ahead.is_late() && fault.kind == vocab::Kind::Gone => {}
                waited => drop(waited?),
            }
            if !over {
                link.receive()?;
            }
        }
    }
}
