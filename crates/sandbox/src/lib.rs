//! A front end and its nodes on one machine (docs/mechanisms.md, "The test cluster"): one command makes them, runs a program on the front
//! end, and leaves nothing behind.
//!
//! Who is who, from the outside in:
//! - the **caller** ([`outer`]): `shoal sandbox` itself, in the caller's world. It passes signals and terminal bytes on.
//! - the **janitor** ([`janitor`]): also outside. It outlives the rest and removes what does not end by itself: cgroups.
//! - the **cluster** ([`cluster`]): the init of a PID namespace that holds everything else, with the bridge in its
//!   network namespace. When it dies the kernel kills all below it, and their namespaces, mounts and devices go.
//! - a **machine** ([`machine`]) each for the front end and the nodes: the init of a PID namespace, with namespaces of
//!   its own for network, mounts, host name and IPC. It runs the real daemon, and on the front end the command.
#![forbid(unsafe_code)]

mod clocks;
mod cluster;
pub mod control;
mod janitor;
mod layout;
mod machine;
mod outer;
mod places;
mod shell;
mod talk;
mod terminal;
mod watch;

pub use outer::run;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The most nodes that one sandbox has.
pub const MOST_NODES: u32 = 100;

/// What to make and what to run in it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// 0 to [`MOST_NODES`].
    pub nodes: u32,
    /// The program and its arguments; empty: an interactive shell.
    pub command: Vec<OsString>,
    /// After how long a silence a node is lost; `None`: the daemons' default.
    pub lost_after: Option<Duration>,
    /// So often a process is moved at random; `None`: never.
    pub chaos: Option<Duration>,
    /// Where the daemons' logs go (`front.log`, `n0.log`, …); `None`: into the sandbox, where they end with it.
    pub logs: Option<PathBuf>,
    pub clocks: Clocks,
    /// Nodes have nothing but a kernel and the program, and show the front end's files.
    pub bare: bool,
    /// Lines for [node] of the nodes' configuration; empty: none.
    pub settings: String,
}

/// What CLOCK_MONOTONIC and CLOCK_BOOTTIME show on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clocks {
    /// What they show on the front end.
    Same,
    /// Something else on each, in a time namespace (time_namespaces(7)), where the kernel has such.
    #[default]
    Own,
    /// That too, and a node says that it is another machine, so that nobody can know by which namespace it is how far two clocks are apart.
    Foreign,
}
