//! What the cluster does, for people to look at: `shoal top` in a terminal and `shoal web` in a browser.
//!
//! Both ask the daemon of their machine what any client may ask, and change nothing by looking.
#![forbid(unsafe_code)]

pub mod people;
mod picture;
mod source;
pub mod top;
pub mod tree;
pub mod units;
pub mod web;
