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
//! | Leaving | the new node lets it run, and its memory comes behind it | Fetching: until that is there, or cannot come |
//! | Fetching | all is there, or it has ended, or the new node is lost | Landed |
//! | Fetching | the old node has ended it, or is lost | Pending: whether all has come the new node says |
//! | Going | the new node says that it runs, and its memory comes behind it | Pending |
//! | Pending | all is there, or it has ended, or the new node is lost | over: it has moved |

/// How far a move is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Preparing,
    Carrying,
    Leaving,
    Going,
    Landed,
    Fetching,
    Pending,
}

impl State {
    /// Has the old node ended its own, or is about to whatever happens?
    pub(crate) fn is_bound(self) -> bool {
        matches!(self, State::Going | State::Landed | State::Fetching | State::Pending)
    }

    /// Has the new node said that it runs?
    pub(crate) fn has_run(self) -> bool {
        matches!(self, State::Landed | State::Fetching | State::Pending)
    }

    /// And has it yet to say that it has all of it?
    pub(crate) fn lacks(self) -> bool {
        matches!(self, State::Fetching | State::Pending)
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
    /// The same, and memory may come behind it.
    RunsAhead,
    /// Nothing is to come of it any more: all is there, or it has ended.
    Whole,
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
        (State::Leaving, Change::RunsAhead) => Next::To(State::Fetching),
        (State::Fetching, Change::Whole | Change::NewLost) => Next::To(State::Landed),
        (State::Going, Change::RunsAhead) => Next::To(State::Pending),
        (State::Fetching, Change::Left | Change::NotLeft | Change::OldLost) => Next::To(State::Pending),
        (State::Pending, Change::Whole | Change::NewLost) => Next::Moved,
        // Whether the old node was told before is known when it is back, or lost; and what ended there runs nowhere else than on the new one.
        (State::Leaving | State::Going | State::Landed | State::Fetching | State::Pending, _) => Next::Waits,
        (State::Carrying, Change::OldCut | Change::OldWaits) => Next::Waits,
        // Of an earlier move to that node.
        (State::Preparing | State::Carrying, Change::Whole) => Next::Waits,
        (State::Preparing | State::Carrying, Change::Arriving | Change::Ready | Change::Arrived) => Next::Waits,
        (State::Preparing | State::Carrying, _) => Next::Stays,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 7] = [
        State::Preparing,
        State::Carrying,
        State::Leaving,
        State::Going,
        State::Landed,
        State::Fetching,
        State::Pending,
    ];
    const CHANGES: [Change; 16] = [
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
        Change::RunsAhead,
        Change::Whole,
        Change::NewBack,
        Change::NewLost,
    ];

    /// Columns as in `CHANGES`.
    const TABLE: [[Next; 16]; 7] = {
        use Next::{Again, CallOff, Moved, Stays as Stay, To, Waits as Wait};
        const CARRY: Next = To(State::Carrying);
        const LEAVE: Next = To(State::Leaving);
        const GOING: Next = To(State::Going);
        const LAND: Next = To(State::Landed);
        const FETCH: Next = To(State::Fetching);
        const PEND: Next = To(State::Pending);
        [
            [CARRY, Wait, Wait, Stay, Stay, Stay, Stay, Stay, Stay, Stay, Stay, Stay, Stay, Wait, Stay, Stay],
            [Wait, LEAVE, Wait, Stay, Stay, Stay, Wait, Wait, Stay, Stay, Stay, Stay, Stay, Wait, Stay, Stay],
            [
                Wait, Wait, Wait, CallOff, GOING, Stay, Again, Wait, Wait, Stay, Wait, LAND, FETCH, Wait, CallOff,
                CallOff,
            ],
            [Wait, Wait, Wait, Wait, Wait, Wait, Wait, Wait, Wait, Wait, Again, Moved, PEND, Wait, Moved, Moved],
            [Wait, Wait, Wait, Wait, Moved, Moved, Wait, Wait, Wait, Moved, Wait, Wait, Wait, Wait, Wait, Wait],
            [Wait, Wait, Wait, Wait, PEND, PEND, Wait, Wait, Wait, PEND, Wait, Wait, Wait, LAND, Wait, LAND],
            [Wait, Wait, Wait, Wait, Wait, Wait, Wait, Wait, Wait, Wait, Wait, Wait, Wait, Moved, Wait, Moved],
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
        for state in STATES.into_iter().filter(|state| state.is_bound()) {
            assert!(CHANGES.into_iter().all(|change| next(state, change) != Next::Stays));
        }
    }
}
