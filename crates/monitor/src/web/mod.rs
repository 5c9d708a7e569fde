//! `shoal web`: a page that shows the cluster, for a browser on this machine, and figures for Prometheus.
//!
//! A thread for each connection, of which there are only so many: one more, and of those that have yet to ask, or to take their answer, the one that has been there for longest is closed. So whoever is
//! slow is in nobody's way. All that a page may do is look, unless it has signed in with the token.

mod api;
mod doors;
mod figures;
mod files;
mod http;
pub mod token;
mod watch;

use crate::picture::Who;
use crate::source;
use doors::{Doors, Entry};
use figures::Figures;
use http::{Request, Response};
use kern::poll::{poll_for, Ready};
use serde::Deserialize;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use vocab::{Fault, NodeId, Pid, Result, Sig};
use watch::Watch;

/// Where it listens unless something else is said.
pub const DEFAULT: &str = "127.0.0.1:7707";
/// Connections at a time.
const MOST: usize = 64;
/// Moves at a time, beside those: each may take as long as it likes.
const MOST_MOVES: usize = 16;
/// Stack of a thread that answers one.
const STACK: usize = 256 * 1024;
const PAGE: &str = include_str!("page.html");
/// What the page has in place of each [`policy`]'s secret.
const NONCE: &str = "NONCE";

/// What `shoal web` is to do.
#[derive(Debug)]
pub struct Settings {
    /// The daemon's.
    pub socket: PathBuf,
    pub listen: SocketAddr,
    /// What browsers may call this server beside its addresses and `localhost`.
    pub names: Vec<String>,
    /// With which one signs in ([`token::read`]).
    pub token: String,
    /// Signing in from other machines is allowed: whoever is on the way reads the token.
    pub insecure: bool,
    /// The port of the nodes' monitors.
    pub monitors: u16,
}

struct Server {
    settings: Settings,
    watch: Watch,
    figures: Figures,
    sessions: token::Sessions,
    doors: Mutex<Doors<TcpStream>>,
    moves: AtomicUsize,
}

/// Serves for ever; `ready` hears where once it can be asked.
///
/// # Errors
/// `Sys` where it cannot listen.
pub fn serve(settings: Settings, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let doing = format!("listen on {}", settings.listen);
    let listener = TcpListener::bind(settings.listen).map_err(|e| Fault::io(&e, doing.clone()))?;
    let at = listener.local_addr().map_err(|e| Fault::io(&e, doing))?;
    // Threads that are made later have no more either.
    kern::capability::keep_to_signal()?;
    let (watch, figures) = (Watch::begin(settings.socket.clone()), Figures::new(settings.monitors));
    let (sessions, doors) = (token::Sessions::default(), Mutex::new(Doors::new(MOST)));
    let server = Arc::new(Server { settings, watch, figures, sessions, doors, moves: AtomicUsize::new(0) });
    ready(at);
    for number in 0.. {
        match listener.accept() {
            Ok((stream, _)) => begin(&server, number, stream),
            // Too many descriptors are open: those of others may be closed soon.
            Err(_) => drop(poll_for(&[], Some(Duration::from_millis(50)))),
        }
    }
    Ok(())
}

fn begin(server: &Arc<Server>, number: u64, mut stream: TcpStream) {
    let Ok(ours) = stream.try_clone() else { return };
    match server.doors().enter(number, ours) {
        Entry::Enters => {}
        Entry::InPlaceOf(slow) => drop(slow.shutdown(Shutdown::Both)),
        Entry::Full => {
            // It is not waited for: what is said fits into what the kernel has for it.
            let _ = stream.set_nonblocking(true);
            return http::answer(&mut stream, &Response::failed(503, "too many ask at the same time"), false);
        }
    }
    let to = server.clone();
    let begun = thread::Builder::new().stack_size(STACK).spawn(move || {
        to.converse(number, &mut stream);
        to.doors().leave(number);
    });
    if begun.is_err() {
        server.doors().leave(number);
    }
}

/// A signal that is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToSignal {
    pid: i32,
    birth: u64,
    signal: u8,
}

/// A move that is asked for; -1 is the front end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToMove {
    pid: i32,
    birth: u64,
    to: i32,
}

impl Server {
    fn doors(&self) -> MutexGuard<'_, Doors<TcpStream>> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn converse(&self, number: u64, stream: &mut TcpStream) {
        let (response, head) = match Request::read(stream) {
            Ok(request) => {
                self.doors().asked(number);
                let here = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
                (self.answer(&request, number, here), request.method == "HEAD")
            }
            Err(Some(response)) => (response, false),
            Err(None) => return,
        };
        self.doors().told(number);
        http::answer(stream, &response, head);
        // What has come and was not read would make the kernel take back the answer (RST).
        drain(stream);
    }

    /// `here`: whoever asks is on this machine.
    fn answer(&self, request: &Request, number: u64, here: bool) -> Response {
        if !request.names_us(&self.settings.names) {
            return Response::failed(421, "this server is not called so (--name)");
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET" | "HEAD", "/") => page(),
            ("GET" | "HEAD", "/api/state") => {
                self.watch.looked();
                Response::new(200, "application/json", api::state(&self.watch.seen(), &self.watch.people))
            }
            ("GET" | "HEAD", "/metrics") => {
                let seen = self.watch.seen();
                let samples = if seen.is_old() { Arc::default() } else { self.figures.of(&seen.view.nodes) };
                // Of what may be otherwise by now nothing is said.
                let asked = (!seen.is_old()).then(|| files::status(&self.settings.socket)).flatten();
                let files = asked.map(|status| files::metrics(&status));
                let text = api::metrics(&seen, &samples) + &files.unwrap_or_default();
                Response::new(200, "text/plain; version=0.0.4; charset=utf-8", text)
            }
            ("POST", "/api/sign-in") => self.sign_in(request, here),
            ("POST", "/api/sign-out" | "/api/signal" | "/api/move") => match self.may_act(request) {
                Ok(session) => self.act(request, session, number),
                Err(response) => response,
            },
            (_, "/" | "/api/state" | "/metrics" | "/api/sign-in" | "/api/sign-out" | "/api/signal" | "/api/move") => {
                Response::failed(405, "not with this method")
            }
            _ => Response::failed(404, "there is no such page"),
        }
    }

    /// Who has the token gets the secret of a session: a page keeps nothing that is of use to whoever serves at this address later.
    fn sign_in(&self, request: &Request, here: bool) -> Response {
        let said = request.header("x-shoal-token").unwrap_or_default();
        match () {
            () if !request.is_of_our_page() => Response::failed(403, "another server's page asks"),
            () if !here && !self.settings.insecure => Response::failed(
                403,
                "sign in on the machine itself, or through a tunnel to it (ssh -L): whoever is on the way would read the token (--insecure)",
            ),
            () if !token::same(&self.settings.token, said) => {
                Response::failed(401, "sign in with the token that `shoal web --token` prints")
            }
            () => match self.sessions.begin() {
                Ok(session) => Response::new(200, "text/plain; charset=utf-8", session + "\n"),
                Err(fault) => Response::failed(503, &fault.to_string()),
            },
        }
    }

    /// The session, for who has signed in.
    fn may_act<'r>(&self, request: &'r Request) -> std::result::Result<&'r str, Response> {
        let session = request.header("x-shoal-session").unwrap_or_default();
        match () {
            () if !request.is_of_our_page() => Err(Response::failed(403, "another server's page asks")),
            () if !self.sessions.has(session) => {
                Err(Response::failed(401, "sign in first, with the token that `shoal web --token` prints"))
            }
            () => Ok(session),
        }
    }

    fn act(&self, request: &Request, session: &str, number: u64) -> Response {
        let wrong = |e: serde_json::Error| Response::failed(400, &e.to_string());
        match request.path.as_str() {
            "/api/signal" => match serde_json::from_slice::<ToSignal>(&request.body) {
                Ok(ToSignal { pid, birth, signal }) => match (Sig::new(signal), self.known(pid, birth)) {
                    (None, _) => Response::failed(400, &format!("{signal} is no signal")),
                    (_, Err(response)) => response,
                    (Some(sig), Ok(who)) => told(source::signal(&self.settings.socket, who, sig)),
                },
                Err(e) => wrong(e),
            },
            "/api/move" => match serde_json::from_slice::<ToMove>(&request.body) {
                Ok(ToMove { pid, birth, to }) => match self.known(pid, birth) {
                    Ok(who) => self.do_move(who, NodeId(to), number),
                    Err(response) => response,
                },
                Err(e) => wrong(e),
            },
            _ => {
                self.sessions.end(session);
                told(Ok("signed out".into()))
            }
        }
    }

    /// It is not one of those that have to be short any more.
    fn do_move(&self, who: Who, to: NodeId, number: u64) -> Response {
        if self.moves.fetch_add(1, Ordering::Relaxed) >= MOST_MOVES {
            self.moves.fetch_sub(1, Ordering::Relaxed);
            return Response::failed(503, &format!("{MOST_MOVES} are on their way already"));
        }
        self.doors().leave(number);
        let moved = source::move_to(&self.settings.socket, who, to);
        self.moves.fetch_sub(1, Ordering::Relaxed);
        told(moved)
    }

    /// Only processes of the space are signalled, not all of this machine, and none that has the number of one that was meant.
    fn known(&self, pid: i32, birth: u64) -> std::result::Result<Who, Response> {
        let seen = self.watch.seen();
        match seen.view.process(Pid(pid)) {
            None => Err(Response::failed(404, &format!("there is no process {pid}"))),
            Some(one) if one.row.birth != birth => {
                Err(Response::failed(409, &format!("{pid} has ended, and is another process by now")))
            }
            Some(_) if seen.is_old() => Err(Response::failed(409, "the daemon does not answer")),
            Some(one) if one.stale => {
                Err(Response::failed(409, &format!("{} does not answer: {pid} may have ended", one.row.node)))
            }
            Some(one) => Ok(Who::of(&one.row)),
        }
    }
}

fn told(what: Result<String>) -> Response {
    match what {
        Ok(text) => Response::new(200, "text/plain; charset=utf-8", text + "\n"),
        Err(fault) => Response::failed(409, &fault.to_string()),
    }
}

/// The page; only what is in it runs, and it speaks with this server only.
fn page() -> Response {
    let Ok(secret) = link::random::<16>() else { return Response::failed(503, "no random numbers") };
    let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut response = Response::new(200, "text/html; charset=utf-8", PAGE.replace(NONCE, &secret));
    response.headers = format!(
        "Content-Security-Policy: default-src 'none'; script-src 'nonce-{secret}'; style-src 'nonce-{secret}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    );
    response
}

fn drain(stream: &TcpStream) {
    /// So much is read of what is too much, so long after the last of it, and so long in all.
    const MOST_DRAINED: usize = 64 * 1024;
    const LONGEST: Duration = Duration::from_millis(200);
    const IN_ALL: Duration = Duration::from_secs(1);
    let (mut taken, mut some, end) = (0, [0; 4096], Instant::now() + IN_ALL);
    let _ = stream.set_nonblocking(true);
    let comes = || poll_for(&[(stream.as_fd(), Ready::READ)], Some(LONGEST)).is_ok_and(|r| r[0].readable);
    while taken < MOST_DRAINED && Instant::now() < end && comes() {
        match kern::sys::read(stream.as_fd(), &mut some) {
            Ok(n) if n > 0 => taken += n,
            _ => return,
        }
    }
}
