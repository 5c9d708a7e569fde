//! Signals: all 64 of them.

use crate::Pid;
use minicbor::{Decode, Encode};
use std::fmt;

/// A signal number, 1 to 64 (the kernel's range on x86-64, real-time signals included).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode)]
#[cbor(transparent)]
pub struct Sig(#[n(0)] u8);

impl<'b, C> Decode<'b, C> for Sig {
    /// A number that is no signal is refused here, since everything else relies on 1 to 64.
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> std::result::Result<Sig, minicbor::decode::Error> {
        let number = d.u8()?;
        Sig::new(number).ok_or_else(|| minicbor::decode::Error::message("a signal number outside 1 to 64"))
    }
}

const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];

impl Sig {
    pub const HUP: Sig = Sig(1);
    pub const INT: Sig = Sig(2);
    pub const QUIT: Sig = Sig(3);
    pub const TRAP: Sig = Sig(5);
    pub const ABRT: Sig = Sig(6);
    pub const KILL: Sig = Sig(9);
    pub const USR1: Sig = Sig(10);
    pub const SEGV: Sig = Sig(11);
    pub const USR2: Sig = Sig(12);
    pub const PIPE: Sig = Sig(13);
    pub const ALRM: Sig = Sig(14);
    pub const TERM: Sig = Sig(15);
    pub const CHLD: Sig = Sig(17);
    pub const CONT: Sig = Sig(18);
    pub const STOP: Sig = Sig(19);
    pub const TSTP: Sig = Sig(20);
    pub const TTIN: Sig = Sig(21);
    pub const TTOU: Sig = Sig(22);
    pub const XCPU: Sig = Sig(24);
    pub const XFSZ: Sig = Sig(25);
    pub const WINCH: Sig = Sig(28);

    /// `None` outside 1 to 64.
    pub fn new(number: u8) -> Option<Sig> {
        (1..=64).contains(&number).then_some(Sig(number))
    }

    pub fn number(self) -> u8 {
        self.0
    }

    /// The bit of this signal in a kernel signal set.
    pub const fn bit(self) -> u64 {
        1 << (self.0 - 1)
    }

    /// Is the default action to stop (signal(7))?
    pub fn stops(self) -> bool {
        matches!(self, Sig::STOP | Sig::TSTP | Sig::TTIN | Sig::TTOU)
    }
}

impl fmt::Display for Sig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(usize::from(self.0) - 1) {
            Some(name) => write!(f, "SIG{name}"),
            None if self.0 < 34 => write!(f, "SIG{}", self.0),
            None => write!(f, "SIGRTMIN+{}", self.0 - 34),
        }
    }
}

impl fmt::Debug for Sig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A kernel signal set, as `SigPnd` in `/proc/PID/status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SigSet(pub u64);

impl SigSet {
    pub fn has(self, sig: Sig) -> bool {
        self.0 & sig.bit() != 0
    }
}

/// What travels of a siginfo (sigaction(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct SigInfo {
    #[n(0)]
    pub sig: Sig,
    /// `si_code`: SI_USER 0, SI_QUEUE -1, SI_TKILL -6, SI_KERNEL 128, or one of the signal's own.
    #[n(1)]
    pub code: i32,
    /// The sender, [`Pid::NONE`] where it is the kernel or outside the space.
    #[n(2)]
    pub pid: Pid,
    #[n(3)]
    pub uid: u32,
    /// `si_value` of sigqueue, as its 64 bits.
    #[n(4)]
    pub value: u64,
    /// How many signals the ghost that hands this one over has taken before it and with it: a daemon that follows another one may be handed the last one
    /// again, and a node gives none twice.
    #[n(5)]
    pub count: Option<u32>,
}

impl SigInfo {
    pub const SI_USER: i32 = 0;
    pub const SI_QUEUE: i32 = -1;
    pub const SI_TKILL: i32 = -6;
    pub const SI_KERNEL: i32 = 0x80;

    /// A plain kill(2) by `pid` of user `uid`.
    pub fn kill(sig: Sig, pid: Pid, uid: u32) -> SigInfo {
        SigInfo { sig, code: SigInfo::SI_USER, pid, uid, value: 0, count: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_ones_of_signal_7() {
        assert_eq!(Sig::KILL.to_string(), "SIGKILL");
        assert_eq!(Sig::WINCH.to_string(), "SIGWINCH");
        assert_eq!(Sig(31).to_string(), "SIGSYS");
        assert_eq!(Sig(34).to_string(), "SIGRTMIN+0");
        assert_eq!(Sig(64).to_string(), "SIGRTMIN+30");
    }

    #[test]
    fn every_number_of_the_kernel_fits_and_no_other() {
        assert!((1..=64).all(|n| Sig::new(n).is_some_and(|s| s.number() == n)));
        assert!(Sig::new(0).is_none() && Sig::new(65).is_none());
        assert_eq!(minicbor::decode::<Sig>(&[9]).expect("a signal"), Sig::KILL);
        assert!(minicbor::decode::<Sig>(&[0]).is_err() && minicbor::decode::<Sig>(&[0x18, 65]).is_err());
    }
}
