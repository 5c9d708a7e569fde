//! What goes over a channel: the standard streams of one program, between its node and the relay of `shoal run`.

use crate::run::Window;
use minicbor::{Decode, Encode};

/// One of a program's standard streams.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum Stream {
    #[n(0)]
    In,
    #[n(1)]
    Out,
    #[n(2)]
    Err,
}

/// Bytes that may be under way on one stream before the reader has written them out; the credit each side starts with.
pub const CREDIT: u32 = 256 * 1024;

/// The most bytes in one [`Chunk::Data`].
pub const PIECE: usize = 48 * 1024;

/// The most bytes of input that come back from a node ([`Chunk::Back`]): what is under way, and what the largest pipe
/// holds that anybody but root can make (fs.pipe-max-size, pipe(7)).
pub const RETURNED: usize = CREDIT as usize + 1024 * 1024;

/// One message of a channel, in either direction.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Chunk {
    /// Standard input in this direction only, but where it goes back ([`Chunk::Back`]): what was sent and has not been read, in order.
    #[n(0)]
    Data {
        #[n(0)]
        stream: Stream,
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        bytes: Vec<u8>,
    },
    /// The writer is done: the reader's end is closed after what was sent.
    #[n(1)]
    End {
        #[n(0)]
        stream: Stream,
    },
    /// `bytes` have been written out on the other side: as many more may be sent.
    #[n(2)]
    Credit {
        #[n(0)]
        stream: Stream,
        #[n(1)]
        bytes: u32,
    },
    /// Nobody reads this stream any more: the writer gets EPIPE.
    #[n(3)]
    Broken {
        #[n(0)]
        stream: Stream,
    },
    /// The terminal's window changed.
    #[n(4)]
    Window(#[n(0)] Window),
    /// From the node: the program has ended, and all that it had written by then came before this.
    #[n(5)]
    Ended,
    /// From the node: a process wants input. The answer to [`Chunk::Quiet`], which is over with it.
    #[n(6)]
    Wanted,
    /// From the relay: it does not read its own input ahead; say, once, when a process blocks in reading its standard input.
    #[n(7)]
    Quiet {
        #[n(0)]
        on: bool,
        /// Waiting for it by poll(2), select(2) or epoll(7) counts too.
        #[n(1)]
        polls: bool,
    },
    /// From the node: a process that had these streams there is on another node now. All that it had written here came before this, and what it writes
    /// from now on comes over that branch ([`crate::ask::Further::branch`]). Nothing is told of an end of these streams before this.
    #[n(8)]
    Left {
        #[n(0)]
        branch: u64,
    },
    /// From the node, unasked when nobody there reads standard input any more, else to [`Chunk::Recall`]: so many bytes of it had come by then, and what was not
    /// read of them went back before this. Those that come later go back too, until [`Chunk::Again`].
    #[n(9)]
    Back {
        #[n(0)]
        input: u64,
    },
    /// From the relay: somebody elsewhere is to have what has not been read of standard input.
    #[n(10)]
    Recall,
    /// From the relay, after [`Chunk::Back`]: standard input that follows is for who reads it there, with new credit.
    #[n(11)]
    Again,
}
