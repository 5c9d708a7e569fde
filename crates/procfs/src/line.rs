//! The connection to the daemon: it tells of ghosts, and passes on questions to nodes, and their answers.

use crate::asking::Line;
use crate::binds::{self, Change};
use crate::ghosts::Ghosts;
use crate::machines::Machines;
use kern::fuse::tree::Tree;
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use tracing::warn;
use vocab::{Fault, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::entry::Found;
use wire::frame;

/// Asks for ghosts, and starts the threads that hear of them and bind them from `tree`, which is mounted at `at`. What is returned beside ends when the daemon does.
///
/// # Errors
/// `Gone` when no daemon is there, `Sys` when a thread cannot be started.
pub(crate) fn open(
    socket: &Path,
    ghosts: Arc<Ghosts>,
    machines: Arc<Machines>,
    tree: Arc<Tree>,
    at: PathBuf,
) -> Result<(Line, Receiver<()>)> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("connect to {}", socket.display()));
    let stream = UnixStream::connect(socket).map_err(failed)?;
    let hears = stream.try_clone().map_err(failed)?;
    let line = Line::new(stream);
    line.ask(&Ask::Ghosts)?;
    let (tell, changes) = channel();
    let (over, end) = channel();
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    let known = ghosts.clone();
    let started = thread("binds").spawn(move || binds::follow(&changes, &known, &tree, &at));
    started.map_err(|e| Fault::io(&e, "start a thread"))?;
    let started = thread("line").spawn(move || hear(hears, &ghosts, &machines, &tell, &over));
    started.map_err(|e| Fault::io(&e, "start a thread"))?;
    Ok((line, end))
}

fn next(stream: &mut UnixStream) -> Result<Answer> {
    let mut head = [0u8; frame::HEAD];
    let gone = |_| Fault::gone("the daemon");
    stream.read_exact(&mut head).map_err(gone)?;
    // A whole frame of an empty body tells whether the length is allowed, before anything is allocated for it.
    frame::split(&head)?;
    let mut body = vec![0; u32::from_be_bytes(head) as usize];
    stream.read_exact(&mut body).map_err(gone)?;
    frame::decode(&body)
}

fn hear(mut stream: UnixStream, ghosts: &Ghosts, machines: &Machines, tell: &Sender<Change>, over: &Sender<()>) {
    crate::run_first();
    // Of each question, what has come.
    let mut pieces: HashMap<u64, Vec<u8>> = HashMap::new();
    loop {
        match next(&mut stream) {
            Ok(Answer::Ghosts { stand, gone }) => {
                // A number may have gone and come in one: it has gone first.
                for pid in &gone {
                    if let Some(ghost) = ghosts.gone(*pid) {
                        machines.gone(ghost.node(), *pid);
                    }
                }
                let (mut new, mut stirred) = (Vec::new(), Vec::new());
                for (pid, node) in stand {
                    machines.stands(node);
                    match ghosts.stand(pid, node) {
                        true => new.push(pid),
                        false => {
                            machines.stirs(node, pid);
                            stirred.push(pid);
                        }
                    }
                }
                let _ = tell.send(Change { new, stirred, gone });
            }
            Ok(Answer::Entries { id, found, last, errno }) => {
                let so_far = pieces.entry(id).or_default();
                so_far.extend(found);
                if last {
                    let all = pieces.remove(&id).unwrap_or_default();
                    machines.answered(id, decode(&all), errno);
                }
            }
            Ok(other) => warn!(?other, "the daemon says what it was not asked"),
            Err(fault) => {
                warn!("/proc shows ghosts: {fault}");
                let _ = over.send(());
                return;
            }
        }
    }
}

/// What is whole of it.
fn decode(mut bytes: &[u8]) -> Vec<(Pid, Found)> {
    let mut all = Vec::new();
    while let Ok(Some((body, length))) = frame::split(bytes) {
        if let Ok(found) = frame::decode::<Found>(body) {
            all.push((found.pid, found));
        }
        bytes = &bytes[length..];
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::entry::{Content, Entry};

    #[test]
    fn what_is_whole_is_taken_and_what_is_not_is_left() {
        let entry = Entry { path: b"stat".to_vec(), mode: 0, content: Content::Text(b"7 (x) S".to_vec()) };
        let found = |pid| Found { pid: Pid(pid), uid: 1, gid: 2, entries: vec![entry.clone()] };
        let mut bytes = Vec::new();
        for pid in [7, 8] {
            frame::encode(&found(pid), &mut bytes).expect("short");
        }
        assert_eq!(decode(&bytes), [(Pid(7), found(7)), (Pid(8), found(8))]);
        assert_eq!(decode(&bytes[..bytes.len() - 1]), [(Pid(7), found(7))]);
        assert_eq!(decode(&[0xff; 9]), []);
    }
}
