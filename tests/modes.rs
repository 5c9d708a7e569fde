//! The modes in which every program runs.

use crate::lab::place::Place;
use crate::lab::proto::{Job, Outcome};
use crate::lab::quiet;
use crate::lab::session::{Plan, Session};
use crate::lab::skip::Skip;
use crate::lab::unsteady;
use crate::lab::watchdog;
use crate::lab::{Doing, Res};
use libtest_mimic::{Completion, Failed, Trial};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Jobs of one mode that run at the same time: as many as have room.
const WORKERS: usize = quiet::ROOM / quiet::DEMANDING;
/// After so many sessions that broke a mode is given up.
const MOST_SESSIONS: usize = 20;
/// Less than the program's own deadline (prog.h), after which there would be nothing left to look at.
const DEADLINE_MS: u64 = 20_000;
/// After which silence a node is lost, on a slower machine (by default).
const LOST_AFTER: Duration = Duration::from_secs(5);

/// How many times slower than others this machine is: an emulated one (tests/kernel).
pub(crate) fn slower() -> u32 {
    std::env::var("SLOWER").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// One mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    /// What stands before the program.
    program: &'static [&'static str],
    /// What the program puts before its children.
    child: &'static str,
    nodes: Option<u32>,
    /// The nodes have nothing of their own: what a program is made of, and what it does to files, is the front end's.
    bare: bool,
    /// Busy loops for each processor.
    load: usize,
    /// So often a process is moved at random.
    chaos: Option<&'static str>,
    /// What the clocks of the nodes show (`shoal sandbox --clocks`), if not what they do by default.
    clocks: Option<&'static str>,
}

/// The directory of the tests is in /tmp, which a bare node would have of its own.
const ALL_BUT_TMP: &[&str] = &["local = [\"/proc\", \"/sys\", \"/dev\", \"/run\"]"];

pub(crate) const ALL: &[Mode] = &[
    Mode { name: "bare", program: &[], child: "", nodes: None, bare: false, load: 0, chaos: None, clocks: None },
    Mode {
        name: "node",
        program: &["shoal", "run", "-n", "0", "--"],
        child: "",
        nodes: Some(4),
        bare: false,
        load: 0,
        chaos: None,
        clocks: None,
    },
    Mode {
        name: "child-remote",
        program: &[],
        child: "shoal run -n 0 --",
        nodes: Some(4),
        bare: false,
        load: 0,
        chaos: None,
        clocks: None,
    },
    Mode {
        name: "across",
        program: &["shoal", "run", "-n", "0", "--"],
        child: "shoal run -n 1 --",
        nodes: Some(4),
        bare: false,
        load: 0,
        clocks: None,
        chaos: None,
    },
    Mode {
        name: "viewed",
        program: &["shoal", "run", "-n", "0", "--"],
        child: "shoal run -n 1 --",
        nodes: Some(4),
        bare: true,
        load: 0,
        clocks: None,
        chaos: None,
    },
    Mode {
        name: "restored",
        program: &["carry"],
        child: "",
        nodes: None,
        bare: false,
        load: 0,
        chaos: None,
        clocks: None,
    },
    Mode {
        name: "moved",
        program: &["move"],
        child: "",
        nodes: Some(4),
        bare: false,
        load: 0,
        chaos: None,
        clocks: Some("foreign"),
    },
    Mode {
        name: "busy",
        program: &["move"],
        child: "",
        nodes: Some(4),
        bare: false,
        load: 2,
        chaos: None,
        clocks: Some("foreign"),
    },
    Mode {
        name: "lazily",
        program: &["move", "--lazy"],
        child: "",
        nodes: Some(4),
        bare: false,
        load: 0,
        chaos: None,
        clocks: Some("foreign"),
    },
    Mode {
        name: "loaded",
        program: &["shoal", "run", "-n", "0", "--"],
        child: "",
        nodes: Some(4),
        bare: false,
        load: 2,
        clocks: None,
        chaos: None,
    },
    Mode {
        name: "chaos",
        program: &["shoal", "run", "-n", "0", "--"],
        child: "",
        nodes: Some(4),
        bare: false,
        load: 0,
        clocks: Some("foreign"),
        chaos: Some("20ms"),
    },
    Mode {
        name: "chaos-viewed",
        program: &["shoal", "run", "-n", "0", "--"],
        child: "",
        nodes: Some(4),
        bare: true,
        load: 0,
        clocks: Some("foreign"),
        chaos: Some("20ms"),
    },
];

impl Mode {
    /// The programs `odd_…` show what this machine's kernel does, whoever runs them: once is enough. Only the programs `carry_…` can be
    /// carried, and they have nothing to show on a node; those called `image_…` only into a file, and no move takes them.
    pub(crate) fn takes(&self, program: &str) -> bool {
        match self.name {
            "bare" => true,
            "restored" => program.starts_with("carry_") || program.starts_with("image_"),
            "chaos" | "chaos-viewed" if program.starts_with("carry_") => true,
            "moved" | "busy" | "lazily" => program.starts_with("carry_") || program.starts_with("kin_"),
            _ => !["odd_", "carry_", "kin_", "image_"].iter().any(|kind| program.starts_with(kind)),
        }
    }
}

/// What others show too, only under load or from fewer sides: before something big is finished, and not each time.
const SELDOM: &[&str] = &["child-remote", "busy", "loaded", "chaos-viewed"];

/// The modes that run when none is named.
pub(crate) fn everyday() -> impl Iterator<Item = &'static str> {
    names().into_iter().filter(|name| !SELDOM.contains(name))
}

pub(crate) fn find(name: &str) -> Option<&'static Mode> {
    ALL.iter().find(|mode| mode.name == name)
}

pub(crate) fn names() -> Vec<&'static str> {
    ALL.iter().map(|mode| mode.name).collect()
}

/// Runs the programs of one mode, all in one session as long as that holds.
pub(crate) struct Host {
    mode: Mode,
    place: Arc<Place>,
    skips: Vec<Skip>,
    repeat: u32,
    session: Mutex<Option<Arc<Session>>>,
    started: AtomicUsize,
    /// Trials still to come; with the last the session ends.
    to_come: AtomicUsize,
    /// What is to be said when all is over.
    notes: Mutex<Vec<String>>,
}

impl Host {
    pub(crate) fn new(mode: Mode, place: Arc<Place>, skips: Vec<Skip>, repeat: u32) -> Host {
        let skips = skips.into_iter().filter(|skip| skip.mode == mode.name).collect();
        let (session, notes) = (Mutex::new(None), Mutex::new(Vec::new()));
        let (started, to_come) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Host { mode, place, skips, repeat, session, started, to_come, notes }
    }

    /// So many trials will run.
    pub(crate) fn expect(&self, trials: usize) {
        self.to_come.store(trials, Ordering::Relaxed);
    }

    /// The test of one program.
    pub(crate) fn trial(self: &Arc<Host>, program: &str) -> Trial {
        let (host, program) = (self.clone(), program.to_string());
        Trial::ignorable_test(format!("{}::{program}", self.mode.name), move || {
            let room = quiet::room(quiet::DEMANDING)?;
            let in_time = watchdog::watch(&format!("{}::{program}", host.mode.name), &host.place.evidence);
            let done = (1..=host.repeat).try_for_each(|round| {
                host.run(&program).map_err(|fault| format!("{fault}\n(round {round} of {})", host.repeat))
            });
            drop((room, in_time));
            let done = done.or_else(|fault| host.look_again(&program, fault));
            if host.to_come.fetch_sub(1, Ordering::Relaxed) == 1 {
                host.drop_session();
            }
            host.judge(&program, done)
        })
    }

    /// Tries what failed again, alone, unless the failure is known, or is what repeating was to find.
    fn look_again(&self, program: &str, fault: String) -> Res {
        match self.repeat > 1 || self.skips.iter().any(|skip| skip.program == program) {
            true => Err(fault),
            false => unsteady::look_again(&format!("{}::{program}", self.mode.name), fault, || self.run(program)),
        }
    }

    /// An entry in skip.toml turns a failure into an ignored test, and a success into a note.
    fn judge(&self, program: &str, done: Res) -> Result<Completion, Failed> {
        match (self.skips.iter().find(|skip| skip.program == program), done) {
            (None, Ok(())) => Ok(Completion::Completed),
            (None, Err(fault)) => Err(fault.into()),
            (Some(skip), Err(_)) => Ok(Completion::ignored_with(format!("{} ({})", skip.reason, skip.date))),
            (Some(skip), Ok(())) if skip.by_chance => Ok(Completion::Completed),
            (Some(skip), Ok(())) => {
                let mode = self.mode.name;
                let note = format!("skip.toml: {program} passes in mode {mode}: take the entry of {} out", skip.date);
                self.notes.lock().doing("note").map(|mut notes| notes.push(note))?;
                Ok(Completion::Completed)
            }
        }
    }

    fn run(&self, program: &str) -> Res {
        let mut argv: Vec<String> = match self.mode.program {
            ["carry"] => self.carried("--carry")?,
            ["move"] => self.carried("--move")?,
            ["move", how] => [self.carried("--move")?, vec![how.to_string()]].concat(),
            words => words.iter().map(|word| word.to_string()).collect(),
        };
        argv.push(self.place.program(program).display().to_string());
        let env = vec![("CHILD_PREFIX".to_string(), self.mode.child.to_string())];
        let job = Job { argv, env, deadline_ms: DEADLINE_MS * u64::from(slower()), ..Job::default() };
        let session = self.session()?;
        let outcome = session.run(&format!("{}::{program}", self.mode.name), job);
        if session.is_broken() {
            self.drop_broken();
        }
        let outcome = outcome?;
        match passed(&outcome) {
            true => Ok(()),
            false => Err(outcome.text()),
        }
    }

    /// What runs a program that is carried away while it runs.
    fn carried(&self, how: &str) -> Res<Vec<String>> {
        let own = std::env::current_exe().doing("find this program")?;
        let shoal = self.place.shoal.as_ref().ok_or("shoal is not built")?;
        Ok(vec![own.display().to_string(), how.into(), shoal.display().to_string()])
    }

    /// The session, a new one when there is none.
    fn session(&self) -> Res<Arc<Session>> {
        let mut place = self.session.lock().doing("take the session")?;
        if let Some(session) = place.as_ref() {
            return Ok(session.clone());
        }
        if self.started.fetch_add(1, Ordering::Relaxed) >= MOST_SESSIONS {
            return Err(format!("{MOST_SESSIONS} sessions of mode {} broke", self.mode.name));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let plan = Plan {
            nodes: self.mode.nodes,
            workers: WORKERS,
            burners: self.mode.load * cores,
            chaos: self.mode.chaos,
            clocks: self.mode.clocks,
            bare: self.mode.bare,
            settings: if self.mode.bare { ALL_BUT_TMP } else { &[] },
            lost_after: (slower() > 1).then(|| LOST_AFTER * slower()),
            ..Plan::default()
        };
        let session = Arc::new(Session::start(&self.place, self.mode.name, &plan)?);
        *place = Some(session.clone());
        Ok(session)
    }

    fn drop_broken(&self) {
        if let Ok(mut session) = self.session.lock() {
            session.take_if(|session| session.is_broken());
        }
    }

    fn drop_session(&self) {
        if let Ok(mut session) = self.session.lock() {
            session.take();
        }
    }

    /// Ends the session; what is to be said.
    pub(crate) fn close(&self) -> Vec<String> {
        self.drop_session();
        self.notes.lock().map(|mut notes| std::mem::take(&mut *notes)).unwrap_or_default()
    }
}

fn passed(outcome: &Outcome) -> bool {
    outcome.code() == Some(0) && outcome.out == "ok\n" && !outcome.late && !outcome.stuck && outcome.left.is_empty()
}
