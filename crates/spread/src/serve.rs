//! The side that is asked.

use crate::line::{Line, Said, Want, PATIENCE};
use crate::spool::{Progress, Spool};
use kern::poll::{poll, Ready};
use kern::sock;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use tracing::debug;
use vocab::{Fault, Result};

/// Bytes of one message.
const PIECE: u64 = 256 * 1024;
/// Connections at a time, for each of which there is a thread: strangers, who have no key, hold one for [`PATIENCE`].
const MOST: usize = 2048;
/// Milliseconds that a peer may leave bytes unacknowledged.
const UNACKNOWLEDGED_MS: u32 = 3_000;

/// Where a machine is asked.
pub struct Listener {
    fd: OwnedFd,
    pub port: u16,
}

/// # Errors
/// `Sys` as listen(2).
pub fn listen() -> Result<Listener> {
    let fd = sock::tcp_listen_anywhere()?;
    let port = sock::local_address(fd.as_fd())?.port();
    Ok(Listener { fd, port })
}

/// Gives all who have the key what is there and what comes, as long as the process lives.
///
/// # Errors
/// As [`each`].
pub fn serve(listener: Listener, key: [u8; 32], spool: Arc<Spool>) -> Result<()> {
    each(listener, key, move |line| give(line, &spool))
}

/// Has `answer` talk to each machine that has the key, in a thread of its own, as long as the process lives.
///
/// # Errors
/// `Sys` where no thread can be made.
pub fn each(
    listener: Listener,
    key: [u8; 32],
    answer: impl Fn(&mut Line) -> Result<()> + Send + Sync + 'static,
) -> Result<()> {
    let (open, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
    let take = move || loop {
        let _ready = poll(&[(listener.fd.as_fd(), Ready::READ)], -1);
        while let Ok(Some(fd)) = sock::accept(listener.fd.as_fd()) {
            if open.fetch_add(1, SeqCst) >= MOST {
                open.fetch_sub(1, SeqCst);
                continue;
            }
            let (answer, open) = (answer.clone(), open.clone());
            let one = move || {
                let tuned = sock::tcp_tune(fd.as_fd(), UNACKNOWLEDGED_MS);
                let done = tuned.and_then(|()| Line::taken(fd, &key)).and_then(|mut line| answer(&mut line));
                open.fetch_sub(1, SeqCst);
                if let Err(fault) = done {
                    debug!(%fault, "a machine that asked has gone");
                }
            };
            if thread("gives", one).is_err() {
                break;
            }
        }
    };
    thread("asked", take)
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(name.into()).stack_size(256 << 10).spawn(body);
    started.map(drop).map_err(|e| Fault::io(&e, "start a thread"))
}

fn give(line: &mut Line, spool: &Spool) -> Result<()> {
    let Want { from: mut at } = line.hear()?;
    let mut buffer = Vec::new();
    loop {
        let Progress { length, end } = spool.wait(at, PATIENCE / 4);
        if at > length {
            return Err(Fault::wire(format!("byte {at} of a stream is wanted, of which {length} have come")));
        }
        if at == length {
            match end {
                None => line.say(&Said::Alive)?,
                Some(Ok(sum)) => return line.say(&Said::End(length, (sum >> 64) as u64, sum as u64)),
                Some(Err(why)) => return line.say(&Said::Cut(why.to_string())),
            }
            continue;
        }
        buffer.resize((length - at).min(PIECE) as usize, 0);
        spool.copy(at, &mut buffer)?;
        at += buffer.len() as u64;
        let said = Said::Bytes(std::mem::take(&mut buffer));
        line.say(&said)?;
        if let Said::Bytes(back) = said {
            buffer = back;
        }
    }
}
