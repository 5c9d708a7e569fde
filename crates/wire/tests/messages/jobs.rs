//! Messages of the batch system, as those of `super`.

use super::nouns::{bytes, exit, fault, node, program};
use super::Variants;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wire::jobs::{JobAnswer, JobAsk, JobRow, Submission};

fn submission() -> BoxedStrategy<Box<Submission>> {
    let parts = (program(), any::<u32>(), any::<u64>(), "[!-~]{0,20}", bytes());
    let whole = |(program, nodes, seconds, name, output)| Submission { program, nodes, seconds, name, output };
    parts.prop_map(move |parts| Box::new(whole(parts))).boxed()
}

fn row() -> BoxedStrategy<JobRow> {
    let words = ("[!-~]{0,20}", "[a-z]{0,8}", ".{0,20}");
    let numbers = (any::<[u64; 2]>(), any::<[u32; 2]>(), any::<i64>(), any::<[Option<i64>; 2]>());
    let rest = (vec(node(), 0..5), option::of(exit()));
    (words, numbers, rest)
        .prop_map(|((name, state, why), ([id, seconds], [uid, count], submitted, [started, ended]), (nodes, exit))| {
            JobRow { id, uid, name, state, count, nodes, seconds, submitted, started, ended, exit, why }
        })
        .boxed()
}

pub(crate) fn job_asks() -> Variants<JobAsk> {
    variants! {
        Submit => submission().prop_map(JobAsk::Submit),
        List => any::<bool>().prop_map(|all| JobAsk::List { all }),
        Cancel => any::<u64>().prop_map(|id| JobAsk::Cancel { id }),
    }
}

pub(crate) fn job_answers() -> Variants<JobAnswer> {
    variants! {
        Failed => fault().prop_map(JobAnswer::Failed),
        Submitted => any::<u64>().prop_map(|id| JobAnswer::Submitted { id }),
        Jobs => vec(row(), 0..4).prop_map(JobAnswer::Jobs),
        Cancelled => Just(JobAnswer::Cancelled),
    }
}
