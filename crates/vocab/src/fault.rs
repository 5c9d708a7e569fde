//! The one way to fail: what was being done, on what, where, and the errno. It crosses the wire.

use crate::NodeId;
use minicbor::{Decode, Encode};
use std::fmt;

pub type Result<T> = std::result::Result<T, Fault>;

/// What sort of failure it is: decides what a caller can do about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Kind {
    /// The process, node or peer that was meant is not there (any more).
    #[n(0)]
    Gone,
    /// It may not be done: permission, a wrong key, a bad request.
    #[n(1)]
    Refused,
    /// This kernel or this build cannot do it.
    #[n(2)]
    Unsupported,
    /// A system call failed; `errno` says how.
    #[n(3)]
    Sys,
    /// Bytes from a peer that are not of the protocol.
    #[n(4)]
    Wire,
    /// An invariant of our own does not hold.
    #[n(5)]
    Bug,
    /// What it was about has changed meanwhile: the same may be asked again.
    #[n(6)]
    Changed,
}

/// A failure as a chain: the outermost `doing` first, each `cause` nearer to the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Fault {
    #[n(0)]
    pub kind: Kind,
    /// What was being done and on what: `attach 4711`.
    #[n(1)]
    pub doing: String,
    /// The machine on which it failed, where that is not the one that prints it.
    #[n(2)]
    pub on: Option<NodeId>,
    /// The kernel's errno, 0 where there is none.
    #[n(3)]
    pub errno: i32,
    #[n(4)]
    #[cbor(decode_with = "read_causes")]
    pub cause: Option<Box<Fault>>,
}

/// The most causes in a row that are read from a peer: each takes a piece of the stack.
const MOST_CAUSES: usize = 64;

/// Reads the causes, unless there are so many that the stack would not hold them.
fn read_causes<C>(
    d: &mut minicbor::Decoder<'_>,
    context: &mut C,
) -> std::result::Result<Option<Box<Fault>>, minicbor::decode::Error> {
    let mut ahead = d.probe();
    let mut count = 0;
    while ahead.datatype()? == minicbor::data::Type::Array {
        let fields = ahead.array()?.unwrap_or(0);
        count += 1;
        if count > MOST_CAUSES || fields == 0 {
            return Err(minicbor::decode::Error::message("a fault with too many causes, or a cause without fields"));
        }
        for _ in 0..fields.min(4) {
            ahead.skip()?;
        }
        if fields < 5 {
            break;
        }
    }
    d.decode_with(context)
}

impl Fault {
    pub fn new(kind: Kind, doing: impl Into<String>) -> Fault {
        Fault { kind, doing: doing.into(), on: None, errno: 0, cause: None }
    }

    pub fn gone(doing: impl Into<String>) -> Fault {
        Fault::new(Kind::Gone, doing)
    }

    pub fn changed(doing: impl Into<String>) -> Fault {
        Fault::new(Kind::Changed, doing)
    }

    pub fn refused(doing: impl Into<String>) -> Fault {
        Fault::new(Kind::Refused, doing)
    }

    pub fn wire(doing: impl Into<String>) -> Fault {
        Fault::new(Kind::Wire, doing)
    }

    pub fn bug(doing: impl Into<String>) -> Fault {
        Fault::new(Kind::Bug, doing)
    }

    /// A system call failed with `errno`.
    pub fn sys(errno: i32, doing: impl Into<String>) -> Fault {
        Fault { errno, ..Fault::new(Kind::Sys, doing) }
    }

    /// An I/O error of the standard library, or one that carries a failure: that is its cause.
    pub fn io(error: &std::io::Error, doing: impl Into<String>) -> Fault {
        if let Some(fault) = error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>()) {
            return fault.clone().doing(doing);
        }
        match error.raw_os_error() {
            Some(errno) => Fault::sys(errno, doing),
            None => {
                let mut fault = Fault::new(Kind::Sys, doing);
                fault.cause = Some(Box::new(Fault::new(Kind::Sys, error.to_string())));
                fault
            }
        }
    }

    /// The same failure, one level further out.
    pub fn doing(self, doing: impl Into<String>) -> Fault {
        Fault { kind: self.kind, doing: doing.into(), on: None, errno: 0, cause: Some(Box::new(self)) }
    }

    /// Says where it failed, unless that is said already.
    pub fn on(mut self, node: NodeId) -> Fault {
        self.on.get_or_insert(node);
        self
    }

    /// The errno nearest to the kernel, 0 where the chain has none.
    pub fn root_errno(&self) -> i32 {
        match &self.cause {
            Some(cause) if cause.root_errno() != 0 => cause.root_errno(),
            _ => self.errno,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = self.on {
            write!(f, "{node}: ")?;
        }
        f.write_str(&self.doing)?;
        if self.errno != 0 {
            write!(f, ": {}", std::io::Error::from_raw_os_error(self.errno))?;
        }
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_prints_as_one_line_from_the_outside_in() {
        let fault = Fault::sys(2, "exec /bin/nope").on(NodeId(3)).doing("run nope");
        assert_eq!(fault.to_string(), "run nope: n3: exec /bin/nope: No such file or directory (os error 2)");
        assert_eq!(fault.root_errno(), 2);
    }

    #[test]
    fn an_io_error_that_carries_a_failure_has_it_for_its_cause() {
        let full = std::io::Error::other(Fault::sys(28, "write image"));
        let fault = Fault::io(&full, "checkpoint");
        assert_eq!(fault.to_string(), "checkpoint: write image: No space left on device (os error 28)");
        assert_eq!(fault.root_errno(), 28);
    }

    #[test]
    fn a_chain_without_end_is_refused_before_it_fills_the_stack() {
        let chain = |length: usize| (0..length).fold(Fault::gone("x"), |fault, _| fault.doing("y"));
        let bytes = minicbor::to_vec(chain(MOST_CAUSES)).expect("encoding into memory cannot fail");
        assert_eq!(minicbor::decode::<Fault>(&bytes).expect("just short enough"), chain(MOST_CAUSES));
        let link = [0x85, 0x00, 0x60, 0xf6, 0x00];
        let endless = link.repeat(1_000_000);
        assert!(minicbor::decode::<Fault>(&endless).is_err());
        let without_length = [0x9f, 0x00, 0x60, 0xf6, 0x00].repeat(1_000_000);
        assert!(minicbor::decode::<Fault>(&without_length).is_err());
    }

    #[test]
    fn a_fault_crosses_the_wire_whole() {
        let fault = Fault::sys(13, "open x").on(NodeId(0)).doing("start").doing("run");
        let bytes = minicbor::to_vec(&fault).expect("encoding into memory cannot fail");
        assert_eq!(minicbor::decode::<Fault>(&bytes).expect("own encoding"), fault);
    }
}
