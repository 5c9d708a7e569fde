//! Messages of a machine that joins, as those of `super`.

use super::nouns::{bytes, fault, node};
use super::Variants;
use proptest::option;
use proptest::prelude::*;
use wire::join::{JoinAnswer, JoinAsk};

pub(crate) fn join_asks() -> Variants<JoinAsk> {
    let key = (any::<u32>(), "[a-z]{0,9}").prop_map(|(version, host)| JoinAsk::Key { version, host });
    variants! {
        Key => key,
        Kept => Just(JoinAsk::Kept),
    }
}

pub(crate) fn join_answers() -> Variants<JoinAnswer> {
    let key = (bytes(), option::of(node()), option::of("[a-z]{1,9}"));
    variants! {
        Failed => fault().prop_map(JoinAnswer::Failed),
        Key => key.prop_map(|(key, number, name)| JoinAnswer::Key { key, number, name }),
    }
}
