//! The life of a ghost, as a table.

/// Where a ghost is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ghost {
    /// There is none, and none will come.
    Absent,
    /// Its Clone has not been given.
    Wanted,
    /// Its Clone has been given (or it is `shoal run`, which will hold).
    Coming,
    /// It holds, and obeys.
    Held,
    /// It is in the exit gate.
    Dying,
    /// It has ended.
    Gone,
}

/// What moves a ghost on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Its Clone was given.
    Cloned,
    /// Its Clone failed, or its cloner died first.
    Failed,
    Held,
    Dying,
    Gone,
}

impl Ghost {
    /// The table. What is not in it changes nothing.
    pub(crate) fn next(self, turn: Turn) -> Ghost {
        match (self, turn) {
            (Ghost::Wanted, Turn::Cloned) => Ghost::Coming,
            (Ghost::Wanted | Ghost::Coming, Turn::Failed) => Ghost::Absent,
            (Ghost::Wanted | Ghost::Coming, Turn::Held) => Ghost::Held,
            (Ghost::Wanted | Ghost::Coming | Ghost::Held, Turn::Dying) => Ghost::Dying,
            (Ghost::Wanted | Ghost::Coming | Ghost::Held | Ghost::Dying, Turn::Gone) => Ghost::Gone,
            (same, _) => same,
        }
    }

    /// May it be given commands? Not before it holds: if its cloner dies first, another one has to make it another way.
    pub(crate) fn obeys(self) -> bool {
        self == Ghost::Held
    }

    /// Will it obey what is queued for it?
    pub(crate) fn will_obey(self) -> bool {
        matches!(self, Ghost::Wanted | Ghost::Coming | Ghost::Held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Ghost; 6] = [Ghost::Absent, Ghost::Wanted, Ghost::Coming, Ghost::Held, Ghost::Dying, Ghost::Gone];

    /// Columns: Cloned, Failed, Held, Dying, Gone.
    const TABLE: [[Ghost; 5]; 6] = [
        [Ghost::Absent; 5],
        [Ghost::Coming, Ghost::Absent, Ghost::Held, Ghost::Dying, Ghost::Gone],
        [Ghost::Coming, Ghost::Absent, Ghost::Held, Ghost::Dying, Ghost::Gone],
        [Ghost::Held, Ghost::Held, Ghost::Held, Ghost::Dying, Ghost::Gone],
        [Ghost::Dying, Ghost::Dying, Ghost::Dying, Ghost::Dying, Ghost::Gone],
        [Ghost::Gone; 5],
    ];

    #[test]
    fn every_turn_of_every_state_is_as_the_table_says() {
        for (row, ghost) in ALL.into_iter().enumerate() {
            for (column, turn) in
                [Turn::Cloned, Turn::Failed, Turn::Held, Turn::Dying, Turn::Gone].into_iter().enumerate()
            {
                assert_eq!(ghost.next(turn), TABLE[row][column], "{ghost:?} {turn:?}");
            }
        }
    }

    #[test]
    fn a_ghost_never_comes_back_from_the_exit_gate() {
        for ghost in [Ghost::Dying, Ghost::Gone] {
            assert!(!ghost.obeys() && !ghost.will_obey());
        }
    }
}
