//! The files of an image: opened when it came, or foreseen.

use crate::foresee::Foreseen;
use crate::opened::Opened;

/// The files of the image.
pub(crate) enum Prepared {
    /// They are in the vessel already, with more.
    Foreseen(Box<Foreseen>),
    Now {
        opened: Opened,
        /// It was not to be this.
        instead_of: Option<Box<Foreseen>>,
    },
}

impl Prepared {
    /// As [`Opened::let_go`].
    pub(crate) fn let_go(&mut self) {
        match self {
            Prepared::Foreseen(foreseen) => foreseen.let_go(),
            Prepared::Now { opened, instead_of } => {
                opened.let_go();
                instead_of.iter_mut().for_each(|foreseen| foreseen.let_go());
            }
        }
    }

    pub(crate) fn opened(&self) -> &Opened {
        match self {
            Prepared::Foreseen(foreseen) => foreseen.opened(),
            Prepared::Now { opened, .. } => opened,
        }
    }

    /// What the new process is called.
    pub(crate) fn name(&self) -> Option<&[u8]> {
        match self {
            Prepared::Foreseen(foreseen) | Prepared::Now { instead_of: Some(foreseen), .. } => Some(foreseen.name()),
            Prepared::Now { .. } => None,
        }
    }
}
