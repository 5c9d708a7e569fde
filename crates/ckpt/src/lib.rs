//! A process into an image and back, for any process that the caller may trace: without front end, node or link.
//!
//! A dump first looks at the running process, and refuses by name what it will not carry ([`survey`]); then all threads are stopped
//! ([`freeze`]) and asked, by loans (crate puppet), for what /proc does not tell. Nothing of the process is changed: it can go on
//! ([`dump`]). A restore makes a child that does nothing, replaces its memory and descriptors, adds threads, and sets them going with the
//! registers of before ([`restore`]).
//!
//! Each part of a process has a file in which dump and restore stand side by side, and each kind of descriptor one in [`kinds`].

#![forbid(unsafe_code)]

pub mod ahead;
mod apart;
pub mod asking;
mod asleep;
pub mod behind;
pub mod boot;
mod bring;
mod by_turns;
mod cgroups;
mod child;
mod children;
pub mod claims;
pub mod clocks;
pub mod cpu;
mod dry;
pub mod dump;
mod early;
mod elsewhere;
pub mod ended;
mod file_id;
pub mod foresee;
pub mod freeze;
pub mod guess;
mod header;
pub mod held;
mod identity;
mod keys;
pub mod kinds;
mod least;
mod leaving;
mod login;
mod many_files;
mod mapped;
mod memory;
mod modes;
mod mounts;
mod objects;
pub mod obstacle;
mod opened;
pub mod outlook;
pub mod ownership;
mod pages;
mod places;
mod plan;
pub mod pool;
pub mod precopy;
mod prepared;
mod proc;
mod queued;
mod rebuild;
pub mod rebuilt;
mod records;
mod registers;
pub mod remain;
pub mod restore;
mod rights;
pub mod rounds;
pub mod roused;
mod runs;
mod sigstate;
mod socket_options;
pub mod survey;
mod sysv;
mod threads;
mod timers;
mod together;
mod tracees;
mod undisturbed;
mod unheeded;
pub mod vdso;
pub mod vessel;
mod waits;
mod walk;
mod wants;
pub mod whole;
