//! What a machine says of its load: taken from the kernel ([`sampler`]), as text ([`text`], docs/monitor.md), served to many at once ([`serve`]), gathered
//! from many ([`gather`]), kept in a file ([`trace`]).
//!
//! A sample is a row of numbers; what they mean is in its [`Layout`], which is made once and changes only when a processor, a disk or an interface
//! comes or goes.
#![forbid(unsafe_code)]

pub mod ask;
pub mod concentrate;
pub mod csv;
pub mod gather;
mod join;
pub mod layout;
mod lines;
pub mod machine;
mod prometheus;
pub mod replay;
pub mod sampler;
pub mod serve;
mod sources;
mod space;
pub mod text;
pub mod trace;
pub mod words;

pub use layout::{Column, Kind, Layout, Sample, Unit};
pub use prometheus::prometheus;
