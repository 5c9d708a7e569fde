//! How a thread comes out of the kernel's code of user space (vdso(7)), where it may be at any time that it looks at a clock.
//!
//! That code has tables of where in its stack each function has the address to which it returns (DWARF's call frame information, .eh_frame). There the address of a
//! trap is put instead, and the thread runs until it is there. Instruction by instruction it would be 20 us for each, and for ever on a slow machine: these
//! functions begin again when a tick of the clock has come since.

use crate::freeze::Frozen;
use crate::vdso;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, LittleEndian, Register, RegisterRule, UnwindContext, UnwindSection, X86_64,
};
use kern::areas::Area;
use kern::ptrace::Regs;
use kern::remote_memory::RemoteMemory;
use object::{Object, ObjectSection};
use puppet::Loan;
use std::ops::Range;
use std::sync::OnceLock;
use vocab::Result;

/// One may have been called by another one.
const DEPTH: usize = 8;

/// The threads that are there come out: on another kernel the code is another one, or has other clocks. `true`: there was one, which may have looked at a clock on its way.
///
/// # Errors
/// Those of [`Loan::step_back`] and [`Loan::step_out`].
pub(crate) fn leave_vdso(frozen: &Frozen, memory: &RemoteMemory, areas: &[Area]) -> Result<bool> {
    let Some(vdso) = areas.iter().find(|area| area.path == b"[vdso]") else { return Ok(false) };
    let code = vdso.start..vdso.end;
    let mut ran = false;
    for thread in &frozen.threads {
        if code.contains(&thread.regs()?.rip) {
            let mut loan = Loan::take(thread, memory, areas)?;
            leave(&mut loan, &code)?;
            loan.give_back()?;
            ran = true;
        }
    }
    Ok(ran)
}

fn leave(loan: &mut Loan<'_>, code: &Range<u64>) -> Result<()> {
    for _ in 0..DEPTH {
        if !code.contains(&loan.regs().rip) {
            return Ok(());
        }
        let Some((slot, trap)) = ways().and_then(|ways| Some((ways.slot(code.start, loan.regs())?, ways.trap))) else {
            break;
        };
        loan.step_back(slot, code.start + trap)?;
    }
    loan.step_out(code)
}

/// Finds out how, while the process still runs: that takes longer than to leave.
pub(crate) fn rehearse() {
    let _none_to_leave = ways();
}

/// What is known of this kernel's code.
struct Ways {
    /// An `int3`, be it a part of another instruction; from the beginning, as all addresses in there.
    trap: u64,
    frames: EhFrame<gimli::EndianSlice<'static, LittleEndian>>,
    bases: BaseAddresses,
}

const INT3: u8 = 0xcc;

/// `None`: it has no tables, or no trap.
fn ways() -> Option<&'static Ways> {
    static WAYS: OnceLock<Option<Ways>> = OnceLock::new();
    let find = || {
        let code = vdso::here().ok()?;
        let trap = code.iter().position(|byte| *byte == INT3)? as u64;
        let file = object::File::parse(code).ok()?;
        let section = file.section_by_name(".eh_frame")?;
        let mut frames = EhFrame::new(section.data().ok()?, LittleEndian);
        frames.set_address_size(8);
        Some(Ways { trap, frames, bases: BaseAddresses::default().set_eh_frame(section.address()) })
    };
    WAYS.get_or_init(find).as_ref()
}

impl Ways {
    /// Where a thread with these registers, in the code at `start`, has the address to which its function returns.
    fn slot(&self, start: u64, regs: &Regs) -> Option<u64> {
        let mut room = UnwindContext::new();
        let row = self
            .frames
            .unwind_info_for_address(&self.bases, &mut room, regs.rip - start, EhFrame::cie_from_offset)
            .ok()?;
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
        let frame = value(regs, *register)?.wrapping_add_signed(*offset);
        match row.register(X86_64::RA) {
            Some(RegisterRule::Offset(offset)) => Some(frame.wrapping_add_signed(offset)),
            _ => None,
        }
    }
}

/// Of those on which a frame may be based.
fn value(regs: &Regs, register: Register) -> Option<u64> {
    match register {
        X86_64::RSP => Some(regs.rsp),
        X86_64::RBP => Some(regs.rbp),
        X86_64::R10 => Some(regs.r10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kern::ptrace::{self, Halt};
    use puppet::{Running, Stopped};
    use std::collections::BTreeSet;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};
    use vocab::Pid;

    const LOOKS: &str = "
import time
print('there', flush=True)
last = 0
while True:
    now = time.monotonic_ns()
    assert now >= last
    last = now
";

    struct Ends(Child);

    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.kill().expect("a child");
            self.0.wait().expect("a child");
        }
    }

    fn step(thread: &Stopped) -> u64 {
        ptrace::step(thread.tid()).expect("stopped");
        let Halt::Signal(_) = ptrace::wait(thread.tid()).expect("it steps") else { panic!("it does not step") };
        thread.regs().expect("stopped").rip
    }

    #[test]
    fn who_is_met_there_comes_out_by_its_return_wherever_it_is() {
        let python = Command::new("python3").args(["-c", LOOKS]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = Ends(python.expect("python3"));
        let mut out = BufReader::new(child.0.stdout.take().expect("a pipe"));
        out.read_line(&mut String::new()).expect("it is there");
        let pid = Pid(child.0.id() as i32);
        let memory = RemoteMemory::open(pid).expect("a child");
        let areas = kern::areas::areas(pid, false).expect("a child");
        let vdso = areas.iter().find(|area| area.path == b"[vdso]").expect("it has one");
        let code = vdso.start..vdso.end;
        let ways = ways().expect("tables and a trap");
        let mut places = BTreeSet::new();
        // Each time it is one instruction further, until it is out by itself.
        for further in 0.. {
            let running = Running::seize(pid, false, false).expect("a child");
            running.interrupt().expect("seized");
            let thread = running.stopped().expect("a child");
            while code.contains(&step(&thread)) {}
            while !code.contains(&step(&thread)) {}
            let at = (0..further).try_fold(thread.regs().expect("stopped").rip, |_, _| {
                Some(step(&thread)).filter(|at| code.contains(at))
            });
            let Some(at) = at else { break };
            let mut loan = Loan::take(&thread, &memory, &areas).expect("64-bit");
            let slot = ways.slot(code.start, loan.regs()).expect("a function of the vdso");
            loan.step_back(slot, code.start + ways.trap).expect("it returns");
            assert!(!code.contains(&loan.regs().rip), "from {at:#x}");
            assert_eq!(loan.regs().rsp, slot + 8);
            loan.give_back().expect("stopped");
            thread.release(None).expect("stopped");
            places.insert(at - code.start);
        }
        assert!(places.len() > 10, "{places:?}");
        assert!(child.0.try_wait().expect("a child").is_none(), "it goes on");
    }
}
