//! How long to wait before the next attempt to dial.

/// Microseconds by the number of attempts that have failed in a row; the last stands for all further ones.
///
/// The first retry is quick, since most breaks are a restart of the other daemon; the cap is short, since a node's
/// bodies live only as long as its lease (see [`crate::beat`]) and must be reached again before.
const DELAYS_US: [u64; 5] = [0, 50_000, 100_000, 200_000, 400_000];

/// Microseconds to wait after `failed` attempts in a row (0: dial at once). `random` (any number, from
/// [`crate::random`]) spreads it over the upper half of the table's delay, so that the nodes of a cluster do not all
/// dial at once.
pub fn delay_us(failed: u32, random: u64) -> u64 {
    let place = usize::try_from(failed).unwrap_or(usize::MAX).min(DELAYS_US.len() - 1);
    let whole = DELAYS_US[place];
    whole - random % (whole / 2 + 1)
}

/// The first delay of a peer that was refused, and the longest, in microseconds.
const REFUSED_FIRST_US: u64 = 50_000;
const REFUSED_LONGEST_US: u64 = 30_000_000;

/// Microseconds to wait after the peer has refused `refused` attempts in a row (0: dial at once): each delay twice the one before, spread as by
/// [`delay_us`]. For who has nothing that depends on the link: a wrong key or number stays wrong until somebody mends it.
pub fn refused_delay_us(refused: u32, random: u64) -> u64 {
    let Some(doubled) = refused.checked_sub(1) else { return 0 };
    let whole = (REFUSED_FIRST_US << doubled.min(20)).min(REFUSED_LONGEST_US);
    whole - random % (whole / 2 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_cap_and_are_spread_over_their_upper_half() {
        for failed in [0, 1, 2, 7, 8, 1000, u32::MAX] {
            let whole = DELAYS_US[(failed as usize).min(4)];
            assert_eq!(delay_us(failed, 0), whole);
            for random in [1, 12_345, u64::MAX / 3, u64::MAX] {
                let delay = delay_us(failed, random);
                assert!(delay <= whole && delay >= whole / 2, "{failed} {random}: {delay}");
            }
        }
        assert!(DELAYS_US.is_sorted());
    }

    #[test]
    fn who_is_refused_dials_ever_less() {
        let delays: Vec<u64> = (0..12).map(|refused| refused_delay_us(refused, 0)).collect();
        assert_eq!(delays[..4], [0, 50_000, 100_000, 200_000]);
        assert!(delays.is_sorted());
        assert_eq!(refused_delay_us(u32::MAX, 0), REFUSED_LONGEST_US);
        let in_a_minute = (1..).scan(0, |at, refused| {
            *at += refused_delay_us(refused, 0);
            Some(*at)
        });
        assert!(in_a_minute.take_while(|at| *at < 60_000_000).count() < 12);
        for random in [1, u64::MAX / 3, u64::MAX] {
            let delay = refused_delay_us(11, random);
            assert!((REFUSED_LONGEST_US / 2..=REFUSED_LONGEST_US).contains(&delay), "{random}: {delay}");
        }
    }
}
