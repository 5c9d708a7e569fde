//! How far a process is on its way from one node to another, and what moves it on.
//!
//! The new node makes a process that is to become the one that moves; the old one sends what is large of the image, and asks. Once it may leave the old
//! node alone decides: it stops its own, sends the rest, and when the new node says that all is there it binds its own, so that it can never run again, and
//! has the new one let its process run. Nobody else is asked while it stands still. So at most one of them can ever run, and until the old one is bound nothing is
//! lost by giving up. The front end hears of it from both: that it runs there says that it has left here, and where it has left it is to run.
//!
//! | state | what happens | next |
//! |---|---|---|
//! | Preparing | the new node waits for the image | Carrying: the old node is to send it |
//! | Carrying | the old node is ready to stop it | Leaving: it may |
//! | Preparing | anything fails, or a link is cut | over: it stays |
//! | Carrying | anything fails, the link to the new node is cut, or a node is lost | over: it stays |
//! | Carrying | the link to the old node is cut | it waits: the old node gives up, and says so when it is back |
//! | Leaving | the old node has ended it | Going: the new one is to let it run |
//! | Leaving | the new node lets it run | Landed: the old one is about to say that it has ended it |
//! | Leaving | the old node is back and waits | it is told again |
//! | Leaving | the old node could not, or is back without it | over: it stays |
//! | Leaving | the old node is lost | over: it has ended with it, where it may have run on |
//! | Leaving | the new node could not, is back without it, or is lost | it waits: the old node is to give up, if it can still |
//! | Going | the new node is back and waits | it is told again |
//! | Going | the new node says that it runs, or is back with it or without it, or is lost | over: it has moved |
//! | Landed | the old node has ended it, or is lost | over: it has moved |

/// How far a move is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Preparing,
    Carrying,
    Leaving,
    Going,
    Landed,
}

impl State {
    /// Has the old node ended its own, or is about to whatever happens?
    pub(crate) fn is_bound(self) -> bool {
        matches!(self, State::Going | State::Landed)
    }

    /// Is it the front end's to give up?
    pub(crate) fn can_end(self) -> bool {
        matches!(self, State::Preparing | State::Carrying)
    }
}

/// What moves a move on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The new node takes the image.
    Arriving,
    /// The old node would stop it now.
    Ready,
    /// The new node has all of it.
    Arrived,
    /// The new node could not.
    NotArrived,
    /// The old node has ended its own.
    Left,
    /// The old node could not, or is back without being about to.
    NotLeft,
    /// The old node is back and keeps it still.
    OldWaits,
    /// The link to the old node is cut.
    OldCut,
    /// The link to the new node is cut.
    NewCut,
    /// The old node is lost, and has ended everything on it.
    OldLost,
    /// The new node is back and keeps it still.
    NewWaits,
    /// The new node has let it run, or it has ended there.
    Runs,
    /// The new node is back, and nothing is on the way there.
    NewBack,
    /// The new node is lost.
    NewLost,
}

/// What follows from a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing (yet).
    Waits,
    To(State),
    /// What the node was told last is told again.
    Again,
    /// The old node is to give up.
    CallOff,
    Stays,
    Moved,
}

/// The table of a move; every pair has an answer.
pub(crate) fn next(state: State, change: Change) -> Next {
    match (state, change) {
        (State::Preparing, Change::Arriving) => Next::To(State::Carrying),
        (State::Carrying, Change::Ready) => Next::To(State::Leaving),
        (State::Leaving, Change::Left) => Next::To(State::Going),
        (State::Leaving, Change::Runs) => Next::To(State::Landed),
        (State::Leaving, Change::OldWaits) | (State::Going, Change::NewWaits) => Next::Again,
        (State::Leaving, Change::NotLeft | Change::OldLost) => Next::Stays,
        (State::Leaving, Change::NotArrived | Change::NewBack | Change::NewLost) => Next::CallOff,
        (State::Going, Change::Runs | Change::NewBack | Change::NewLost) => Next::Moved,
        (State::Landed, Change::Left | Change::NotLeft | Change::OldLost) => Next::Moved,
        // Whether the old node was told before is known when it is back, or lost; and what ended there runs nowhere else than on the new one.
        (State::Leaving | State::Going | State::Landed, _) => Next::Waits,
        (State::Carrying, Change::OldCut | Change::OldWaits) => Next::Waits,
        (State::Preparing | State::Carrying, Change::Arriving | Change::Ready | Change::Arrived) => Next::Waits,
        (State::Preparing | State::Carrying, _) => Next::Stays,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 5] = [State::Preparing, State::Carrying, State::Leaving, State::Going, State::Landed];
    const CHANGES: [Change; 14] = [
        Change::Arriving,
        Change::Ready,
        Change::Arrived,
        Change::NotArrived,
        Change::Left,
        Change::NotLeft,
        Change::OldWaits,
        Change::OldCut,
        Change::NewCut,
        Change::OldLost,
        Change::NewWaits,
        Change::Runs,
        Change::NewBack,
        Change::NewLost,
    ];

    /// Columns as in `CHANGES`.
    const TABLE: [[Next; 14]; 5] = {
        use Next::{Again, CallOff, Moved, Stays, To, Waits};
        const CARRYING: Next = To(State::Carrying);
        const LEAVING: Next = To(State::Leaving);
        const GOING: Next = To(State::Going);
        const LANDED: Next = To(State::Landed);
        [
            [CARRYING, Waits, Waits, Stays, Stays, Stays, Stays, Stays, Stays, Stays, Stays, Stays, Stays, Stays],
            [Waits, LEAVING, Waits, Stays, Stays, Stays, Waits, Waits, Stays, Stays, Stays, Stays, Stays, Stays],
            [Waits, Waits, Waits, CallOff, GOING, Stays, Again, Waits, Waits, Stays, Waits, LANDED, CallOff, CallOff],
            [Waits, Waits, Waits, Waits, Waits, Waits, Waits, Waits, Waits, Waits, Again, Moved, Moved, Moved],
            [Waits, Waits, Waits, Waits, Moved, Moved, Waits, Waits, Waits, Moved, Waits, Waits, Waits, Waits],
        ]
    };

    #[test]
    fn every_change_in_every_state_is_as_the_table_says() {
        for (row, state) in STATES.into_iter().enumerate() {
            for (column, change) in CHANGES.into_iter().enumerate() {
                assert_eq!(next(state, change), TABLE[row][column], "{state:?} {change:?}");
            }
        }
    }

    #[test]
    fn once_the_old_node_may_let_it_leave_only_that_node_decides() {
        for change in
            [Change::Arriving, Change::Arrived, Change::NotArrived, Change::NewCut, Change::OldCut, Change::NewLost]
        {
            assert!(matches!(next(State::Leaving, change), Next::Waits | Next::CallOff));
        }
    }

    #[test]
    fn what_the_old_node_has_ended_never_stays() {
        for state in [State::Going, State::Landed] {
            assert!(CHANGES.into_iter().all(|change| next(state, change) != Next::Stays));
        }
    }
}
