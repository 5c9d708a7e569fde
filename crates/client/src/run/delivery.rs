//! What a program may be told only when it has had the signals that were for it before: that its input has ended, and that nobody reads its output.
//!
//! A shell's Ctrl-C means all of `a | b | c`. Where `a` has died of it, `b` would otherwise see the end of its input first, and end as if all were well.

use wire::stream::Stream;

/// How far the asking is. Answers come in the order of the questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Delivery {
    /// Things that have been learnt; of how many of them the daemon was asked; and how many may be told.
    learnt: u32,
    asked: u32,
    free: u32,
    /// The number of each thing, once it is learnt; 0 before.
    end: u32,
    unread: [u32; 2],
}

impl Delivery {
    /// The input has ended.
    pub(super) fn ends(&mut self) {
        if self.end == 0 {
            self.learnt += 1;
            self.end = self.learnt;
        }
    }

    /// Nobody reads what the program writes there (0: output, 1: errors).
    pub(super) fn unread(&mut self, i: usize) {
        if self.unread[i] == 0 {
            self.learnt += 1;
            self.unread[i] = self.learnt;
        }
    }

    /// Is the daemon to be asked now? Then it counts as asked.
    pub(super) fn ask(&mut self) -> bool {
        let due = self.asked == self.free && self.asked < self.learnt;
        if due {
            self.asked = self.learnt;
        }
        due
    }

    /// The daemon has answered. What nobody has been told yet of `Broken`s.
    #[must_use]
    pub(super) fn answered(&mut self) -> Vec<Stream> {
        let before = std::mem::replace(&mut self.free, self.asked);
        let due = |number: u32| number > before && number <= self.free;
        [Stream::Out, Stream::Err]
            .into_iter()
            .zip(self.unread)
            .filter(|(_, n)| due(*n))
            .map(|(stream, _)| stream)
            .collect()
    }

    /// Nobody is left who could answer.
    #[must_use]
    pub(super) fn unasked(&mut self) -> Vec<Stream> {
        self.asked = self.learnt;
        self.answered()
    }

    /// May the program be told that its input has ended?
    pub(super) fn may_end(&self) -> bool {
        self.end != 0 && self.end <= self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learnt_while_the_daemon_is_asked_is_asked_again() {
        let mut delivery = Delivery::default();
        assert!(!delivery.ask() && !delivery.may_end());
        delivery.unread(0);
        assert!(delivery.ask() && !delivery.ask());
        delivery.ends();
        delivery.unread(0);
        assert!(!delivery.ask(), "one question at a time");
        assert_eq!(delivery.answered(), [Stream::Out]);
        assert!(!delivery.may_end());
        assert!(delivery.ask());
        assert_eq!(delivery.answered(), []);
        assert!(delivery.may_end() && !delivery.ask());
    }

    #[test]
    fn without_a_daemon_all_is_told_once() {
        let mut delivery = Delivery::default();
        delivery.ends();
        assert!(delivery.ask());
        delivery.unread(1);
        assert_eq!(delivery.unasked(), [Stream::Err]);
        assert!(delivery.may_end());
        assert_eq!(delivery.unasked(), []);
    }
}
