//! `shoal top`: nodes and processes in a terminal.
//!
//! One loop waits for keys, signals and what the asking thread has heard of the daemon; it asks nobody itself, so it never waits for anything else.

mod batch;
mod dialogs;
mod draw;
mod keys;
mod order;
mod screen;
mod state;

use crate::people;
use crate::picture::Picture;
use crate::source::{self, Told};
use client::Local;
use draw::Looks;
use kern::init::SignalFd;
use kern::poll::{poll_for, Ready, EINTR};
use keys::{Decoder, Key};
use screen::Screen;
use state::{Act, State};
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use vocab::{Fault, Pid, Result, Sig};

pub use order::Sort;

/// What `shoal top` is to do.
#[derive(Debug)]
pub struct Settings {
    /// The daemon's.
    pub socket: PathBuf,
    /// Between two looks; from 0.1 s.
    pub interval: Duration,
    pub sort: Sort,
    pub tree: bool,
}

/// How it came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Quit,
    /// This signal, or that the terminal is gone (SIGHUP).
    Signal(Sig),
}

/// What has come to the loop from its other threads.
enum News {
    Daemon(Told),
    /// What came of something that was asked for.
    Done(String),
}

/// Threads' way to the loop: news, and a byte into a pipe that wakes it.
#[derive(Clone)]
struct Bell {
    news: Sender<News>,
    pipe: Arc<OwnedFd>,
}

impl Bell {
    /// False when nobody listens any more.
    fn ring(&self, news: News) -> bool {
        // A pipe that is full of bytes wakes as well.
        let heard = self.news.send(news).is_ok();
        let _ = kern::sys::write(self.pipe.as_fd(), b"!");
        heard
    }
}

/// How long an escape may be followed by the rest of a key, in milliseconds.
const ESCAPE_MS: u64 = 50;

/// Shows everything until the user has seen enough.
///
/// # Errors
/// `Refused` without a terminal; what the terminal's calls say. That no daemon is there is no error: it may come.
pub fn run(settings: &Settings) -> Result<End> {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let dumb = std::env::var("TERM").map_or(true, |term| term.is_empty() || term == "dumb");
    if !terminal || dumb {
        return Err(Fault::refused(
            "standard input and output are no terminal that can be drawn on: --batch prints lines",
        ));
    }
    // Before the first thread, which would take them otherwise.
    let signals = SignalFd::new(&[
        Sig::TERM,
        Sig::HUP,
        Sig::INT,
        Sig::QUIT,
        Sig::USR1,
        Sig::USR2,
        Sig::ALRM,
        Sig::XCPU,
        Sig::WINCH,
        Sig::TSTP,
        Sig::CONT,
    ])?;
    let (waker, pipe) = kern::sys::pipe()?;
    kern::sys::set_nonblocking(waker.as_fd(), true)?;
    kern::sys::set_nonblocking(pipe.as_fd(), true)?;
    let (sender, news) = channel();
    let bell = Bell { news: sender, pipe: Arc::new(pipe) };
    let (ask_now, asked) = channel();
    let (socket, interval, tells) = (settings.socket.clone(), settings.interval, bell.clone());
    // It ends with the process: it may be waiting for a daemon that does not answer.
    thread::spawn(move || source::ask_for_ever(&socket, || interval, &asked, |told| tells.ring(News::Daemon(told))));
    let mut state = State::new(people::here(), settings.interval);
    (state.order.sort, state.order.tree) = (settings.sort, settings.tree);
    let screen = Screen::take()?;
    let top = Top { settings, state, screen, signals, waker, news, bell, ask_now, looks: Looks::from_environment() };
    top.serve()
}

struct Top<'a> {
    settings: &'a Settings,
    state: State,
    screen: Screen,
    signals: SignalFd,
    waker: OwnedFd,
    news: Receiver<News>,
    bell: Bell,
    ask_now: Sender<()>,
    looks: Looks,
}

impl Top<'_> {
    fn serve(mut self) -> Result<End> {
        let mut decoder = Decoder::default();
        loop {
            if !self.screen.is_behind() {
                self.draw()?;
            }
            self.screen.push()?;
            let patience = match decoder.waits() {
                true => Duration::from_millis(ESCAPE_MS),
                // What is shown gets older by itself.
                false => Duration::from_secs(1),
            };
            let stdin = std::io::stdin();
            let mut wanted = vec![
                (stdin.as_fd(), Ready::READ),
                (self.signals.as_fd(), Ready::READ),
                (self.waker.as_fd(), Ready::READ),
            ];
            if self.screen.is_behind() {
                wanted.push((self.screen.as_fd(), Ready::WRITE));
            }
            let patience = Some(patience);
            let ready = match poll_for(&wanted, patience) {
                Err(errno) if errno == EINTR => continue,
                other => other.map_err(|errno| Fault::sys(errno, "wait for keys"))?,
            };
            if let Some(exit) = self.hear_signals()? {
                return Ok(exit);
            }
            let mut rung = [0; 64];
            while kern::sys::read(self.waker.as_fd(), &mut rung).is_ok_and(|n| n > 0) {}
            self.hear_news();
            let mut bytes = [0; 256];
            let keys = match ready[0] {
                Ready { readable: true, .. } => match kern::sys::read(stdin.as_fd(), &mut bytes) {
                    // The terminal is gone.
                    Ok(0) | Err(kern::poll::EIO) => return Ok(End::Signal(Sig::HUP)),
                    Ok(n) => decoder.take(&bytes[..n]),
                    Err(_) => Vec::new(),
                },
                Ready { over: true, .. } => return Ok(End::Signal(Sig::HUP)),
                _ if decoder.waits() => decoder.late(),
                _ => Vec::new(),
            };
            for key in keys {
                if let Some(exit) = self.press(key)? {
                    return Ok(exit);
                }
            }
        }
    }

    fn draw(&mut self) -> Result<()> {
        let Top { state, screen, looks, .. } = self;
        let drawn = screen.terminal.draw(|frame| {
            let area = frame.area();
            state.fit(draw::page(area, state));
            draw::draw(state, *looks, area, frame.buffer_mut());
        });
        drawn.map(drop).map_err(|e| Fault::io(&e, "draw on the terminal"))
    }

    /// An exit when one of them ends it.
    fn hear_signals(&mut self) -> Result<Option<End>> {
        let mut stops = false;
        while let Some(sig) = self.signals.take()? {
            match sig {
                // The size of the terminal is looked at with each drawing.
                Sig::WINCH => {}
                Sig::TSTP => stops = true,
                Sig::CONT => self.screen.enter()?,
                end => return Ok(Some(End::Signal(end))),
            }
        }
        if stops {
            self.screen.leave();
            self.stop()?;
        }
        Ok(None)
    }

    fn hear_news(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            match news {
                News::Daemon(Told::Sample(sample)) => self.state.take(sample),
                News::Daemon(Told::Away(fault)) => self.state.away = Some(fault.to_string()),
                News::Done(what) => {
                    self.state.notice = what;
                    let _ = self.ask_now.send(());
                }
            }
        }
    }

    fn press(&mut self, key: Key) -> Result<Option<End>> {
        match self.state.press(key) {
            None => {}
            Some(Act::Quit) => return Ok(Some(End::Quit)),
            Some(Act::Redraw) => self.screen.terminal.clear().map_err(|e| Fault::io(&e, "draw on the terminal"))?,
            Some(Act::Suspend) => self.suspend()?,
            // The daemon is asked for both: not here.
            Some(Act::Signal(who, sig)) => {
                let (bell, socket) = (self.bell.clone(), self.settings.socket.clone());
                thread::spawn(move || bell.ring(News::Done(said(source::signal(&socket, who, sig)))));
            }
            Some(Act::Move(who, to)) => {
                self.state.notice = format!("{} is on its way to {to}", who.pid);
                let (bell, socket) = (self.bell.clone(), self.settings.socket.clone());
                thread::spawn(move || bell.ring(News::Done(said(source::move_to(&socket, who, to)))));
            }
        }
        Ok(None)
    }

    /// As the terminal does it to others: the terminal is the shell's until this goes on.
    fn suspend(&mut self) -> Result<()> {
        self.screen.leave();
        if let Some((pgid, _)) = kern::proc::group_and_session(Pid(std::process::id() as i32)) {
            kern::init::signal_group(pgid, Sig::TSTP)?;
        }
        self.stop()
    }

    /// The kernel decides: where nobody would continue it, in an orphaned group, it is not stopped.
    fn stop(&mut self) -> Result<()> {
        kern::signal::suffer(Sig::TSTP)?;
        self.screen.enter()
    }
}

fn said(what: Result<String>) -> String {
    what.unwrap_or_else(|fault| fault.to_string())
}

/// Prints `looks` looks at everything as lines, one each interval; of the first no percent of a processor can be told.
///
/// # Errors
/// `Gone` without a daemon; `Sys` where standard output does not take it.
pub fn batch(settings: &Settings, looks: u32) -> Result<()> {
    let order = order::Order { sort: settings.sort, tree: settings.tree, ..Default::default() };
    let (people, mut picture, start) = (people::here(), Picture::default(), Instant::now());
    let mut daemon = Local::connect_within(&settings.socket, source::PATIENCE)?;
    for look in 0..looks {
        let next = Instant::now() + settings.interval;
        picture.take(source::sample(&mut daemon, start)?);
        let between = if look == 0 { "" } else { "\n" };
        let text = format!("{between}{}", batch::text(&picture, &order, &people));
        let mut out = std::io::stdout();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|e| Fault::io(&e, "write to standard output"))?;
        if look + 1 < looks {
            wait_until(next);
        }
    }
    Ok(())
}

fn wait_until(when: Instant) {
    loop {
        let left = when.saturating_duration_since(Instant::now());
        if left.is_zero() || poll_for(&[], Some(left)).is_ok() {
            return;
        }
    }
}
