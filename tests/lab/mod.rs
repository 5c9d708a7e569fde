//! What the runner is made of. Outside the sandbox: [`session`], [`evidence`], [`compile`], [`skip`]. Inside it, in
//! processes of their own: [`worker`]. They speak [`proto`].
//!
//! It uses the product only through its command line, and its kernel calls are rustix's: what it says about shoal must
//! not rest on shoal's own code.

pub(crate) mod carry;
pub(crate) mod compile;
pub(crate) mod evidence;
pub(crate) mod faults;
pub(crate) mod moved;
pub(crate) mod peer;
pub(crate) mod place;
pub(crate) mod procs;
pub(crate) mod proto;
pub(crate) mod quiet;
pub(crate) mod session;
pub(crate) mod skip;
pub(crate) mod terminal;
pub(crate) mod unsteady;
pub(crate) mod watchdog;
pub(crate) mod worker;

/// The runner's own failures and a test's are both a text for a person.
pub(crate) type Res<T = ()> = Result<T, String>;

/// Adds what was being done to an error.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl std::fmt::Display) -> Res<T>;
}

impl<T, E: std::fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl std::fmt::Display) -> Res<T> {
        self.map_err(|e| format!("{what}: {e}"))
    }
}
