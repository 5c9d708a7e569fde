//! The files that a program sees: the node's or the front end's, and mounts of its own.

use minicbor::{Decode, Encode};

/// The machine whose files a program sees on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum View {
    /// The node's own.
    #[n(0)]
    Node,
    /// The front end's, but for the directories that a node keeps to itself.
    #[n(1)]
    Front,
    /// The usual files of the node; if the program is not there, the front end's.
    #[n(2)]
    Either,
}

impl View {
    /// As `shoal run --view` has it.
    pub fn name(self) -> &'static str {
        match self {
            View::Node => "node",
            View::Front => "front",
            View::Either => "either",
        }
    }
}

/// A change of what a program, and whatever it starts on its node, sees in one place. Paths are absolute, or relative to the program's directory.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Place {
    /// The files at `from`, with all that is mounted below, are seen at `to` too.
    #[n(0)]
    Bind {
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        from: Vec<u8>,
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        to: Vec<u8>,
    },
    /// Nothing at this path or below can be changed.
    #[n(1)]
    ReadOnly(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    /// An empty directory of the program's user, which goes with the last process that sees it.
    #[n(2)]
    Empty(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
}

/// The most changes of one program.
pub const MOST_PLACES: usize = 64;

impl Place {
    /// As one would say it to `shoal run`.
    pub fn words(&self) -> String {
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        match self {
            Place::Bind { from, to } => format!("--bind {}:{}", text(from), text(to)),
            Place::ReadOnly(path) => format!("--read-only {}", text(path)),
            Place::Empty(path) => format!("--tmp {}", text(path)),
        }
    }
}
