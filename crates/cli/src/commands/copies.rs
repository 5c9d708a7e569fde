//! The children of bproc_vrfork that are made of one image: what writes it and gives it away, and what becomes a copy on a node.
//!
//! The library starts one `copy-origin`, and for each copy a `shoal run` of `shoal copy`, which knows from its environment whom to ask. It speaks with the origin by lines: `at PORT KEY` when
//! it listens, then it is told the number of the process, says `written`, and of each copy `done N` or `failed N WHY`; of all, if the process could not be written, `failed all WHY`. It ends when
//! its input does, and with it those who pass the image on.

use super::checkpoint::{into_stream, is_ours_to_trace};
use super::place::{self, Place};
use ckpt::claims::Owner;
use ckpt::dump::{dump, Then};
use ckpt::survey::Given;
use ckpt::whole::copy_into;
use clap::Args;
use kern::own::{fork, take_standard};
use kern::proc::Proc;
use spread::{fetch, join, listen, serve, tell, Roll, Spool, Told};
use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use vocab::{Fault, Pid, Result};

/// Where a copy learns whom to ask: `ADDRESS:PORT KEY NUMBER`.
const COPY_OF: &str = "SHOAL_COPY_OF";
/// Where a large image is kept, if files without names can be there; else in memory.
const KEPT: &str = "/tmp";
/// In bytes.
const LARGE: u64 = 64 << 20;

/// Write a process, and give it to those who are to be its copies
#[derive(Args, Debug)]
pub(crate) struct CopyOrigin {
    /// How many there are to be
    copies: usize,
}

impl CopyOrigin {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let (stream, roll) = (listen()?, listen()?);
        let key = link::random()?;
        say(&format!("at {} {}", roll.port, hexadecimal(&key)));
        let mut input = std::io::stdin().lock();
        let mut line = String::new();
        input.read_line(&mut line).map_err(|e| Fault::io(&e, "hear which process it is"))?;
        let Ok(pid) = line.trim_end().parse().map(Pid) else { return Ok(ExitCode::FAILURE) };
        let spool = spool(Proc::open("/proc")?.status(pid).map_or(0, |status| status.rss_kb * 1024))?;
        let list = Roll::new(key, stream.port, spool.clone(), self.copies);
        serve(stream, key, spool.clone())?;
        let answering = list.answering.clone();
        list.call(roll, |number, what| match what[..] {
            [] => say(&format!("done {number}")),
            _ => say(&format!("failed {number} {}", hexadecimal(&what))),
        })?;
        match written(pid, &spool).and_then(|()| spool.finish(None)) {
            Ok(()) => say("written"),
            Err(fault) => {
                say(&format!("failed all {}", hexadecimal(&encoded(&fault))));
                spool.fail(fault);
            }
        }
        let _over = std::io::copy(&mut input, &mut std::io::sink());
        // A copy runs when it has its answer.
        drop(answering.write());
        Ok(ExitCode::SUCCESS)
    }
}

fn spool(bytes: u64) -> Result<Arc<Spool>> {
    match bytes {
        LARGE.. => Spool::new(Path::new(KEPT)),
        _ => Spool::in_memory(),
    }
}

/// Whoever hears it may have gone, and then this process ends too.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _gone = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encoded(fault: &Fault) -> Vec<u8> {
    local::moves::encoded(fault).unwrap_or_else(|_| vec![0])
}

fn written(pid: Pid, spool: &Arc<Spool>) -> Result<()> {
    let Place::Here(given) = place::of(pid)? else {
        return Err(Fault::gone(format!("process {pid} is on another node")));
    };
    is_ours_to_trace(pid)?;
    // A copy has the streams of the command that it was.
    let given = Given { streams: true, ..given };
    into_stream(Into(spool.clone()), |out| dump(pid, given, out, Then::GoesOn, false)).map(drop)
}

struct Into(Arc<Spool>);

impl Write for Into {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let kept = self.0.append(bytes).map(|()| bytes.len());
        kept.map_err(|fault| std::io::Error::other(fault.to_string()))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// This process is to be a copy of another one
#[derive(Args, Debug)]
pub(crate) struct Copy {}

impl Copy {
    /// Another process makes this one the copy, which is not its child: what it becomes has none. Returns when that has failed before it has touched this one.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let of = Origin::named()?;
        let own = Pid(std::process::id() as i32);
        let failed = |e: std::io::Error| Fault::io(&e, "have this process become a copy");
        let (mut line, theirs) = UnixStream::pair().map_err(failed)?;
        let Some(between) = fork()? else {
            drop(line);
            if !fork().is_ok_and(|child| child.is_none()) {
                kern::ns::exit(0);
            }
            return of.copies(own, theirs);
        };
        drop(theirs);
        // With SIGCHLD ignored, as the caller of vrfork may have it, there is no status to be had.
        let _no_status = kern::wait::ended(between);
        line.write_all(&[1]).map_err(failed)?;
        let _ended = line.read(&mut [0]);
        Ok(ExitCode::FAILURE)
    }
}

/// The origin of a copy, as the library has written it down.
struct Origin {
    at: SocketAddr,
    key: [u8; 32],
    number: u64,
}

impl Origin {
    fn named() -> Result<Origin> {
        let text = std::env::var(COPY_OF).unwrap_or_default();
        parse(&text).ok_or_else(|| Fault::refused(format!("{COPY_OF} does not say whose copy this is to be")))
    }

    /// Makes process `pid` the copy, and gives the image to others for as long as there are any.
    fn copies(&self, pid: Pid, mut told: UnixStream) -> Result<ExitCode> {
        told.read_exact(&mut [0]).map_err(|e| Fault::io(&e, "hear of who is to be a copy"))?;
        // The streams are the copy's own: who waits for their end waits for nobody else.
        let null = || File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from);
        let nulls = [null(), null(), null()].map(|null| null.map_err(|e| Fault::io(&e, "open /dev/null")));
        let [input, output, errors] = nulls;
        take_standard([input?, output?, errors?])?;
        // What an image names in /proc may be this process, to which the kernel lets itself (linux: `__ptrace_may_access`, same_thread_group).
        kern::sched::set_not_dumpable()?;
        let told = self.make(pid).or_else(|fault| tell(self.at, &self.key, self.number, encoded(&fault)));
        // If nobody hears it, the end of the process tells.
        if let Ok(told) = told {
            told.stays();
        }
        Ok(ExitCode::SUCCESS)
    }

    /// A copy runs only when it is known to the origin: of one that is unknown there its caller makes another.
    fn make(&self, pid: Pid) -> Result<Told> {
        let listener = listen()?;
        let (plan, bytes) = join(self.at, &self.key, self.number, listener.port)?;
        let spool = spool(bytes)?;
        serve(listener, self.key, spool.clone())?;
        fetch(&plan, self.number, &spool)?;
        // The image is what its user likes: it gets nothing by a right that this program has from its file.
        let owner = (!kern::own::is_root()).then(|| Owner { uid: kern::own::user() });
        let mut told = Err(Fault::bug("a copy that nobody was told of"));
        copy_into(pid, spool.reader(), owner, || {
            kern::capability::give_up()?;
            told = Ok(tell(self.at, &self.key, self.number, Vec::new())?);
            Ok(())
        })?;
        told
    }
}

fn parse(text: &str) -> Option<Origin> {
    let words: Vec<&str> = text.split(' ').collect();
    let [at, hex, number] = words[..] else { return None };
    let mut key = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
    }
    Some(Origin { at: at.parse().ok()?, key, number: number.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_has_written_down() {
        let key = hexadecimal(&[0xa5; 32]);
        let origin = parse(&format!("10.0.0.1:99 {key} 7")).expect("whole");
        assert_eq!((origin.at.port(), origin.key, origin.number), (99, [0xa5; 32], 7));
        for bad in ["", "10.0.0.1:99", &format!("x {key} 7"), &format!("10.0.0.1:99 {key} x"), "10.0.0.1:99 00 7"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
