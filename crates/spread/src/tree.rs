//! The tree. Place 0 is where the stream begins; the others are numbered from 1, and place i asks place (i - 1) / k.

/// Bytes in a second that a machine can send to others: a link of 1 Gb/s. Over faster ones the same trees are good, since both terms of [`duration_us`] shrink.
const RATE: f64 = 125e6;
/// The time that each machine on the way adds before its first byte leaves, in microseconds: a connection, its keys, and being woken (measured between two sandbox nodes, docs/decisions/spreading.md).
const HOP_US: f64 = 2_000.0;
/// Bytes that are passed on together.
const PIECE: f64 = 262_144.0;

/// How many children each place is to have, so that all have so many bytes soonest: many for little, one (a chain) for much. At least 1.
pub fn fan_out(bytes: u64, machines: usize) -> usize {
    let all = 1..=machines.max(1);
    let took = |k: &usize| duration_us(bytes, machines, *k);
    all.min_by(|a, b| took(a).total_cmp(&took(b))).unwrap_or(1)
}

/// A place sends all to each of its children, and each of as many machines as there are on the longest way waits for the first piece.
fn duration_us(bytes: u64, machines: usize, k: usize) -> f64 {
    let bytes = bytes as f64;
    let one = |bytes: f64| bytes / RATE * 1e6;
    k as f64 * one(bytes) + depth(machines, k) as f64 * (HOP_US + one(bytes.min(PIECE)))
}

/// Machines on the way to the last place.
fn depth(machines: usize, k: usize) -> usize {
    ancestors(machines, k).count()
}

/// Whom a place asks, one after the other: its parent, that one's parent, up to 0.
pub(crate) fn ancestors(place: usize, k: usize) -> impl Iterator<Item = usize> {
    let parent = move |place: usize| place.checked_sub(1).map(|before| before / k.max(1));
    std::iter::successors(parent(place), move |place| parent(*place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn little_goes_wide_and_much_goes_along_a_chain() {
        assert_eq!(fan_out(1_000, 10), 10);
        assert!(fan_out(10_000, 1000) > 8);
        assert!((2..=4).contains(&fan_out(5_000_000, 100)));
        assert_eq!(fan_out(2_000_000_000, 100), 1);
        assert_eq!(fan_out(0, 0), 1);
        assert_eq!(fan_out(u64::MAX, 1), 1);
    }

    #[test]
    fn two_children_each() {
        let of = |place| ancestors(place, 2).collect::<Vec<_>>();
        assert_eq!(of(0), []);
        assert_eq!(of(1), [0]);
        assert_eq!(of(2), [0]);
        assert_eq!(of(6), [2, 0]);
        assert_eq!(of(14), [6, 2, 0]);
    }

    proptest! {
        /// All lead to where the stream begins, over ever smaller places, and no place has more children than it is to have.
        #[test]
        fn it_is_a_tree(machines in 1usize..300, k in 1usize..40) {
            let mut children = vec![0; machines + 1];
            for place in 1..=machines {
                let way: Vec<usize> = ancestors(place, k).collect();
                prop_assert!(way.windows(2).all(|two| two[1] < two[0]) && way[0] < place);
                prop_assert_eq!(way.last(), Some(&0));
                children[way[0]] += 1;
            }
            prop_assert!(children.iter().all(|count| *count <= k));
        }
    }
}
