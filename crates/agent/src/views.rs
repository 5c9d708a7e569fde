//! Whose files programs see here: the node's own, or the front end's in a mount namespace that is made when the first program asks for it.
//!
//! | the front end's files | next |
//! |---|---|
//! | Never: the configuration forbids it | |
//! | Away | asked for: Coming |
//! | Coming: who serves them makes the namespace | it is made: There; who serves them ends: Away, and whoever waits is refused |
//! | There | who serves them ends: Away, and who sees them is killed |
//!
//! Where they are usual they are There from the agent's birth, and whoever serves them ends with the agent.

use crate::agent::{Agent, Token};
use crate::setup::Files;
use crate::stands::Stand;
use crate::starts::Work;
use ::view::node::Told;
use kern::epoll::Interest;
use kern::proc::PROC;
use kern::{pidfd, view};
use mover::Order;
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tracing::{info, warn};
use vocab::{Creds, Fault, Pid, Result, Sig};
use wire::files::View;
use wire::run::Program;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Never,
    Away,
    Coming,
    There,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Asked,
    Made,
    Ended,
}

/// The table of the module; `None`: it cannot be.
fn next(state: State, event: Event) -> Option<State> {
    match (state, event) {
        (State::Away, Event::Asked) => Some(State::Coming),
        (State::Coming | State::There, Event::Asked) => Some(state),
        (State::Coming, Event::Made) => Some(State::There),
        (State::Away | State::Coming | State::There, Event::Ended) => Some(State::Away),
        (State::Never, _) | (State::Away | State::There, Event::Made) => None,
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Views {
    state: State,
    /// The front end's are usual.
    usual: bool,
    /// The link by which their namespace is entered, the namespace, and what the kernel calls it and the agent's own.
    path: PathBuf,
    namespace: Option<OwnedFd>,
    name: Option<PathBuf>,
    own: Option<PathBuf>,
    /// To who serves them when asked.
    line: Option<OwnedFd>,
}

impl Views {
    /// The front end's files are usual here, and there.
    ///
    /// # Errors
    /// `Sys`: the namespace cannot get its place.
    pub(crate) fn of_front(run_dir: &Path, namespace: OwnedFd) -> Result<Views> {
        let of_node = Views::of_node(run_dir, None);
        let mut views = Views { state: State::There, usual: true, ..of_node };
        views.place(namespace).map(|()| views)
    }

    /// The node's own are usual; `line`: to who serves the front end's. None: they are never to be seen.
    pub(crate) fn of_node(run_dir: &Path, line: Option<OwnedFd>) -> Views {
        let own = view::name_of(Pid(std::process::id() as i32));
        let state = if line.is_some() { State::Away } else { State::Never };
        Views { state, path: run_dir.join(::view::node::NAMESPACE), own, line, ..Views::default() }
    }

    /// Does a program of a user see the front end's files, if it says nothing?
    pub(crate) fn is_of_front(&self, wanted: Option<View>) -> bool {
        match wanted {
            None | Some(View::Either) => self.usual,
            Some(wanted) => wanted == View::Front,
        }
    }

    /// The view of this process; none: a namespace of its own, or the process has ended.
    pub(crate) fn of(&self, pid: Pid) -> Option<View> {
        let name = view::name_of(pid)?;
        match () {
            () if self.name.as_ref() == Some(&name) => Some(View::Front),
            () if self.own.as_ref() == Some(&name) => Some(View::Node),
            () => None,
        }
    }

    /// The view of programs that ask for none.
    pub(crate) fn usual(&self) -> View {
        if self.usual {
            View::Front
        } else {
            View::Node
        }
    }

    /// May processes of this user see the node's own files?
    pub(crate) fn may_see_node(&self, creds: &Creds) -> bool {
        !self.usual || creds.uid.real == 0 && creds.uid.effective == 0
    }

    /// May this program see what it wants?
    fn allows(&self, wanted: Option<View>, creds: &Creds) -> Result<()> {
        match wanted {
            Some(View::Node) if !self.may_see_node(creds) => Err(Fault::refused(
                "--view node: on this node programs see the front end's files, and only root's may see its own",
            )),
            Some(View::Front) if self.state == State::Never => Err(Fault::refused(
                "--view front: this node shows nobody the front end's files (`view` of [node] in its configuration)",
            )),
            _ => Ok(()),
        }
    }

    /// Does this program wait for the front end's files?
    pub(crate) fn keeps_waiting(&self, program: &Program) -> bool {
        let needs = matches!(program.view, Some(View::Front | View::Either));
        needs && matches!(self.state, State::Away | State::Coming)
    }

    /// Paths of namespaces: the one that a program enters that wants this, and the one that it enters if it is not there without.
    pub(crate) fn paths(&self, wanted: Option<View>) -> (Option<&[u8]>, Option<&[u8]>) {
        let path = Some(self.path.as_os_str().as_bytes()).filter(|_| self.state == State::There);
        match (self.is_of_front(wanted), wanted) {
            (true, _) => (path, None),
            (false, Some(View::Either)) => (None, path),
            (false, _) => (None, None),
        }
    }

    /// Arguments of a mover that sees this.
    pub(crate) fn of_mover(&self, sees: Option<View>) -> Vec<OsString> {
        let path = || self.path.clone().into_os_string();
        let mut all: Vec<OsString> = Vec::new();
        if sees == Some(View::Front) && self.state == State::There {
            all.extend(["--view".into(), path()]);
        }
        if self.state != State::Never {
            all.extend(["--front".into(), path()]);
        }
        if let Some(sees) = sees {
            all.extend(["--sees".into(), sees.name().into()]);
        }
        all
    }

    fn happens(&mut self, event: Event) {
        match next(self.state, event) {
            Some(to) => {
                if to != self.state {
                    info!("front end's files: {event:?}: {:?} -> {to:?}", self.state);
                }
                self.state = to;
            }
            None => warn!("front end's files: {event:?} while {:?}", self.state),
        }
    }

    /// The namespace gets its place.
    fn place(&mut self, namespace: OwnedFd) -> Result<()> {
        self.take_away();
        let its = PathBuf::from(format!("{PROC}/{}/fd/{}", std::process::id(), namespace.as_raw_fd()));
        self.name = Some(std::fs::read_link(&its).map_err(|e| Fault::io(&e, "name a mount namespace"))?);
        self.namespace = Some(namespace);
        symlink(&its, &self.path).map_err(|e| Fault::io(&e, format!("make the link {}", self.path.display())))
    }

    fn take_away(&mut self) {
        (self.namespace, self.name) = (None, None);
        // There may be none, or one of an agent before this one.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Agent {
    /// Where a program finds its files. `parent`: it is started by another one here, has no more rights than that, and sees what that sees.
    pub(crate) fn files_for(&self, program: &Program, arrives: bool, parent: Option<Pid>) -> Result<Files<'_>> {
        let root = self.administration.root().filter(|_| !arrives);
        let views = &self.administration.views;
        let Some(parent) = parent else {
            let (view, fallback) = views.paths(program.view);
            return Ok(Files { root, view, fallback });
        };
        let wanted = program.view.filter(|wanted| *wanted != View::Either);
        if !program.places.is_empty() || wanted.is_some_and(|wanted| views.of(parent) != Some(wanted)) {
            let why = "--view and --bind: the program is started by a process of this node, and sees what that sees";
            return Err(Fault::refused(why));
        }
        Ok(Files { root, ..Files::default() })
    }

    /// The view of its process, or the one that it is to have if nobody says more.
    pub(crate) fn views_of_mover(&self, whom: Pid, order: &Order) -> Vec<OsString> {
        let views = &self.administration.views;
        let stands = self.stands.get(whom).is_some_and(Stand::apart);
        let sees = match order {
            Order::In(_) if !stands => Some(views.usual()),
            Order::Suits(_) => Some(views.usual()),
            _ => views.of(whom),
        };
        views.of_mover(sees)
    }

    /// May the program see what it wants, if it has to wait for that?
    pub(crate) fn prepare_view(&mut self, creds: &Creds, program: &Program) -> Result<()> {
        self.administration.views.allows(program.view, creds)?;
        match self.administration.views.keeps_waiting(program) {
            true => self.want_front(),
            false => Ok(()),
        }
    }

    /// Somebody needs the front end's files.
    pub(crate) fn want_front(&mut self) -> Result<()> {
        let front = self.uplink.peer();
        let views = &mut self.administration.views;
        let (Some(line), State::Away) = (&views.line, views.state) else { return Ok(()) };
        let front = front.ok_or_else(|| Fault::gone("the front end cannot be reached from this node"))?;
        ::view::node::ask(line.as_fd(), (front, self.number))?;
        views.happens(Event::Asked);
        Ok(())
    }

    /// Polls the line to who serves them.
    pub(crate) fn poll_views(&self) -> Result<()> {
        let line: Option<BorrowedFd<'_>> = self.administration.views.line.as_ref().map(AsFd::as_fd);
        line.map_or(Ok(()), |line| self.poller.add(line, Token::Files.number(), Interest::READ))
    }

    /// The process that serves them has said something.
    pub(crate) fn hear_views(&mut self) -> Result<()> {
        let views = &mut self.administration.views;
        let Some(line) = &views.line else { return Ok(()) };
        let event = match ::view::node::told(line.as_fd())? {
            Told::Made(namespace) => match views.place(namespace) {
                Ok(()) => Event::Made,
                Err(fault) => {
                    warn!(%fault, "the front end's files are made and cannot be shown");
                    return Ok(());
                }
            },
            Told::Ended => Event::Ended,
            Told::Nothing => return Ok(()),
        };
        views.happens(event);
        if event == Event::Ended {
            views.take_away();
            self.lose_views();
        }
        self.next_start();
        Ok(())
    }

    /// Programs that see them could go on with nothing, and programs that wait for them would wait for long.
    fn lose_views(&mut self) {
        for pid in self.bodies.iter().map(|body| body.person.pid).collect::<Vec<_>>() {
            if view::sees(pid, ::view::node::MOUNTED) {
                warn!(%pid, "killed: who serves the front end's files has ended");
                let _ = pidfd::open(pid).and_then(|body| pidfd::kill(body.as_fd(), Sig::KILL));
            }
        }
        let views = &self.administration.views;
        let waits = |work: &Work| matches!(work, Work::Program(start) if views.keeps_waiting(&start.program));
        let (lost, kept) = std::mem::take(&mut self.starts.queue).into_iter().partition(waits);
        self.starts.queue = kept;
        let lost: std::collections::VecDeque<Work> = lost;
        for work in lost {
            self.work_failed(work, Fault::gone("the front end's files cannot be shown on this node now"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_ends_files_come_when_asked_for_and_again_after_they_have_gone() {
        use {Event as E, State as S};
        for (state, [asked, made, ended]) in [
            (S::Never, [None, None, None]),
            (S::Away, [Some(S::Coming), None, Some(S::Away)]),
            (S::Coming, [Some(S::Coming), Some(S::There), Some(S::Away)]),
            (S::There, [Some(S::There), None, Some(S::Away)]),
        ] {
            assert_eq!([E::Asked, E::Made, E::Ended].map(|event| next(state, event)), [asked, made, ended]);
        }
    }

    #[test]
    fn programs_see_what_they_want_where_it_is_allowed() {
        let (root, ann) = (Creds::default(), Creds { uid: vocab::Ids::all(7), ..Creds::default() });
        let at = |usual, state| Views { usual, state, path: "/x".into(), ..Views::default() };
        let path = Some(&b"/x"[..]);
        let front = at(true, State::There);
        assert_eq!([None, Some(View::Front), Some(View::Either)].map(|wanted| front.paths(wanted)), [(path, None); 3]);
        assert_eq!(front.paths(Some(View::Node)), (None, None));
        assert!(front.allows(Some(View::Node), &root).is_ok() && front.allows(Some(View::Node), &ann).is_err());
        let node = at(false, State::There);
        assert_eq!([None, Some(View::Node)].map(|wanted| node.paths(wanted)), [(None, None); 2]);
        assert_eq!(node.paths(Some(View::Front)), (path, None));
        assert_eq!(node.paths(Some(View::Either)), (None, path));
        assert!(node.allows(Some(View::Node), &ann).is_ok());
        let never = at(false, State::Never);
        assert!(never.allows(Some(View::Front), &root).is_err() && never.allows(Some(View::Either), &ann).is_ok());
        assert_eq!(never.paths(Some(View::Either)), (None, None));
        let asks = |view| at(false, State::Away).keeps_waiting(&Program { view, ..Program::default() });
        assert_eq!(
            [None, Some(View::Node), Some(View::Front), Some(View::Either)].map(asks),
            [false, false, true, true]
        );
    }
}
