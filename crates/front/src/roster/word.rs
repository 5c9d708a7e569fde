//! The life of a node's state word. What the link says (`down`, `unavailable`) goes before the word: [`crate::places`].

use wire::nodes::{BOOT, ERROR, UP};

/// The state word of a node, by root and the start-up script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// The start-up script runs, or is to.
    Boot,
    Up,
    /// The start-up script has failed.
    Error,
    /// A word of the site's own. Only root ends it.
    Site(String),
}

/// An event in the life of the word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The node joins, and the daemon has a start-up script.
    Joined,
    /// The node joins, and there is no script.
    JoinedAtOnce,
    /// The node's link is there again, with what runs on it, and the daemon has a start-up script.
    Back,
    /// Likewise, and there is no script.
    BackAtOnce,
    /// The script has ended well.
    Prepared,
    /// The script has failed, or could not be started.
    Failed,
    /// Root has said it.
    Set(Word),
}

impl Word {
    pub(crate) fn of(text: &str) -> Word {
        match text {
            BOOT => Word::Boot,
            UP => Word::Up,
            ERROR => Word::Error,
            site => Word::Site(site.into()),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Word::Boot => BOOT,
            Word::Up => UP,
            Word::Error => ERROR,
            Word::Site(site) => site,
        }
    }
}

/// The table of the word; every pair has an answer.
pub(crate) fn next(word: Word, change: Change) -> Word {
    match (word, change) {
        (_, Change::Set(word)) => word,
        // A drained node stays drained when its machine was started again.
        (Word::Site(site), _) => Word::Site(site),
        (_, Change::Joined) => Word::Boot,
        (_, Change::JoinedAtOnce) => Word::Up,
        (Word::Boot, Change::BackAtOnce | Change::Prepared) => Word::Up,
        (Word::Boot, Change::Failed) => Word::Error,
        // A script that ends after root has said something else decides nothing any more.
        (word, Change::Back | Change::BackAtOnce | Change::Prepared | Change::Failed) => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> [Word; 4] {
        [Word::Boot, Word::Up, Word::Error, Word::Site("drained".into())]
    }

    #[test]
    fn every_pair_is_as_it_should_be() {
        use Change as C;
        let site = || Word::Site("drained".into());
        let table = [
            (C::Joined, [Word::Boot, Word::Boot, Word::Boot, site()]),
            (C::JoinedAtOnce, [Word::Up, Word::Up, Word::Up, site()]),
            (C::Back, [Word::Boot, Word::Up, Word::Error, site()]),
            (C::BackAtOnce, [Word::Up, Word::Up, Word::Error, site()]),
            (C::Prepared, [Word::Up, Word::Up, Word::Error, site()]),
            (C::Failed, [Word::Error, Word::Up, Word::Error, site()]),
        ];
        for (change, after) in table {
            for (before, after) in words().into_iter().zip(after) {
                assert_eq!(next(before.clone(), change.clone()), after, "{before:?} {change:?}");
            }
        }
        for before in words() {
            for word in words() {
                assert_eq!(next(before.clone(), C::Set(word.clone())), word, "{before:?}");
            }
        }
    }

    #[test]
    fn a_word_is_its_text() {
        for word in words() {
            assert_eq!(Word::of(word.text()), word);
        }
    }
}
