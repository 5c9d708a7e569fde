//! `shoal run`: the process that calls it turns into the stand-in of what it starts, and relays the standard streams.
//!
//! The main thread holds itself on the daemon's file and does nothing else; four threads relay. They have every signal
//! blocked, so that all signals reach the main thread and by it the program, but for SIGTTIN and SIGTTOU, which the
//! kernel raises in the thread that touches the terminal.

mod asking;
mod branch;
mod channels;
mod copy;
mod delivery;
mod each;
mod feed;
mod giving;
mod home;
mod hub;
mod input;
mod late;
mod lines;
mod loss;
mod moving;
mod output;
mod program;
mod queue;
mod show;
mod surroundings;
mod takers;
mod turns;

use channels::Channels;
use hub::Hub;
use input::{Reader, Source};
use kern::clock::monotonic_us;
use kern::own::ENOENT;
use kern::relay::{Relay, RELAY};
use kern::{capability, ns, own, pty, signal};
use lines::Lines;
use output::Writer;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use turns::Turns;
use vocab::{Exit, Fault, Kind, NodeId, Pid, Result};
use wire::ask::{Answer, Ask, Copy};
use wire::files::{Place, View};
use wire::run::{Program, Target};
use wire::stream::Stream;

use asking::Asking;
pub use program::collect;
pub use show::{Ends, Show, END};
pub use surroundings::Surroundings;

/// The exit status for failures of our own, as of env(1), nohup(1) and timeout(1).
pub const FAILED: u8 = 125;

/// How long who has the place of a process waits for a successor of the daemon, in microseconds: longer than it is waited for by nodes.
const SUCCESSOR_US: u64 = 10_000_000;

/// Holds the main thread on the daemon's file and ends the process as the daemon says.
///
/// It calls [`Relay::before_end`], [`Relay::before_stop`], [`Relay::after_stop`] and [`Relay::on_signal`] where they say.
pub type Hold = fn(OwnedFd, &'static Relay) -> !;

/// What `shoal run` was asked.
#[derive(Clone, Debug)]
pub struct Run {
    pub target: Target,
    /// Give the program a terminal of its own.
    pub terminal: bool,
    /// Put the node's name before each line.
    pub prefix: bool,
    /// What else there is to it with several copies.
    pub show: Show,
    /// The program's name and its arguments.
    pub argv: Vec<OsString>,
    /// Its file, where that is another than its name says.
    pub file: Option<OsString>,
    /// It will have threads with these numbers, which are kept free here for it.
    pub numbers: Vec<Pid>,
    pub sees: Sees,
    pub surroundings: Surroundings,
}

/// Files that the program sees and others on its node do not.
#[derive(Clone, Debug, Default)]
pub struct Sees {
    pub view: Option<View>,
    pub places: Vec<Place>,
}

/// Starts the program and becomes it. Returns only when it could not be started by us.
///
/// # Errors
/// Whatever kept us from asking the daemon or from holding, or the daemon's own refusal.
pub fn run(run: &Run, socket: &Path, hold: Hold) -> Fault {
    match start(run, socket, hold) {
        Ok(file) => hold(file, &RELAY),
        Err(fault) => {
            RELAY.before_stop();
            fault
        }
    }
}

/// How the program ended, as far as the daemon has said so to the relay (of several copies: the first).
pub fn outcome() -> Option<Exit> {
    Exit::from_status(hub::OUTCOME.load(Ordering::SeqCst))
}

fn start(run: &Run, socket: &Path, hold: Hold) -> Result<OwnedFd> {
    if !capability::may_choose_pids() {
        let why = "run a program: this shoal lacks cap_checkpoint_restore, so nothing that the program starts could be shown \
                   (setcap cap_checkpoint_restore=ep FILE; no_new_privs and nosuid take it away)";
        return Err(Fault::refused(why));
    }
    if run.terminal {
        program::await_foreground();
    }
    kern::regain::stack()?;
    keep(&run.numbers)?;
    let (numbers, Sees { view, places }) = (run.numbers.clone(), run.sees.clone());
    let mut program = Program { numbers, view, places, ..collect(&run.argv, run.file.as_deref(), run.terminal)? };
    run.surroundings.set(&mut program);
    let program = Box::new(program);
    let mut asking = Asking::connect(socket)?;
    // From here on signals wait: the hold hands them to the program. One that ended us in between would not be for what that has forked by then.
    let mask = asking.block_signals()?;
    asking.ask(&Ask::Run { target: run.target.clone(), program })?;
    let (hold, copies) = match asking.answer()? {
        (Answer::Granted { hold, copies }, _) => (hold, copies),
        (Answer::Here, _) => {
            signal::set_mask(mask)?;
            return Err(exec_here(run, socket));
        }
        (Answer::Each(nodes), _) => {
            drop(asking);
            signal::set_mask(mask)?;
            return Err(each::run_each(run, &nodes, socket, hold));
        }
        (Answer::Failed(fault), _) => return Err(fault),
        (other, _) => return Err(Fault::wire(format!("the daemon answered {other:?}"))),
    };
    granted(run, asking, socket, hold, copies)
}

/// Nobody else gets these numbers as long as this process is there.
fn keep(numbers: &[Pid]) -> Result<()> {
    if !numbers.is_empty() && !own::is_root() {
        return Err(Fault::refused("a process with several threads is restored on a node by root only"));
    }
    numbers.iter().try_for_each(|number| {
        kern::idle::idle(*number).map_err(|errno| match errno {
            kern::idle::IN_USE => Fault::refused(format!("the number {number} of a thread is in use")),
            errno => Fault::sys(errno, format!("keep the number {number} of a thread free")),
        })
    })
}

/// The daemon wants this process as stand-in: it relays, and gets the file to hold on.
fn granted(run: &Run, asking: Asking, socket: &Path, hold: String, copies: Vec<Copy>) -> Result<OwnedFd> {
    relayed(run, asking, socket, copies)?;
    open(&hold)
}

/// All but that it holds.
fn relayed(run: &Run, asking: Asking, socket: &Path, copies: Vec<Copy>) -> Result<()> {
    // Of several it is the parent, which is shoal still.
    if copies.len() == 1 && !run.argv.is_empty() {
        let name = run.argv.first().and_then(|file| Path::new(file).file_name());
        ns::set_name(name.unwrap_or_default().as_bytes())?;
    }
    let (to_main, from_relay) = kern::sock::socketpair(kern::sock::Kind::SeqPacket)?;
    RELAY.set_home(from_relay.as_fd());
    let channels = relay(run, asking, socket, copies, to_main)?;
    // A table of its own for the main thread: a process that a relay thread forks has no copy of the hold file, whose
    // closing would look like our end (fuse_flush comes with every close), and a stream that the program closes is closed.
    // The bell is for the signal handler, the socket for what comes home.
    own::unshare_descriptors([channels.hub.as_fd(), from_relay.as_fd()], run.terminal)?;
    // The main thread has no descriptor of these channels to close, and keeps its end of that socket.
    std::mem::forget((channels, from_relay));
    Ok(())
}

fn open(hold: &str) -> Result<OwnedFd> {
    let file = OpenOptions::new().read(true).write(true).open(hold);
    file.map(OwnedFd::from).map_err(|e| match e.kind() {
        // It lets only those in whom it expects.
        ErrorKind::PermissionDenied => {
            Fault::gone("the daemon was started again before the program was under its control")
        }
        _ => Fault::io(&e, format!("open {hold}")),
    })
}

/// The calling process is in the place of one that has moved to a node, with its standard streams, and becomes its stand-in. All signals are blocked. Nobody else
/// gets the `numbers` of its threads as long as this process is there.
/// Returns only when that cannot be.
///
/// # Errors
/// As [`run`].
pub fn stand(socket: &Path, numbers: &[Pid], hold: Hold) -> Fault {
    for number in numbers {
        // That somebody has had one since the threads ended is no reason to end.
        if let Err(errno) = kern::idle::idle(*number) {
            tracing::debug!(%number, errno, "the number of a thread is not kept free");
        }
    }
    let until = monotonic_us() + SUCCESSOR_US;
    let begun = connected(socket, until).and_then(|(asking, place, copies)| {
        let run = Run {
            target: Target::Any,
            terminal: false,
            prefix: false,
            show: Show::default(),
            argv: Vec::new(),
            file: None,
            numbers: Vec::new(),
            sees: Sees::default(),
            surroundings: Surroundings::default(),
        };
        relayed(&run, asking, socket, copies)?;
        open_in_time(&place, until)
    });
    match begun {
        Ok(file) => hold(file, &RELAY),
        Err(fault) => fault,
    }
}

/// Who has the place of a process has its channel before it holds, from one daemon or from another one that follows it: then it needs none.
fn connected(socket: &Path, until_us: u64) -> Result<(Asking, String, Vec<Copy>)> {
    loop {
        let mut asking = connect_in_time(socket, until_us)?;
        asking.block_signals()?;
        match stands(&mut asking) {
            Ok((place, copies)) => return Ok((asking, place, copies)),
            Err(fault) if fault.kind == Kind::Gone && monotonic_us() < until_us => pause(),
            Err(fault) => return Err(fault),
        }
    }
}

/// # Errors
/// `Gone` when the daemon has ended, which may not have said anything.
fn stands(asking: &mut Asking) -> Result<(String, Vec<Copy>)> {
    asking.ask(&Ask::Stand)?;
    let granted = match asking.answer()? {
        (Answer::Granted { hold, copies }, _) => (hold, copies),
        (Answer::Failed(fault), _) => return Err(Fault::refused(fault.to_string())),
        (other, _) => return Err(Fault::wire(format!("the daemon answered {other:?}"))),
    };
    // The process may have ended before it was connected.
    let channel = asking.answer()?;
    asking.give_back(channel);
    Ok(granted)
}

fn pause() {
    let _nothing = kern::poll::poll(&[], 20);
}

/// Who follows the daemon that has granted it may have to hear first who is to hold.
fn open_in_time(hold: &str, until_us: u64) -> Result<OwnedFd> {
    loop {
        match open(hold) {
            Err(fault) if fault.kind == Kind::Gone && monotonic_us() < until_us => pause(),
            file => return file,
        }
    }
}

/// A daemon that is started anew is waited for.
fn connect_in_time(socket: &Path, until_us: u64) -> Result<Asking> {
    loop {
        match Asking::connect(socket) {
            Err(fault) if fault.kind == Kind::Gone && monotonic_us() < until_us => pause(),
            asking => return asking,
        }
    }
}

/// The program is to run where the caller is: it becomes it in the ordinary way. Returns only a failure.
fn exec_here(Run { argv, file, sees, surroundings, .. }: &Run, socket: &Path) -> Fault {
    if matches!(sees.view, Some(View::Node | View::Front)) || !sees.places.is_empty() {
        let why = "a program that starts on its caller's own node sees what that sees: --view, --bind, --tmp and --read-only are for other nodes";
        return Fault::refused(why);
    }
    let Some(file) = file.as_ref().or(argv.first()) else { return Fault::refused("no program is named") };
    let doing = format!("execute {}", file.to_string_lossy());
    let strings = argv.iter().map(|a| kern::sys::cstring(a.as_encoded_bytes())).collect::<Result<Vec<_>>>();
    let file = kern::sys::cstring(file.as_encoded_bytes());
    let ready = surroundings.take(socket).and_then(|environment| Ok((file?, strings?, environment)));
    let fault = match ready.map(|(file, strings, environment)| own::exec_file(&file, &strings, &environment)) {
        Ok(errno) => Fault::sys(errno, doing),
        Err(fault) => return fault,
    };
    own::complain(&fault);
    std::process::exit(if fault.errno == ENOENT { 127 } else { 126 })
}

/// Ends the process as a program has ended.
fn exit_as(exit: Exit) -> ! {
    if let Exit::Killed { sig, .. } = exit {
        let _ = signal::suffer(sig);
    }
    std::process::exit(exit.shell_number())
}

fn relay(run: &Run, asking: Asking, socket: &Path, copies: Vec<Copy>, to_main: OwnedFd) -> Result<Arc<Channels>> {
    let copies = copies.into_iter().map(|c| Ok((c.node, key(&c.key)?))).collect::<Result<Vec<_>>>()?;
    let nodes: Vec<NodeId> = copies.iter().map(|(node, _)| *node).collect();
    let source = match (program::input_is_terminal(), run.terminal) {
        (false, _) => Source::Ours,
        (true, false) => Source::Terminal,
        (true, true) => Source::Keys,
    };
    let channels = Arc::new(Channels::new(copies, source != Source::Ours)?);
    RELAY.set_bell(channels.hub.as_fd());
    if run.terminal {
        if let Ok(found) = pty::Modes::of(std::io::stdin().as_fd()) {
            RELAY.want_raw(found);
        }
    }
    let late_lines = [lines(&nodes, run), lines(&nodes, run)];
    // The terminal of `-t` has one end, and it is not ours.
    let open = if run.terminal { usize::MAX } else { nodes.len() };
    let hub = Hub::new(channels.clone(), asking, socket.to_owned(), to_main, run.terminal, late_lines);
    let hub = hub.telling(run.show, &nodes);
    spawn("hub", move || hub.run())?;
    for stream in [Stream::Out, Stream::Err] {
        let (lines, turns) = (lines(&nodes, run), turns(&nodes, run));
        let channels = channels.clone();
        spawn(&format!("{stream:?}"), move || Writer::new(&*channels, stream, lines, open).in_turns(turns).run())?;
    }
    let reader = channels.clone();
    spawn("In", move || Reader::new(&*reader, source).run())?;
    Ok(channels)
}

/// Whole lines where several copies write; prefixes where they are wanted.
fn lines(nodes: &[NodeId], run: &Run) -> Option<Lines> {
    let prefix = |node: &NodeId| if run.prefix { run.show.prefix(*node) } else { String::new() };
    let all: Vec<String> = nodes.iter().map(prefix).collect();
    (nodes.len() > 1 || all.iter().any(|p| !p.is_empty())).then(|| Lines::new(all).shown(run.show))
}

/// For output that is shown copy by copy.
fn turns(nodes: &[NodeId], run: &Run) -> Option<Turns> {
    run.show.turns.then(|| Turns::new(nodes, run.show))
}

fn key(bytes: &[u8]) -> Result<[u8; 32]> {
    bytes.try_into().map_err(|_| Fault::wire(format!("a channel's key has 32 bytes, this one {}", bytes.len())))
}

/// The thread never ends: one that does so just when another one forks ([`Channels::hand_over`]) leaves the child the standard library's lock of what it knows of
/// threads, for which every new thread there would wait for ever.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let lasting = || {
        body();
        loop {
            std::thread::park();
        }
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(lasting);
    thread.map(drop).map_err(|e| Fault::io(&e, "start a relay thread"))
}
