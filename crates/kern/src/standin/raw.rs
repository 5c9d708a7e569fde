//! System calls without libc: no errno, no thread-local storage; one place, so that a seccomp filter can tell our own calls.

use std::arch::global_asm;

global_asm!(
    ".pushsection .text.shoal_raw,\"ax\",@progbits",
    ".globl shoal_raw_begin, shoal_raw_syscall, shoal_raw_clone, shoal_raw_hold, shoal_raw_end",
    ".globl shoal_raw_hold_begin, shoal_raw_hold_syscall, shoal_raw_hold_abort, shoal_raw_enter, shoal_raw_on_stack",
    ".globl shoal_raw_stop, shoal_raw_stop_begin, shoal_raw_stop_syscall, shoal_raw_stop_abort",
    ".globl shoal_raw_restorer",
    ".balign 16",
    "shoal_raw_begin:",
    // (number, a, b, c, d, e, f)
    "shoal_raw_syscall:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp+8]",
    "syscall",
    "ret",
    // (clone_args, size, entry, argument): the child runs entry(argument) on its own stack
    "shoal_raw_clone:",
    "mov r8, rdx",
    "mov r9, rcx",
    "mov eax, 435",
    "syscall",
    "test rax, rax",
    "jnz 2f",
    "xor ebp, ebp",
    "mov rdi, r9",
    "call r8",
    "ud2",
    "2: ret",
    // (fd, request, hold, taken): -EINTR without a call when *taken is set; see run.rs
    "shoal_raw_hold:",
    "shoal_raw_hold_begin:",
    "cmp dword ptr [rcx], 0",
    "jne shoal_raw_hold_abort",
    "mov eax, 16",
    "shoal_raw_hold_syscall:",
    "syscall",
    "ret",
    "shoal_raw_hold_abort:",
    "mov rax, -4",
    "ret",
    // (pid, tid, signal, taken): tgkill(2), or -EAGAIN without a call when *taken is set; see act.rs
    "shoal_raw_stop:",
    "shoal_raw_stop_begin:",
    "cmp dword ptr [rcx], 0",
    "jne shoal_raw_stop_abort",
    "mov eax, 234",
    "shoal_raw_stop_syscall:",
    "syscall",
    "ret",
    "shoal_raw_stop_abort:",
    "mov rax, -11",
    "ret",
    // (stack, entry, argument): leaves this stack for good
    "shoal_raw_enter:",
    "mov rsp, rdi",
    "xor ebp, ebp",
    "mov rdi, rdx",
    "call rsi",
    "ud2",
    // (stack, code, argument): comes back
    "shoal_raw_on_stack:",
    "push rbp",
    "mov rbp, rsp",
    "mov rsp, rdi",
    "mov rdi, rdx",
    "call rsi",
    "mov rsp, rbp",
    "pop rbp",
    "ret",
    "shoal_raw_restorer:",
    "mov eax, 15",
    "syscall",
    "shoal_raw_end:",
    ".popsection",
);

extern "C" {
    fn shoal_raw_syscall(number: i64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64;
    fn shoal_raw_clone(args: *const CloneArgs, size: usize, entry: extern "C" fn(u64) -> !, argument: u64) -> i64;
    fn shoal_raw_hold(fd: i64, request: u64, hold: *mut super::Hold, taken: *const u32) -> i64;
    fn shoal_raw_stop(pid: u64, tid: u64, sig: u64, taken: *const u32) -> i64;
    fn shoal_raw_enter(stack: u64, entry: extern "C" fn(u64) -> !, argument: u64) -> !;
    fn shoal_raw_on_stack(stack: u64, code: extern "C" fn(*mut super::Slot), argument: *mut super::Slot);
    static shoal_raw_begin: u8;
    static shoal_raw_end: u8;
    static shoal_raw_hold_begin: u8;
    static shoal_raw_hold_syscall: u8;
    static shoal_raw_hold_abort: u8;
    static shoal_raw_stop_begin: u8;
    static shoal_raw_stop_syscall: u8;
    static shoal_raw_stop_abort: u8;
    static shoal_raw_restorer: u8;
}

/// `struct clone_args` (clone(2)).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct CloneArgs {
    pub flags: u64,
    pub pidfd: u64,
    pub child_tid: u64,
    pub parent_tid: u64,
    pub exit_signal: u64,
    pub stack: u64,
    pub stack_size: u64,
    pub tls: u64,
    pub set_tid: u64,
    pub set_tid_size: u64,
    pub cgroup: u64,
}

/// One system call: the kernel's own result, `-errno` for a failure.
///
/// # Safety
/// As the call itself.
pub unsafe fn call(number: i64, args: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: by the caller's promise; the assembly only moves the arguments into place.
    unsafe { shoal_raw_syscall(number, a, b, c, d, e, f) }
}

/// clone3(2); the child starts in `entry(argument)` on the stack that `args` names.
///
/// # Safety
/// The stack must be memory of this address space that nothing else uses, and `entry` code of this module's kind.
pub unsafe fn clone(args: &CloneArgs, entry: extern "C" fn(u64) -> !, argument: u64) -> i64 {
    // SAFETY: by the caller's promise; `args` lives through the call.
    unsafe { shoal_raw_clone(args, size_of::<CloneArgs>(), entry, argument) }
}

/// The hold; `-EINTR` at once when `*taken` is set, with no gap in which a signal could be missed.
///
/// # Safety
/// Only from a stand-in's own loop, with its own slot.
pub unsafe fn hold(fd: i32, hold: *mut super::Hold, taken: *const u32) -> i64 {
    // SAFETY: by the caller's promise.
    unsafe { shoal_raw_hold(fd.into(), super::HOLD_IOCTL.into(), hold, taken) }
}

/// Sends the calling thread `sig`, unless `*taken` is set: -EAGAIN then, and no signal whose handler has set it before this call is in the kernel is overlooked.
///
/// # Safety
/// Only from a stand-in's own loop, with its own slot.
pub unsafe fn stop(pid: u64, tid: u64, sig: u64, taken: *const u32) -> i64 {
    // SAFETY: by the caller's promise.
    unsafe { shoal_raw_stop(pid, tid, sig, taken) }
}

/// Leaves the current stack for `stack` and runs `entry(argument)` there.
///
/// # Safety
/// `stack` must be the 16-aligned upper end of memory that nothing else uses.
pub unsafe fn enter(stack: u64, entry: extern "C" fn(u64) -> !, argument: u64) -> ! {
    // SAFETY: by the caller's promise.
    unsafe { shoal_raw_enter(stack, entry, argument) }
}

/// Runs `code(argument)` on another stack and comes back.
///
/// # Safety
/// As for [`enter`].
pub unsafe fn on_stack(stack: u64, code: extern "C" fn(*mut super::Slot), argument: *mut super::Slot) {
    // SAFETY: by the caller's promise.
    unsafe { shoal_raw_on_stack(stack, code, argument) }
}

/// The instruction addresses from which stand-in code makes its calls, `begin..end`: the gate's filter lets these pass.
pub fn code_range() -> (u64, u64) {
    (&raw const shoal_raw_begin as u64, &raw const shoal_raw_end as u64)
}

/// Where a hold, or a stop, that has not yet entered the kernel must go when a signal came: `(first, last, abort)` addresses.
pub(super) fn windows() -> [(u64, u64, u64); 2] {
    [
        (
            &raw const shoal_raw_hold_begin as u64,
            &raw const shoal_raw_hold_syscall as u64,
            &raw const shoal_raw_hold_abort as u64,
        ),
        (
            &raw const shoal_raw_stop_begin as u64,
            &raw const shoal_raw_stop_syscall as u64,
            &raw const shoal_raw_stop_abort as u64,
        ),
    ]
}

/// Address of the code that ends a signal handler (rt_sigreturn).
pub(super) fn restorer() -> u64 {
    &raw const shoal_raw_restorer as u64
}
