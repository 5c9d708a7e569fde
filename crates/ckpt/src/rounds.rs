//! How often the memory of a running process is copied before it is stopped: when the table says so, the next copy is the last, and the
//! process stands still for that one.

/// What was copied so far, in bytes by rounds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rounds {
    pub copied: Vec<u64>,
}

/// Why the process is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// What the last round found takes less time than the rest of a dump.
    LittleIsLeft,
    /// It writes as fast as it is copied.
    NoLongerShrinks,
    /// It shrinks too slowly.
    ManyRounds,
}

/// Bytes.
const LITTLE: u64 = 256 * 1024;
const MANY: usize = 16;

type Row = (fn(&[u64]) -> bool, Why);

/// The first row that applies decides; without one there is another round.
const TABLE: [Row; 3] = [
    (|copied| matches!(copied, [.., last] if *last <= LITTLE), Why::LittleIsLeft),
    (|copied| matches!(copied, [.., before, last] if *last > before / 4 * 3), Why::NoLongerShrinks),
    (|copied| copied.len() >= MANY, Why::ManyRounds),
];

impl Rounds {
    /// A round has copied so much. `None`: there is to be another one.
    pub fn done(&mut self, bytes: u64) -> Option<Why> {
        self.copied.push(bytes);
        TABLE.iter().find(|(applies, _)| applies(&self.copied)).map(|(_, why)| *why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    /// Rounds as these until the process is stopped.
    fn ends(bytes: impl IntoIterator<Item = u64>) -> (usize, Option<Why>) {
        let mut rounds = Rounds::default();
        let why = bytes.into_iter().find_map(|bytes| rounds.done(bytes));
        (rounds.copied.len(), why)
    }

    #[test]
    fn every_row_of_the_table_decides() {
        assert_eq!(ends([1024 * MIB, 4 * MIB, LITTLE]), (3, Some(Why::LittleIsLeft)));
        assert_eq!(ends([0]), (1, Some(Why::LittleIsLeft)));
        assert_eq!(ends([1024 * MIB, 900 * MIB]), (2, Some(Why::NoLongerShrinks)));
        assert_eq!(ends([1024 * MIB, 768 * MIB]), (2, None));
        assert_eq!(ends((0..100).map(|round| (MIB << 40) >> round)), (MANY, Some(Why::ManyRounds)));
    }

    /// Whatever a process does, it is stopped some time.
    #[test]
    fn there_is_always_an_end() {
        for shrinks in [1, 2, 3, 5, 8] {
            let (rounds, why) = ends((0..1000).scan(MIB << 20, |left, _| {
                *left = *left * shrinks / 8;
                Some(*left)
            }));
            assert!(why.is_some() && rounds <= MANY, "{shrinks}/8: {rounds} rounds, {why:?}");
        }
    }
}
