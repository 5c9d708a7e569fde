//! `shoal web`: a page that shows the cluster, for a browser on this machine, and figures for Prometheus.
//!
//! A thread for each connection, of which there are only so many: one more, and that which has been there for longest is closed. So whoever is slow is in
//! nobody's way. All that a page may do is look, unless it has the token.

mod api;
mod http;
pub mod token;
mod watch;

use crate::source;
use http::{Request, Response};
use kern::poll::{poll_for, Ready};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use vocab::{Fault, NodeId, Pid, Result, Sig};
use watch::Watch;

/// Where it listens unless something else is said.
pub const DEFAULT: &str = "127.0.0.1:7707";
/// Connections at a time.
const MOST: usize = 64;
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
}

/// Those that are open, the oldest first.
type Open = Arc<Mutex<BTreeMap<u64, TcpStream>>>;

struct Server {
    settings: Settings,
    watch: Watch,
}

/// Serves for ever; `ready` hears where once it can be asked.
///
/// # Errors
/// `Sys` where it cannot listen.
pub fn serve(settings: Settings, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let doing = format!("listen on {}", settings.listen);
    let listener = TcpListener::bind(settings.listen).map_err(|e| Fault::io(&e, doing.clone()))?;
    let at = listener.local_addr().map_err(|e| Fault::io(&e, doing))?;
    let watch = Watch::begin(settings.socket.clone());
    let (server, open) = (Arc::new(Server { settings, watch }), Open::default());
    ready(at);
    for number in 0.. {
        match listener.accept() {
            Ok((stream, _)) => begin(&server, &open, number, stream),
            // Too many descriptors are open: those of others may be closed soon.
            Err(_) => drop(poll_for(&[], Some(Duration::from_millis(50)))),
        }
    }
    Ok(())
}

fn begin(server: &Arc<Server>, open: &Open, number: u64, mut stream: TcpStream) {
    let Ok(ours) = stream.try_clone() else { return };
    {
        let mut all = open.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            if let Some((_, oldest)) = all.pop_first() {
                let _ = oldest.shutdown(Shutdown::Both);
            }
        }
        all.insert(number, ours);
    }
    let (server, of) = (server.clone(), open.clone());
    let begun = thread::Builder::new().stack_size(STACK).spawn(move || {
        server.converse(&mut stream);
        of.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    });
    if begun.is_err() {
        open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
}

/// A signal that is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToSignal {
    pid: i32,
    signal: u8,
}

/// A move that is asked for; -1 is the front end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToMove {
    pid: i32,
    to: i32,
}

impl Server {
    fn converse(&self, stream: &mut TcpStream) {
        let (response, head) = match Request::read(stream) {
            Ok(request) => (self.answer(&request), request.method == "HEAD"),
            Err(Some(response)) => (response, false),
            Err(None) => return,
        };
        http::answer(stream, &response, head);
        // What has come and was not read would make the kernel take back the answer (RST).
        drain(stream);
    }

    fn answer(&self, request: &Request) -> Response {
        if !request.names_us(&self.settings.names) {
            return Response::failed(421, "this server is not called so (--name)");
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET" | "HEAD", "/") => page(),
            ("GET" | "HEAD", "/api/state") => {
                self.watch.looked();
                Response::new(200, "application/json", api::state(&self.watch.seen()))
            }
            ("GET" | "HEAD", "/metrics") => {
                Response::new(200, "text/plain; version=0.0.4; charset=utf-8", api::metrics(&self.watch.seen()))
            }
            ("POST", "/api/sign-in" | "/api/signal" | "/api/move") => match self.may_act(request) {
                Ok(()) => self.act(request),
                Err(response) => response,
            },
            (_, "/" | "/api/state" | "/metrics" | "/api/sign-in" | "/api/signal" | "/api/move") => {
                Response::failed(405, "not with this method")
            }
            _ => Response::failed(404, "there is no such page"),
        }
    }

    fn may_act(&self, request: &Request) -> std::result::Result<(), Response> {
        let said = request.header("x-shoal-token").unwrap_or_default();
        match () {
            () if !request.is_of_our_page() => Err(Response::failed(403, "another server's page asks")),
            () if !token::same(&self.settings.token, said) => {
                Err(Response::failed(401, "sign in first, with the token that `shoal web --token` prints"))
            }
            () => Ok(()),
        }
    }

    fn act(&self, request: &Request) -> Response {
        let wrong = |e: serde_json::Error| Response::failed(400, &e.to_string());
        match request.path.as_str() {
            "/api/signal" => match serde_json::from_slice::<ToSignal>(&request.body) {
                Ok(ToSignal { pid, signal }) => match Sig::new(signal) {
                    Some(sig) if self.is_known(pid) => told(source::signal(Pid(pid), sig)),
                    Some(_) => Response::failed(404, &format!("there is no process {pid}")),
                    None => Response::failed(400, &format!("{signal} is no signal")),
                },
                Err(e) => wrong(e),
            },
            "/api/move" => match serde_json::from_slice::<ToMove>(&request.body) {
                Ok(ToMove { pid, to }) => told(source::move_to(self.settings.socket.clone(), Pid(pid), NodeId(to))),
                Err(e) => wrong(e),
            },
            _ => told(Ok("signed in".into())),
        }
    }

    /// Only processes of the space are signalled, not all of this machine.
    fn is_known(&self, pid: i32) -> bool {
        self.watch.seen().picture.processes.iter().any(|one| one.row.pid.0 == pid)
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
    /// So much is read of what is too much, and so long.
    const MOST_DRAINED: usize = 64 * 1024;
    const LONGEST: Duration = Duration::from_millis(200);
    let (mut taken, mut some) = (0, [0; 4096]);
    let _ = stream.set_nonblocking(true);
    while taken < MOST_DRAINED && poll_for(&[(stream.as_fd(), Ready::READ)], Some(LONGEST)).is_ok_and(|r| r[0].readable)
    {
        match kern::sys::read(stream.as_fd(), &mut some) {
            Ok(n) if n > 0 => taken += n,
            _ => return,
        }
    }
}
