//! The life of one stand-in, as a table.
//!
//! | state | what it is doing |
//! |---|---|
//! | Coming | expected; not yet held |
//! | Away | runs: does a command, or is on its way back to the hold, or is stopped |
//! | Held | waits in the kernel for our answer |
//! | Caught | held, with SIGKILL or SIGSTOP waiting for it: the kernel keeps it until we answer EINTR |
//! | Dying | in its exit gate (FLUSH): the kernel keeps it until we answer |
//! | Gone | let go; the kernel ends it by itself |

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Coming,
    Away,
    Held,
    Caught,
    Dying,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    /// A hold request arrived.
    Holds,
    /// We answered the hold, with a command, an acknowledgement or EINTR.
    Answered,
    /// The hold was interrupted, and SIGKILL or SIGSTOP waits.
    Caught,
    /// The exit gate.
    Flushes,
    /// We answered the exit gate.
    Released,
}

/// `None`: this input cannot come in this state; whoever sees it logs it and changes nothing.
pub(crate) fn next(state: State, input: Input) -> Option<State> {
    use Input as I;
    use State as S;
    Some(match (state, input) {
        (S::Coming | S::Away, I::Holds) => S::Held,
        // A resent hold (FUSE_NOTIFY_RESEND) replaces the one we know.
        (S::Held | S::Caught, I::Holds) => S::Held,
        (S::Held | S::Caught, I::Answered) => S::Away,
        (S::Held, I::Caught) => S::Caught,
        (S::Coming | S::Away | S::Held | S::Caught, I::Flushes) => S::Dying,
        // A resent FLUSH.
        (S::Dying, I::Flushes) => S::Dying,
        (S::Dying, I::Released) => S::Gone,
        (S::Coming | S::Away, I::Answered | I::Caught | I::Released)
        | (S::Held | S::Caught, I::Released)
        | (S::Caught, I::Caught)
        | (S::Dying, I::Holds | I::Answered | I::Caught)
        | (S::Gone, _) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 6] = [State::Coming, State::Away, State::Held, State::Caught, State::Dying, State::Gone];
    const INPUTS: [Input; 5] = [Input::Holds, Input::Answered, Input::Caught, Input::Flushes, Input::Released];

    #[test]
    fn only_an_answered_exit_gate_ends_a_stand_in_and_nothing_revives_it() {
        for state in STATES {
            for input in INPUTS {
                let ends = next(state, input) == Some(State::Gone);
                assert_eq!(ends, state == State::Dying && input == Input::Released, "{state:?} {input:?}");
            }
        }
        assert!(INPUTS.iter().all(|i| next(State::Gone, *i).is_none()));
    }

    #[test]
    fn a_hold_is_answered_at_most_once() {
        for state in STATES {
            let once = next(state, Input::Answered);
            assert!(once.is_none_or(|s| next(s, Input::Answered).is_none()), "{state:?}");
        }
    }

    #[test]
    fn whatever_lives_can_die() {
        for state in STATES {
            assert_eq!(next(state, Input::Flushes).is_some(), state != State::Gone, "{state:?}");
        }
    }
}
