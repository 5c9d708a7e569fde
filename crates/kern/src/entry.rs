//! The first instructions of the program `shoal`, before those of the C library.
//!
//! The program lies at another address each time (static PIE), so the C library writes addresses into nearly all of its data before anything else runs (linux: `load_elf_binary`;
//! glibc: `_dl_relocate_static_pie`). Each page of that would be a page fault of its own, 80 of them. The kernel copies all of these pages in one call instead
//! (madvise(2), MADV_POPULATE_WRITE). A kernel before 5.14 does not know the call, and the program is only slower.
//!
//! The linker is told the symbol by `crates/cli/build.rs`.

use std::arch::global_asm;

global_asm!(
    ".pushsection .text.shoal_entry,\"ax\",@progbits",
    ".globl shoal_entry",
    ".hidden shoal_entry",
    ".hidden __ehdr_start",
    // A library has none, nor is it begun here.
    ".weak _start",
    ".hidden _start",
    ".type shoal_entry, @function",
    "shoal_entry:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    // The kernel's gifts to the program: the stack, and rdx for atexit(3).
    "mov r12, rdx",
    "lea r13, [rip + __ehdr_start]",
    // e_type: a program whose address is fixed has nothing to be written (ET_DYN is 3).
    "cmp word ptr [r13 + 16], 3",
    "jne 3f",
    // e_phoff, e_phnum.
    "mov r14, [r13 + 32]",
    "add r14, r13",
    "movzx r15d, word ptr [r13 + 56]",
    "2:",
    "test r15d, r15d",
    "jz 3f",
    // A piece of the file in memory (PT_LOAD) that may be written (PF_W).
    "cmp dword ptr [r14], 1",
    "jne 4f",
    "test dword ptr [r14 + 4], 2",
    "jz 4f",
    // From p_vaddr, p_memsz bytes, in whole pages.
    "mov rdi, [r14 + 16]",
    "add rdi, r13",
    "mov rsi, rdi",
    "add rsi, [r14 + 40]",
    "and rdi, -4096",
    "sub rsi, rdi",
    "add rsi, 4095",
    "and rsi, -4096",
    "mov edx, {populate}",
    "mov eax, {madvise}",
    "syscall",
    "4:",
    "add r14, 56",
    "dec r15d",
    "jmp 2b",
    "3:",
    "mov rdx, r12",
    "jmp _start",
    ".cfi_endproc",
    ".size shoal_entry, . - shoal_entry",
    ".popsection",
    populate = const libc::MADV_POPULATE_WRITE,
    madvise = const libc::SYS_madvise,
);
