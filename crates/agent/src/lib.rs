#![forbid(unsafe_code)]

pub mod streams;
