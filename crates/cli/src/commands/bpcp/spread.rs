//! `bpcp` onto several nodes: one process reads the files, the stream goes along a tree, and each node writes them.
//!
//! The processes on the nodes are those of one `shoal run`, whose input and output are the lines that [`super::passed_on`] tells of.

use super::operand::Operand;
use super::{duplicate, ended, exit, tell, Bpcp};
use crate::commands::nodes;
use client::run::{run, Ends, Hold, Run, Show, END};
use kern::clock::monotonic_us;
use kern::poll::{poll, Ready};
use kern::{own, sys};
use spread::{fan_out, listen, serve, Hop, Listener, Plan, Spool};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use vocab::{Fault, NodeId, Pid, Result};
use wire::run::Target;

/// When so many microseconds have passed since one half of the nodes were there, those that are not yet are late: they get the stream from here.
const LATE_US: u64 = 1_000_000;

/// Copies from here or from one node to `place` on all of these nodes; whether all was copied to all.
pub(super) fn copy(bpcp: &Bpcp, sources: &[Operand], place: &OsStr, to: Vec<NodeId>, hold: Hold) -> Result<bool> {
    let node = sources.first().and_then(|source| source.node);
    if sources.iter().any(|source| source.node != node) {
        return Err(Fault::refused("copy from several machines to several nodes: from one at a time"));
    }
    let (listener, key) = (listen()?, link::random()?);
    let spool = Spool::new(Path::new("/tmp"))?;
    let paths = sources.iter().map(|source| source.path.clone()).collect();
    let (from, stream) = sys::pipe()?;
    let null = File::open("/dev/null").map_err(|e| Fault::io(&e, "open /dev/null"))?;
    let sender =
        bpcp.start(bpcp.side(node, None, paths), node, [null.into(), stream, duplicate(&std::io::stderr())?], hold)?;
    let mut nodes = Nodes::start(bpcp, sources.len() > 1, place, to, hold)?;
    let port = listener.port;
    let filled = fill(from, sender, listener, key, spool.clone())?;
    let all = nodes.serve(&Origin { key, port, spool: &spool, guess: size(sources) }, bpcp.show);
    let sent = filled.join().map_err(|_| Fault::bug("the thread that keeps the stream has failed"))?;
    Ok(sent? & all?)
}

/// Bytes of all sources, about: a tree of files is taken for large.
fn size(sources: &[Operand]) -> u64 {
    let of = |source: &Operand| match (source.node, std::fs::metadata(&source.path)) {
        (None, Ok(found)) if found.is_file() => found.len(),
        _ => 64 << 20,
    };
    sources.iter().map(of).sum()
}

/// Keeps the stream, and gives it to who asks. The thread returns whether the sender could read all.
fn fill(
    from: OwnedFd,
    sender: Pid,
    listener: Listener,
    key: [u8; 32],
    spool: Arc<Spool>,
) -> Result<std::thread::JoinHandle<Result<bool>>> {
    serve(listener, key, spool.clone())?;
    let keep = move || {
        let done = keep(File::from(from), &spool);
        let sent = done.is_ok() && ended(sender)?;
        match done {
            Ok(()) => spool.finish(None)?,
            Err(fault) => {
                spool.fail(fault.clone());
                return Err(fault);
            }
        }
        Ok(sent)
    };
    std::thread::Builder::new().spawn(keep).map_err(|e| Fault::io(&e, "start a thread"))
}

fn keep(mut from: File, spool: &Spool) -> Result<()> {
    let mut buffer = vec![0; super::record::PIECE];
    loop {
        match from.read(&mut buffer).map_err(|e| Fault::io(&e, "read what is to be copied"))? {
            0 => return Ok(()),
            count => spool.append(&buffer[..count])?,
        }
    }
}

/// Where the stream begins.
struct Origin<'s> {
    key: [u8; 32],
    port: u16,
    spool: &'s Spool,
    guess: u64,
}

/// A node, as far as is known. The numbers are in the order in which they come.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stands {
    /// Nothing has been heard of it.
    Starts,
    /// The node waits for the plan.
    Waits(Hop),
    /// The node has a plan, and this place in it.
    Has(usize),
    Done,
    Failed,
}

/// The processes on the nodes.
struct Nodes {
    relay: Pid,
    /// Input of all, while they are needed.
    input: Option<File>,
    output: File,
    /// Output that is not a whole line yet.
    rest: Vec<u8>,
    addresses: BTreeMap<NodeId, IpAddr>,
    stand: BTreeMap<NodeId, Stands>,
    /// Of the places of the plan.
    placed: Vec<NodeId>,
}

impl Nodes {
    fn start(bpcp: &Bpcp, several: bool, place: &OsStr, to: Vec<NodeId>, hold: Hold) -> Result<Nodes> {
        let rows = nodes::nodes(&mut bpcp.daemon.connect()?)?;
        let address = |text: &str| text.parse::<IpAddr>().or_else(|_| text.parse::<SocketAddr>().map(|both| both.ip()));
        let addresses = rows.iter().filter_map(|row| Some((row.node, address(&row.address).ok()?))).collect();
        let stand = to.iter().map(|node| (*node, Stands::Starts)).collect();
        let (theirs, input) = sys::pipe()?;
        let (output, to_us) = sys::pipe()?;
        let mut side = bpcp.side(None, Some(several), vec![place.to_os_string()]);
        side.passes_on = true;
        let show = Show { numbers: true, ends: Ends::Each, ..Show::default() };
        let asked = Run {
            target: Target::Nodes(to),
            terminal: false,
            prefix: true,
            show,
            argv: side.words(),
            file: None,
            numbers: Vec::new(),
            sees: Default::default(),
            surroundings: Default::default(),
        };
        let errors = duplicate(&std::io::stderr())?;
        let caller = Pid(std::process::id() as i32);
        let Some(relay) = own::fork()? else {
            // The relay's input ends when this process says so.
            drop((input, output));
            let ready = own::take_standard([theirs, to_us, errors]);
            let ready = ready.and_then(|()| own::die_with_parent(vocab::Sig::KILL, caller));
            let in_root = ready.and_then(|()| std::env::set_current_dir("/").map_err(|e| Fault::io(&e, "enter /")));
            own::complain(in_root.map_or_else(|fault| fault, |()| run(&asked, bpcp.daemon.socket(), hold)));
            exit(false)
        };
        let (input, output) = (Some(input.into()), output.into());
        Ok(Nodes { relay, input, output, rest: Vec::new(), addresses, stand, placed: Vec::new() })
    }

    /// Until all have what they can have, and have ended; whether all have all. With `show` it is said from whom each had the end.
    fn serve(&mut self, origin: &Origin<'_>, show: bool) -> Result<bool> {
        let mut late_from = None;
        while self.stand.values().any(|stands| !matches!(stands, Stands::Done | Stands::Failed)) {
            self.plan(origin, &mut late_from)?;
            let left = late_from.map_or(-1, |at: u64| (at.saturating_sub(monotonic_us()) / 1000) as i32 + 1);
            let ready = poll(&[(self.output.as_fd(), Ready::READ)], left);
            if ready.is_ok_and(|ready| ready[0] != Ready::default()) && !self.hear(show)? {
                break;
            }
        }
        self.input = None;
        while self.hear(show)? {}
        ended(self.relay)?;
        Ok(self.stand.values().all(|stands| *stands == Stands::Done))
    }

    /// Says who has the stream from whom, once for those that are there in time, and again for each that is late.
    fn plan(&mut self, origin: &Origin<'_>, late_from: &mut Option<u64>) -> Result<()> {
        let count = |is: fn(&Stands) -> bool| self.stand.values().filter(|stands| is(stands)).count();
        let (starting, waiting) = (count(|s| *s == Stands::Starts), count(|s| matches!(s, Stands::Waits(_))));
        if waiting >= self.stand.len().div_ceil(2) && late_from.is_none() {
            *late_from = Some(monotonic_us() + LATE_US);
        }
        let first = self.placed.is_empty();
        let late = late_from.is_some_and(|at| monotonic_us() >= at) || !first;
        if waiting == 0 || starting > 0 && !late {
            return Ok(());
        }
        let known = if origin.spool.has_ended() { origin.spool.length() } else { origin.guess };
        let children = if first { fan_out(known, waiting) } else { usize::MAX };
        let mut hops = Vec::new();
        for (node, stands) in &mut self.stand {
            if let Stands::Waits(hop) = stands {
                hops.push(hop.clone());
                self.placed.push(*node);
                *stands = Stands::Has(self.placed.len());
            }
        }
        *late_from = None;
        let line = format!("{}\n", Plan { key: origin.key, children, port: origin.port, hops });
        let told = self.input.as_mut().map_or(Ok(()), |input| input.write_all(line.as_bytes()));
        told.map_err(|e| Fault::io(&e, "tell the nodes who has the files from whom"))
    }

    /// Takes what has come, for which it waits. False: nothing more will come.
    fn hear(&mut self, show: bool) -> Result<bool> {
        let mut buffer = vec![0; 16 << 10];
        let count = self.output.read(&mut buffer).map_err(|e| Fault::io(&e, "hear of the nodes"))?;
        self.rest.extend_from_slice(&buffer[..count]);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.line(&String::from_utf8_lossy(&line), show);
        }
        Ok(count > 0)
    }

    fn line(&mut self, line: &str, show: bool) {
        let Some((node, said)) = line.trim_end().split_once(": ") else { return };
        let Some(node) = node.parse().ok().map(NodeId) else { return };
        let next = match self.stand.get(&node) {
            Some(stands) => said_by(stands, said, |port, token| self.hop(node, port, token)),
            None => return,
        };
        let status = said.strip_prefix(END).filter(|_| next == Stands::Failed && self.stand.get(&node) != Some(&next));
        if let Some(status) = status {
            tell(&format!("{node}: ended with status {status} before it had everything"));
        }
        if let (true, Some(from)) = (show, said.strip_prefix("done ").and_then(|from| from.parse::<usize>().ok())) {
            let name =
                from.checked_sub(1).and_then(|at| self.placed.get(at)).map_or("this machine".into(), NodeId::to_string);
            println!("{node} from {name}");
        }
        self.stand.insert(node, next);
    }

    fn hop(&self, node: NodeId, port: u16, token: u64) -> Option<Hop> {
        let ip = *self.addresses.get(&node)?;
        let any: IpAddr = if ip.is_ipv4() { [0u8; 4].into() } else { [0u8; 16].into() };
        // No packet is sent: the kernel says from which of its addresses it would be.
        let socket = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect((ip, port)).map(|()| socket)).ok()?;
        Some(Hop { token, address: SocketAddr::new(ip, port), origin: socket.local_addr().ok()?.ip() })
    }
}

/// The next state of a node, by what its process says or what is said of that one's end.
fn said_by(now: &Stands, said: &str, hop: impl FnOnce(u16, u64) -> Option<Hop>) -> Stands {
    if let Some(status) = said.strip_prefix(END) {
        return match now {
            Stands::Done | Stands::Failed => now.clone(),
            _ if status == "0" => Stands::Done,
            _ => Stands::Failed,
        };
    }
    match (now, &said.split(' ').collect::<Vec<_>>()[..]) {
        (Stands::Starts, ["at", port, token]) => {
            let numbers = port.parse().ok().zip(u64::from_str_radix(token, 16).ok());
            numbers.and_then(|(port, token)| hop(port, token)).map_or(Stands::Failed, Stands::Waits)
        }
        (Stands::Has(_), ["done", _]) => Stands::Done,
        (Stands::Has(_), ["failed"]) => Stands::Failed,
        _ => now.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_in_each_state() {
        let hop = |port, token| {
            let ip = IpAddr::from([10, 0, 0, 1]);
            (port != 1).then_some(Hop { token, address: SocketAddr::new(ip, port), origin: ip })
        };
        let waits = || Stands::Waits(hop(7, 0xab).expect("a hop"));
        let all = [Stands::Starts, waits(), Stands::Has(1), Stands::Done, Stands::Failed];
        let after = |said: &str| all.iter().map(|now| said_by(now, said, hop)).collect::<Vec<_>>();
        let [starts, waiting, has, done, failed] = all.clone();
        assert_eq!(after("at 7 ab"), [waiting.clone(), waiting.clone(), has.clone(), done.clone(), failed.clone()]);
        assert_eq!(after("at 1 ab")[0], failed, "nobody knows where it is");
        assert_eq!(after("at x ab")[0], failed);
        assert_eq!(after("done 3"), [starts.clone(), waiting.clone(), done.clone(), done.clone(), failed.clone()]);
        assert_eq!(after("failed"), [starts.clone(), waiting.clone(), failed.clone(), done.clone(), failed.clone()]);
        assert_eq!(after("=ended 0"), [done.clone(), done.clone(), done.clone(), done.clone(), failed.clone()]);
        assert_eq!(after("=ended 137"), [failed.clone(), failed.clone(), failed.clone(), done, failed]);
        assert_eq!(after("anything else"), all);
    }
}
