//! `bpcp [-r] [-p] FILE… [NODE:]PLACE`: copies files from and to nodes, over the standard streams of `shoal run`.
//!
//! One process reads and one writes, each on its machine; nothing but shoal is needed there.

mod operand;
mod passed_on;
mod receive;
mod record;
mod send;
mod spread;

use super::Daemon;
use client::run::{run, Hold, Run, Show};
use kern::{capability, own, signal, sys, wait};
use operand::Operand;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use vocab::{Exit, Fault, NodeId, Pid, Result, Sig, SigSet};
use wire::ask::{Answer, Ask};
use wire::run::Target;

/// This program's own file, also in a process that a node's daemon makes for a program.
const OWN: &str = "/proc/self/exe";

/// Copy files to or from nodes, or between nodes: bpcp FILE... NODE:PLACE, bpcp FILE... NODES:PLACE
#[derive(clap::Args, Debug)]
pub(crate) struct Bpcp {
    /// Directories with all that is in them; links in them stay links
    #[arg(short = 'r')]
    recursive: bool,
    /// Keep modes, times and (as root) owners
    #[arg(short = 'p')]
    preserve: bool,
    #[command(flatten)]
    daemon: Daemon,
    /// Say from which node each of several had it
    #[arg(long)]
    show: bool,
    /// What to copy: FILE, or NODE:FILE, where NODE is 3, n3, .3 or master; the last is where to, which may be several nodes: 0-7,9:PLACE, up:PLACE
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    files: Vec<OsString>,
}

impl Bpcp {
    pub(crate) fn run(self, hold: Hold) -> Result<ExitCode> {
        let mut operands = self.files.iter().map(|file| Operand::parse(file)).collect::<Result<Vec<_>>>()?;
        self.find_names(&mut operands)?;
        let nodes = self.several(&mut operands)?;
        if operands.iter().any(|operand| operand.node.is_some()) {
            let here = match self.daemon.connect()?.ask(&Ask::Where { pid: Pid::NONE })? {
                Answer::Where { node, .. } => node,
                other => return Err(Fault::wire(format!("the daemon answered Where with {other:?}"))),
            };
            operands.iter_mut().filter(|operand| operand.node == Some(here)).for_each(|operand| operand.node = None);
        }
        let Some((place, sources)) = operands.split_last() else { return Err(Fault::refused("nothing to copy")) };
        let mut all = true;
        if let Some(nodes) = nodes {
            return spread::copy(&self, sources, &place.path, nodes, hold).map(status);
        }
        for of_one in sources.chunk_by(|one, next| one.node == next.node) {
            all &= self.copy(of_one, place, sources.len() > 1, hold)?;
        }
        Ok(status(all))
    }

    /// Numbers in place of names of nodes.
    fn find_names(&self, operands: &mut [Operand]) -> Result<()> {
        let mut lists = operands.iter_mut().filter(|operand| operand.nodes.is_some()).peekable();
        if lists.peek().is_none() {
            return Ok(());
        }
        let rows = super::nodes::nodes(&mut self.daemon.connect()?)?;
        for operand in lists {
            let list = super::node_names::numbers(operand.nodes.as_deref().unwrap_or_default(), &rows)?;
            match list.parse() {
                Ok(node) => (operand.node, operand.nodes) = (Some(node), None),
                Err(_) => operand.nodes = Some(list),
            }
        }
        Ok(())
    }

    /// The nodes of the place, if these are several.
    fn several(&self, operands: &mut [Operand]) -> Result<Option<Vec<NodeId>>> {
        let (places, sources) = match operands.split_last_mut() {
            Some((place, sources)) => (place, sources),
            None => return Ok(None),
        };
        if let Some(spec) = sources.iter().find_map(|source| source.nodes.as_ref()) {
            return Err(Fault::refused(format!("{spec:?} is not one node: files are copied from one at a time")));
        }
        let Some(spec) = &places.nodes else { return Ok(None) };
        let rows = super::nodes::nodes(&mut self.daemon.connect()?)?;
        let known: Vec<(NodeId, &str)> = rows.iter().map(|row| (row.node, row.state.as_str())).collect();
        let chosen = vocab::select(spec, &known)?;
        match chosen[..] {
            [] => Err(Fault::gone(format!("node list {spec:?}: no node is of these"))),
            [one] => {
                places.node = Some(one);
                Ok(None)
            }
            _ if chosen.contains(&NodeId::FRONT) => {
                Err(Fault::refused("copy to the front end among other nodes: that is a copy of its own"))
            }
            _ => Ok(Some(chosen)),
        }
    }

    /// From one machine to another; whether all was copied.
    fn copy(&self, sources: &[Operand], place: &Operand, several: bool, hold: Hold) -> Result<bool> {
        let paths = sources.iter().map(|source| source.path.clone()).collect();
        let node = sources.first().and_then(|source| source.node);
        let (from, to) = sys::pipe()?;
        let null = || Ok(File::open("/dev/null").map_err(|e| Fault::io(&e, "open /dev/null"))?.into());
        let (input, output, errors) = (null()?, duplicate(&std::io::stdout())?, || duplicate(&std::io::stderr()));
        let sender = self.start(self.side(node, None, paths), node, [input, to, errors()?], hold)?;
        let receiver = self.side(place.node, Some(several), vec![place.path.clone()]);
        let receiver = self.start(receiver, place.node, [from, output, errors()?], hold);
        let received = receiver.and_then(ended);
        Ok(ended(sender)? & received?)
    }

    /// What sends, or receives (several things, or one).
    fn side(&self, node: Option<NodeId>, receives: Option<bool>, paths: Vec<OsString>) -> Carry {
        Carry {
            receive: receives.is_some(),
            several: receives == Some(true),
            passes_on: false,
            directory: std::env::current_dir().unwrap_or_else(|_deleted| PathBuf::from("/")),
            name: node.map(|node| node.to_string()),
            recursive: self.recursive,
            preserve: self.preserve,
            paths,
        }
    }

    /// A process that does it, here or as `shoal run` for a node. A sender ends with this process; a receiver sees the end of the stream then, and
    /// leaves nothing half done.
    fn start(&self, side: Carry, node: Option<NodeId>, streams: [OwnedFd; 3], hold: Hold) -> Result<Pid> {
        let caller = Pid(std::process::id() as i32);
        if let Some(child) = own::fork()? {
            return Ok(child);
        }
        let ready = own::take_standard(streams);
        let ready = if side.receive { ready } else { ready.and_then(|()| own::die_with_parent(Sig::KILL, caller)) };
        let fault = ready.and_then(|()| match node {
            None => give_up_favour().and_then(|()| side.run()).map(|status| exit(status == ExitCode::SUCCESS)),
            Some(node) => {
                // Every machine has this one.
                std::env::set_current_dir("/").map_err(|e| Fault::io(&e, "enter /"))?;
                let (target, argv) = (Target::Nodes(vec![node]), side.words());
                let (terminal, prefix, show, numbers) = (false, false, Show::default(), Vec::new());
                let asked = Run {
                    target,
                    terminal,
                    prefix,
                    show,
                    argv,
                    file: None,
                    numbers,
                    sees: Default::default(),
                    surroundings: Default::default(),
                };
                Err(run(&asked, self.daemon.socket(), hold))
            }
        });
        if let Err(fault) = fault {
            own::complain(fault);
        }
        exit(false)
    }
}

fn status(all: bool) -> ExitCode {
    if all {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What reads or writes files here needs nothing that the program's file may give to all users.
fn give_up_favour() -> Result<()> {
    if own::is_favoured() {
        capability::give_up()
    } else {
        Ok(())
    }
}

fn exit(good: bool) -> ! {
    std::process::exit(i32::from(!good))
}

fn duplicate(stream: &impl AsFd) -> Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned().map_err(|e| Fault::io(&e, "share a stream"))
}

fn ended(child: Pid) -> Result<bool> {
    let waited = wait::ended(child).map_err(|errno| Fault::sys(errno, "wait for a part of bpcp"))?;
    Ok(waited.change == wait::Change::Ended(Exit::Code(0)))
}

/// One side of a copy, started by `bpcp`
#[derive(clap::Args, Debug)]
pub(crate) struct Carry {
    #[arg(long)]
    receive: bool,
    /// The place must be a directory
    #[arg(long)]
    several: bool,
    /// The stream comes from other nodes, and goes on to others
    #[arg(long)]
    passes_on: bool,
    /// What relative names are relative to, if that is there; else the user's home
    #[arg(long)]
    directory: PathBuf,
    /// What messages call this machine
    #[arg(long)]
    name: Option<String>,
    #[arg(short = 'r')]
    recursive: bool,
    #[arg(short = 'p')]
    preserve: bool,
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// How one side does it.
struct Side {
    name: Option<String>,
    recursive: bool,
    preserve: bool,
    umask: u32,
}

impl Carry {
    /// The command line by which a node does it.
    fn words(self) -> Vec<OsString> {
        let Carry { receive, several, passes_on, directory, name, recursive, preserve, paths } = self;
        let flags = [
            (receive, "--receive"),
            (several, "--several"),
            (passes_on, "--passes-on"),
            (recursive, "-r"),
            (preserve, "-p"),
        ];
        let flags = flags.into_iter().filter(|(on, _)| *on).map(|(_, flag)| OsString::from(flag));
        let name = name.map(|name| OsString::from(format!("--name={name}")));
        let words = [OWN.into(), "carry".into(), "--directory".into(), directory.into()].into_iter();
        words.chain(flags).chain(name).chain(["--".into()]).chain(paths).collect()
    }

    pub(crate) fn run(self) -> Result<ExitCode> {
        kern::ns::set_name("shoal:bpcp")?;
        if self.receive {
            // Signals that mean the whole copy end the sender, and with the stream this one, which removes what is half done.
            signal::block(SigSet(Sig::HUP.bit() | Sig::INT.bit() | Sig::TERM.bit()))?;
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        // Without either, relative names are relative to the root directory.
        let _in_root = [Some(&self.directory), home.as_ref()]
            .into_iter()
            .flatten()
            .any(|directory| directory.is_absolute() && std::env::set_current_dir(directory).is_ok());
        let Carry { name, recursive, preserve, .. } = self;
        let side = Side { name, recursive, preserve, umask: kern::own::umask()? };
        let done = match self.receive {
            false => {
                let out = BufWriter::with_capacity(2 * record::PIECE, std::io::stdout().lock());
                send::send(&side, &self.paths, out)
            }
            true if self.passes_on => passed_on::receive(&side, Path::new(&self.paths[0]), self.several),
            true => {
                let from = BufReader::with_capacity(record::PIECE, std::io::stdin().lock());
                receive::receive(&side, Path::new(&self.paths[0]), self.several, from)
            }
        };
        match done {
            Ok(all) => Ok(status(all)),
            Err(fault) => {
                tell(&fault);
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

impl Side {
    fn shown(&self, path: &Path) -> String {
        let node = self.name.as_ref().map(|node| format!("{node}:")).unwrap_or_default();
        format!("{node}{}", path.display())
    }

    fn complain(&self, path: &Path, why: &impl std::fmt::Display) {
        tell(&format!("{}: {why}", self.shown(path)));
    }
}

/// One line of error. Nobody is told where it cannot be written.
fn tell(what: &impl std::fmt::Display) {
    let line = format!("bpcp: {}\n", kern::own::plain(&what.to_string()));
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}
