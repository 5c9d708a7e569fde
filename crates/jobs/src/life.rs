//! The life of a job, as a table.

use minicbor::{Decode, Encode};

/// Where a job is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum State {
    /// In the queue.
    #[n(0)]
    #[default]
    Waiting,
    /// The job's nodes are chosen, and become its user's.
    #[n(1)]
    Starting,
    /// The command runs, or is about to.
    #[n(2)]
    Running,
    /// The job's processes end, and its nodes go back.
    #[n(3)]
    Ending,
    #[n(4)]
    Over,
}

/// An event in the life of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The policy has given it nodes.
    Chosen,
    /// The job's nodes are its user's, and its keeper is started.
    Begun,
    /// The job is to end: somebody has said so, its time is over, a node is lost, or it cannot start.
    Stop,
    /// All of its processes have ended, and its keeper with them.
    Finished,
    /// The job's nodes are what they were before.
    Returned,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Starting => "starting",
            State::Running => "running",
            State::Ending => "ending",
            State::Over => "over",
        }
    }

    /// Does a job in this state have its nodes for itself?
    pub(crate) fn has_nodes(self) -> bool {
        matches!(self, State::Starting | State::Running | State::Ending)
    }
}

/// The table; every pair has an answer.
pub(crate) fn next(state: State, event: Event) -> State {
    match (state, event) {
        (State::Waiting, Event::Chosen) => State::Starting,
        (State::Waiting, Event::Stop) => State::Over,
        (State::Starting, Event::Begun) => State::Running,
        (State::Starting | State::Running, Event::Stop | Event::Finished) => State::Ending,
        (State::Ending, Event::Returned) => State::Over,
        (state, _) => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Ending, Over, Running, Starting, Waiting};

    const STATES: [State; 5] = [Waiting, Starting, Running, Ending, Over];

    #[test]
    fn every_pair_is_as_it_should_be() {
        let table = [
            (Event::Chosen, [Starting, Starting, Running, Ending, Over]),
            (Event::Begun, [Waiting, Running, Running, Ending, Over]),
            (Event::Stop, [Over, Ending, Ending, Ending, Over]),
            (Event::Finished, [Waiting, Ending, Ending, Ending, Over]),
            (Event::Returned, [Waiting, Starting, Running, Over, Over]),
        ];
        for (event, after) in table {
            for (before, after) in STATES.into_iter().zip(after) {
                assert_eq!(next(before, event), after, "{before:?} {event:?}");
            }
        }
    }

    #[test]
    fn a_job_that_is_over_has_no_nodes_and_nothing_wakes_it() {
        let with_nodes: Vec<State> = STATES.into_iter().filter(|state| state.has_nodes()).collect();
        assert_eq!(with_nodes, [Starting, Running, Ending]);
        for event in [Event::Chosen, Event::Begun, Event::Stop, Event::Finished, Event::Returned] {
            assert_eq!(next(Over, event), Over);
        }
    }
}
