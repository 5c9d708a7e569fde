//! The filter's instructions (classic BPF), and how a notice is read back into a call.

use super::{Call, Passes, Reads};

pub(crate) const ARCH_X86_64: u32 = 0xc000_003e;
pub(crate) const ARCH_I386: u32 = 0x4000_0003;
const X32_BIT: u32 = 0x4000_0000;

/// A filter, ready to be installed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    code: Vec<Instruction>,
}

/// struct sock_filter.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Instruction {
    code: u16,
    yes: u8,
    no: u8,
    k: u32,
}

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;
const FAIL: u32 = 0x0005_0000;

/// Offsets in struct seccomp_data; its 64-bit fields are low word first here.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const CODE_LOW: u32 = 8;
const CODE_HIGH: u32 = 12;
const ARG0: u32 = 16;

const ARG3: u32 = 40;
const ARG4: u32 = 48;

const PR_SET_CHILD_SUBREAPER: u32 = 36;
const RUSAGE_CHILDREN: u32 = libc::RUSAGE_CHILDREN as u32;

/// The system call numbers of one way to call.
struct Table {
    kill: u32,
    tkill: u32,
    tgkill: u32,
    queue: u32,
    thread_queue: u32,
    pidfd_open: u32,
    setpgid: u32,
    setsid: u32,
    prctl: u32,
    wait4: u32,
    waitid: u32,
    getrusage: u32,
    times: u32,
    set_ids: &'static [u32],
}

const X86_64: Table = Table {
    kill: libc::SYS_kill as u32,
    tkill: libc::SYS_tkill as u32,
    tgkill: libc::SYS_tgkill as u32,
    queue: libc::SYS_rt_sigqueueinfo as u32,
    thread_queue: libc::SYS_rt_tgsigqueueinfo as u32,
    pidfd_open: libc::SYS_pidfd_open as u32,
    setpgid: libc::SYS_setpgid as u32,
    setsid: libc::SYS_setsid as u32,
    prctl: libc::SYS_prctl as u32,
    wait4: libc::SYS_wait4 as u32,
    waitid: libc::SYS_waitid as u32,
    getrusage: libc::SYS_getrusage as u32,
    times: libc::SYS_times as u32,
    set_ids: &[
        libc::SYS_setuid as u32,
        libc::SYS_setgid as u32,
        libc::SYS_setreuid as u32,
        libc::SYS_setregid as u32,
        libc::SYS_setgroups as u32,
        libc::SYS_setresuid as u32,
        libc::SYS_setresgid as u32,
        libc::SYS_setfsuid as u32,
        libc::SYS_setfsgid as u32,
    ],
};

/// arch/x86/entry/syscalls/syscall_32.tbl: the 16-bit and the 32-bit id calls.
const I386: Table = Table {
    kill: 37,
    tkill: 238,
    tgkill: 270,
    queue: 178,
    thread_queue: 335,
    pidfd_open: 434,
    setpgid: 57,
    setsid: 66,
    prctl: 172,
    wait4: 114,
    waitid: 284,
    getrusage: 77,
    times: 43,
    set_ids: &[23, 46, 70, 71, 81, 138, 139, 164, 170, 203, 204, 206, 208, 210, 213, 214, 215, 216],
};

impl Table {
    /// Calls whose first argument is the PID that decides.
    fn by_pid(&self) -> [u32; 6] {
        [self.kill, self.tgkill, self.tkill, self.queue, self.thread_queue, self.pidfd_open]
    }
}

/// Where a jump goes: labels are resolved when the program is complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    I386,
    Pid,
    Prctl,
    Wait4,
    Waitid,
    Usage,
    Ask,
    Allow,
    Fail,
    Foreign(usize),
    /// The upper half of a search that begins there.
    Half(usize),
}

/// Code, operand, and where a jump goes.
type Draft = (u16, u32, Option<(To, To)>);

#[derive(Default)]
struct Assembler {
    code: Vec<Draft>,
    labels: Vec<(To, usize)>,
}

impl Assembler {
    fn load(&mut self, offset: u32) {
        self.code.push((LOAD, offset, None));
    }

    fn jump(&mut self, how: u16, k: u32, yes: To, no: To) {
        self.code.push((how, k, Some((yes, no))));
    }

    fn give(&mut self, value: u32) {
        self.code.push((RETURN, value, None));
    }

    fn label(&mut self, to: To) {
        self.labels.push((to, self.code.len()));
    }

    fn finish(self) -> Program {
        let distance = |from: usize, to: To| match self.labels.iter().find(|(label, _)| *label == to) {
            Some((_, at)) => u8::try_from(at - from - 1).expect("the program is shorter than a jump reaches"),
            None => 0,
        };
        let resolve = |(at, (code, k, jump)): (usize, &Draft)| {
            let (yes, no) = jump.map_or((0, 0), |(yes, no)| (distance(at, yes), distance(at, no)));
            Instruction { code: *code, yes, no, k: *k }
        };
        Program { code: self.code.iter().enumerate().map(resolve).collect() }
    }
}

/// Ranges of own PIDs that the filter can test; jumps reach 255 instructions.
const MOST_RANGES: usize = 32;

impl Program {
    /// Calls about processes go on when the PID is in `passes.own` or the code that calls is `passes.code`; otherwise they
    /// and all calls that change group, session, ids or the subreaper are handed over, and those that read the usage of children. All others go on without a
    /// look at their arguments, so that the kernel's bitmap of allowed calls answers them (linux: `seccomp_cache_check_allow`).
    /// x32 calls fail with ENOSYS, as on kernels without x32.
    ///
    /// At most 32 ranges are used; the PIDs of the rest are handed over, which is slower but right.
    pub fn new(passes: &Passes) -> Program {
        let mut asm = Assembler::default();
        asm.load(ARCH);
        asm.jump(JUMP_EQUAL, ARCH_X86_64, To::Next, To::I386);
        asm.load(NUMBER);
        asm.jump(JUMP_EQUAL, u32::MAX, To::Allow, To::Next); // a tracer skipped the call
        asm.jump(JUMP_AT_LEAST, X32_BIT, To::Fail, To::Next);
        calls(&mut asm, &X86_64);
        asm.label(To::I386);
        asm.load(NUMBER);
        calls(&mut asm, &I386);
        asm.label(To::Prctl);
        asm.load(ARG0);
        asm.jump(JUMP_EQUAL, PR_SET_CHILD_SUBREAPER, To::Ask, To::Allow);
        asm.label(To::Usage);
        asm.load(ARG0);
        asm.jump(JUMP_EQUAL, RUSAGE_CHILDREN, To::Ask, To::Allow);
        for (label, pointer) in [(To::Wait4, ARG3), (To::Waitid, ARG4)] {
            asm.label(label);
            asm.load(pointer);
            asm.jump(JUMP_EQUAL, 0, To::Next, To::Ask);
            asm.load(pointer + 4);
            asm.jump(JUMP_EQUAL, 0, To::Allow, To::Ask);
        }
        asm.label(To::Pid);
        asm.load(ARG0);
        for (i, own) in passes.own.iter().take(MOST_RANGES).filter(|own| own.start > 0).enumerate() {
            asm.jump(JUMP_AT_LEAST, own.start as u32, To::Next, To::Foreign(i));
            asm.jump(JUMP_AT_LEAST, own.end as u32, To::Next, To::Allow);
            asm.label(To::Foreign(i));
        }
        asm.label(To::Ask);
        let (start, end) = (passes.code.start, passes.code.end);
        if start < end && start >> 32 == end >> 32 {
            asm.load(CODE_HIGH);
            asm.jump(JUMP_EQUAL, (start >> 32) as u32, To::Next, To::Foreign(usize::MAX));
            asm.load(CODE_LOW);
            asm.jump(JUMP_AT_LEAST, start as u32, To::Next, To::Foreign(usize::MAX));
            asm.jump(JUMP_AT_LEAST, end as u32, To::Next, To::Allow);
            asm.label(To::Foreign(usize::MAX));
        }
        asm.give(NOTIFY);
        asm.label(To::Allow);
        asm.give(ALLOW);
        asm.label(To::Fail);
        asm.give(FAIL | libc::ENOSYS as u32);
        asm.finish()
    }

    /// In the form that seccomp(2) takes, at an address.
    pub fn loadable(&self) -> Loadable {
        let code = self.code.clone();
        let head = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut().cast() };
        Loadable { _code: code, head: Box::new(head) }
    }
}

/// A struct sock_fprog with its instructions, for somebody who shares this memory.
pub struct Loadable {
    _code: Vec<Instruction>,
    head: Box<libc::sock_fprog>,
}

impl Loadable {
    /// Valid as long as this value lives.
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(&*self.head) as u64
    }
}

/// Where each call goes; those not among them are allowed.
fn calls(asm: &mut Assembler, table: &Table) {
    let by_pid = table.by_pid().into_iter().map(|number| (number, To::Pid));
    let asked = [table.setpgid, table.setsid, table.times].into_iter().chain(table.set_ids.iter().copied());
    let usage = [(table.wait4, To::Wait4), (table.waitid, To::Waitid), (table.getrusage, To::Usage)];
    let all = by_pid.chain(asked.map(|number| (number, To::Ask))).chain(usage).chain([(table.prctl, To::Prctl)]);
    let mut all: Vec<(u32, To)> = all.collect();
    all.sort_unstable_by_key(|(number, _)| *number);
    search(asm, &all);
}

/// Numbers that are tried one after the other.
const LEAF: usize = 3;

/// By halves: when a filter is installed the kernel goes through it once for each system call of both kinds (linux: `seccomp_cache_prepare`), which is
/// most of what installing costs.
fn search(asm: &mut Assembler, sorted: &[(u32, To)]) {
    if sorted.len() <= LEAF {
        sorted.iter().for_each(|(number, to)| asm.jump(JUMP_EQUAL, *number, *to, To::Next));
        return asm.give(ALLOW);
    }
    let (lower, upper) = sorted.split_at(sorted.len() / 2);
    let there = To::Half(asm.code.len());
    asm.jump(JUMP_AT_LEAST, upper[0].0, there, To::Next);
    search(asm, lower);
    asm.label(there);
    search(asm, upper);
}

/// The call that a notice is about.
pub(crate) fn call(arch: u32, number: i32, args: &[u64; 6]) -> Call {
    let table = if arch == ARCH_I386 { &I386 } else { &X86_64 };
    let arg = |n: usize| args[n] as i32; // the kernel takes ints and drops the upper half
    let number = number as u32;
    match number {
        n if n == table.kill => Call::Kill { pid: arg(0), sig: arg(1) },
        n if n == table.tkill => Call::ThreadKill { tgid: None, tid: arg(0), sig: arg(1) },
        n if n == table.tgkill => Call::ThreadKill { tgid: Some(arg(0)), tid: arg(1), sig: arg(2) },
        n if n == table.queue => Call::Queue { pid: arg(0), sig: arg(1) },
        n if n == table.thread_queue => Call::ThreadQueue { tgid: arg(0), tid: arg(1), sig: arg(2) },
        n if n == table.pidfd_open => Call::PidfdOpen { pid: arg(0), flags: args[1] as u32 },
        n if n == table.setpgid => Call::SetPgid { pid: arg(0), pgid: arg(1) },
        n if n == table.setsid => Call::SetSid,
        n if n == table.prctl && args[0] as u32 == PR_SET_CHILD_SUBREAPER => Call::Subreaper { on: args[1] != 0 },
        n if n == table.wait4 => Call::Reads { of: Reads::Wait4, at: args[3] },
        n if n == table.waitid => Call::Reads { of: Reads::Waitid { info: args[2] }, at: args[4] },
        n if n == table.getrusage && args[0] as u32 == RUSAGE_CHILDREN => {
            Call::Reads { of: Reads::Children, at: args[1] }
        }
        n if n == table.times => Call::Reads { of: Reads::Times, at: args[0] },
        n if table.set_ids.contains(&n) => Call::SetIds,
        n => Call::Other { number: n as i32 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What the kernel would do with a call (linux: `bpf_check_classic`'s jumps count from behind them).
    fn verdict(program: &Program, arch: u32, number: u32, arg0: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let Instruction { code, yes, no, k } = program.code[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { yes } else { no });
            match code {
                LOAD => {
                    loaded = match k {
                        NUMBER => number,
                        ARCH => arch,
                        ARG0 => arg0,
                        _ => 0,
                    }
                }
                JUMP_EQUAL => at += jump(loaded == k),
                JUMP_AT_LEAST => at += jump(loaded >= k),
                RETURN => return k,
                code => panic!("{code}"),
            }
        }
    }

    #[test]
    fn every_number_goes_where_its_table_says_however_many_ranges_pass() {
        let own: Vec<_> = (0..MOST_RANGES as i32 + 3).map(|n| 10_000 * (n + 1)..10_000 * (n + 1) + 10).collect();
        let program = Program::new(&Passes { own, code: 0..0 });
        for (arch, table) in [(ARCH_X86_64, &X86_64), (ARCH_I386, &I386)] {
            let by_pid = BTreeSet::from(table.by_pid());
            let always: BTreeSet<u32> =
                [table.setpgid, table.setsid, table.times].iter().chain(table.set_ids).copied().collect();
            for number in 0..1000 {
                let told = |arg| verdict(&program, arch, number, arg);
                let asked = |yes: bool| if yes { NOTIFY } else { ALLOW };
                let expected = |pid: bool, prctl: bool, usage: bool| {
                    let by_number = by_pid.contains(&number) && pid;
                    let by_first = number == table.prctl && prctl || number == table.getrusage && usage;
                    asked(by_number || by_first || always.contains(&number))
                };
                assert_eq!(told(9_999), expected(true, false, false), "{arch:x} {number}");
                assert_eq!(told(320_009), expected(false, false, false), "{arch:x} {number}");
                assert_eq!(told(330_001), expected(true, false, false), "{arch:x} {number}");
                assert_eq!(told(PR_SET_CHILD_SUBREAPER), expected(true, true, false), "{arch:x} {number}");
                assert_eq!(told(RUSAGE_CHILDREN), expected(true, false, true), "{arch:x} {number}");
            }
        }
        assert_eq!(verdict(&program, ARCH_X86_64, X32_BIT + 62, 1), FAIL | libc::ENOSYS as u32);
    }
}
