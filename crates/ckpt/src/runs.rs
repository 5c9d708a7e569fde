//! Sets of pages as runs of them, in the order of their addresses and apart from each other.

use kern::pagemap::Run;

/// What is in both.
pub(crate) fn both(one: &[Run], other: &[Run]) -> Vec<Run> {
    let (mut left, mut right, mut all) = (one.iter().peekable(), other.iter().peekable(), Vec::new());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let run = Run { start: a.start.max(b.start), end: a.end.min(b.end) };
        if run.start < run.end {
            all.push(run);
        }
        if a.end < b.end {
            left.next();
        } else {
            right.next();
        }
    }
    all
}

/// What is in the first and not in the second.
pub(crate) fn without(one: &[Run], other: &[Run]) -> Vec<Run> {
    let (mut rest, mut all) = (other, Vec::new());
    for run in one {
        let mut from = run.start;
        while let Some(hole) = rest.first().filter(|hole| hole.start < run.end) {
            if from < hole.start {
                all.push(Run { start: from, end: hole.start });
            }
            from = from.max(hole.end);
            if hole.end > run.end {
                break;
            }
            rest = &rest[1..];
        }
        if from < run.end {
            all.push(Run { start: from, end: run.end });
        }
    }
    all
}

/// What is in either.
pub(crate) fn either(one: &[Run], other: &[Run]) -> Vec<Run> {
    let mut both: Vec<Run> = one.iter().chain(other).copied().collect();
    both.sort_unstable_by_key(|run| run.start);
    let mut all: Vec<Run> = Vec::new();
    for run in both {
        match all.last_mut() {
            Some(last) if last.end >= run.start => last.end = last.end.max(run.end),
            _ => all.push(run),
        }
    }
    all
}

pub(crate) fn bytes(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.end - run.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every set of eight pages with every other.
    #[test]
    fn as_sets_of_pages() {
        let runs = |bits: u32| either(&[], &pages(bits).map(|at| Run { start: at, end: at + 1 }).collect::<Vec<_>>());
        let set = |runs: &[Run]| runs.iter().flat_map(|run| run.start..run.end).collect::<BTreeSet<u64>>();
        for one in 0..256 {
            for other in 0..256 {
                let (a, b) = (runs(one), runs(other));
                assert_eq!(set(&both(&a, &b)), pages(one & other).collect(), "{one:b} and {other:b}");
                assert_eq!(set(&without(&a, &b)), pages(one & !other).collect(), "{one:b} without {other:b}");
                assert_eq!(set(&either(&a, &b)), pages(one | other).collect(), "{one:b} or {other:b}");
                assert_eq!(bytes(&a), u64::from(one.count_ones()));
            }
        }
    }

    fn pages(bits: u32) -> impl Iterator<Item = u64> {
        (0..8).filter(move |bit| bits & (1 << bit) != 0)
    }
}
