//! How a process ended.

use crate::Sig;
use minicbor::{Decode, Encode};
use std::fmt;

/// The end of a process, as its parent learns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Exit {
    /// It called exit with this code.
    #[n(0)]
    Code(#[n(0)] u8),
    /// A signal killed it; `core` says whether a core was dumped.
    #[n(1)]
    Killed {
        #[n(0)]
        sig: Sig,
        #[n(1)]
        core: bool,
    },
    /// The node that ran it was lost; the kernel's word for it is SIGKILL.
    #[n(2)]
    NodeLost,
}

impl Exit {
    /// From a wait status (wait(2)); `None` for the status of a stop or a continue.
    pub fn from_status(status: i32) -> Option<Exit> {
        let low = (status & 0x7f) as u8;
        match low {
            0 => Some(Exit::Code((status >> 8) as u8)),
            0x7f => None,
            n => Sig::new(n).map(|sig| Exit::Killed { sig, core: status & 0x80 != 0 }),
        }
    }

    /// The wait status (wait(2)) that this end is.
    pub fn to_status(self) -> i32 {
        match self {
            Exit::Code(c) => i32::from(c) << 8,
            Exit::Killed { sig, core } => i32::from(sig.number()) | if core { 0x80 } else { 0 },
            Exit::NodeLost => i32::from(Sig::KILL.number()),
        }
    }

    /// The number that a shell has in `$?`.
    pub fn shell_number(self) -> i32 {
        match self {
            Exit::Code(c) => i32::from(c),
            Exit::Killed { sig, .. } => 128 + i32::from(sig.number()),
            Exit::NodeLost => 128 + i32::from(Sig::KILL.number()),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(c) => write!(f, "exit {c}"),
            Exit::Killed { sig, core } => {
                write!(f, "killed by {sig}{}", if *core { " (core dumped)" } else { "" })
            }
            Exit::NodeLost => f.write_str("node lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_status_of_an_end_survives_the_round_trip() {
        for status in 0..=0xffff {
            if let Some(exit) = Exit::from_status(status) {
                let low = status & 0x7f;
                let want = if low == 0 { status & 0xff00 } else { status & 0xff };
                assert_eq!(exit.to_status(), want, "{status:#x}");
            }
        }
    }

    #[test]
    fn stops_and_continues_are_not_ends() {
        assert_eq!(Exit::from_status(0x137f), None);
        assert_eq!(Exit::from_status(0xffff), None);
    }

    #[test]
    fn high_exit_codes_keep_their_top_bit() {
        assert_eq!(Exit::from_status(200 << 8), Some(Exit::Code(200)));
    }
}
