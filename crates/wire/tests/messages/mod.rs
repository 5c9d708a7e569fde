//! Every message of the protocol as proptest strategies, one for each variant under its name. A new variant goes here too
//! (`samples.rs` tells when one is missing).

use proptest::prelude::*;

/// The variants of one message type.
pub(crate) type Variants<T> = Vec<(&'static str, BoxedStrategy<T>)>;

macro_rules! variants {
    ($($name:ident => $strategy:expr),* $(,)?) => { vec![$((stringify!($name), $strategy.boxed())),*] };
}

mod asked;
mod links;
mod nouns;
mod rows;

pub(crate) use asked::{answers, asks};
pub(crate) use links::{chunks, to_front, to_node};
pub(crate) mod jobs;
pub(crate) mod join;
pub(crate) mod view;

/// Any variant.
pub(crate) fn any_of<T: Clone + std::fmt::Debug + 'static>(variants: Variants<T>) -> BoxedStrategy<T> {
    proptest::strategy::Union::new(variants.into_iter().map(|(_, strategy)| strategy)).boxed()
}
