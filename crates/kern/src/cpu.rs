//! What this machine's processor lets a program do, as the program itself may find out: cpuid, xgetbv, AT_HWCAP2.

use std::arch::x86_64::{__cpuid_count, _xgetbv, CpuidResult};
use std::sync::{Mutex, OnceLock, PoisonError};

#[derive(Clone, Copy)]
enum Register {
    A,
    B,
    C,
    D,
}
use Register::{A, B, C, D};

/// Name (as in /proc/cpuinfo), leaf, subleaf, register, bit (Intel SDM 2A, CPUID; AMD APM 3, appendix E).
///
/// Only what a program without privileges may use, and of that only what it notices: an instruction that is not there faults. What is
/// merely faster with the bit (erms, fsrm), ignored without it (hle, cldemote, ibt), or the kernel's is not here.
const FEATURES: [(&str, u32, u32, Register, u32); 97] = [
    ("fpu", 1, 0, D, 0),
    ("tsc", 1, 0, D, 4),
    ("cx8", 1, 0, D, 8),
    ("cmov", 1, 0, D, 15),
    ("clflush", 1, 0, D, 19),
    ("mmx", 1, 0, D, 23),
    ("fxsr", 1, 0, D, 24),
    ("sse", 1, 0, D, 25),
    ("sse2", 1, 0, D, 26),
    ("pni", 1, 0, C, 0),
    ("pclmulqdq", 1, 0, C, 1),
    ("ssse3", 1, 0, C, 9),
    ("fma", 1, 0, C, 12),
    ("cx16", 1, 0, C, 13),
    ("sse4_1", 1, 0, C, 19),
    ("sse4_2", 1, 0, C, 20),
    ("movbe", 1, 0, C, 22),
    ("popcnt", 1, 0, C, 23),
    ("aes", 1, 0, C, 25),
    ("osxsave", 1, 0, C, 27),
    ("avx", 1, 0, C, 28),
    ("f16c", 1, 0, C, 29),
    ("rdrand", 1, 0, C, 30),
    ("bmi1", 7, 0, B, 3),
    ("avx2", 7, 0, B, 5),
    ("bmi2", 7, 0, B, 8),
    ("rtm", 7, 0, B, 11),
    ("mpx", 7, 0, B, 14),
    ("avx512f", 7, 0, B, 16),
    ("avx512dq", 7, 0, B, 17),
    ("rdseed", 7, 0, B, 18),
    ("adx", 7, 0, B, 19),
    ("avx512ifma", 7, 0, B, 21),
    ("clflushopt", 7, 0, B, 23),
    ("clwb", 7, 0, B, 24),
    ("avx512pf", 7, 0, B, 26),
    ("avx512er", 7, 0, B, 27),
    ("avx512cd", 7, 0, B, 28),
    ("sha_ni", 7, 0, B, 29),
    ("avx512bw", 7, 0, B, 30),
    ("avx512vl", 7, 0, B, 31),
    ("avx512vbmi", 7, 0, C, 1),
    ("ospke", 7, 0, C, 4),
    ("waitpkg", 7, 0, C, 5),
    ("avx512_vbmi2", 7, 0, C, 6),
    ("gfni", 7, 0, C, 8),
    ("vaes", 7, 0, C, 9),
    ("vpclmulqdq", 7, 0, C, 10),
    ("avx512_vnni", 7, 0, C, 11),
    ("avx512_bitalg", 7, 0, C, 12),
    ("avx512_vpopcntdq", 7, 0, C, 14),
    ("rdpid", 7, 0, C, 22),
    ("kl", 7, 0, C, 23),
    ("movdiri", 7, 0, C, 27),
    ("movdir64b", 7, 0, C, 28),
    ("enqcmd", 7, 0, C, 29),
    ("avx512_4vnniw", 7, 0, D, 2),
    ("avx512_4fmaps", 7, 0, D, 3),
    ("avx512_vp2intersect", 7, 0, D, 8),
    ("serialize", 7, 0, D, 14),
    ("tsxldtrk", 7, 0, D, 16),
    ("amx_bf16", 7, 0, D, 22),
    ("avx512_fp16", 7, 0, D, 23),
    ("amx_tile", 7, 0, D, 24),
    ("amx_int8", 7, 0, D, 25),
    ("sha512", 7, 1, A, 0),
    ("sm3", 7, 1, A, 1),
    ("sm4", 7, 1, A, 2),
    ("avx_vnni", 7, 1, A, 4),
    ("avx512_bf16", 7, 1, A, 5),
    ("cmpccxadd", 7, 1, A, 7),
    ("amx_fp16", 7, 1, A, 21),
    ("avx_ifma", 7, 1, A, 23),
    ("movrs", 7, 1, A, 31),
    ("avx_vnni_int8", 7, 1, D, 4),
    ("avx_ne_convert", 7, 1, D, 5),
    ("amx_complex", 7, 1, D, 8),
    ("avx_vnni_int16", 7, 1, D, 10),
    ("avx10", 7, 1, D, 19),
    ("apx", 7, 1, D, 21),
    ("xsaveopt", 13, 1, A, 0),
    ("xsavec", 13, 1, A, 1),
    ("xgetbv1", 13, 1, A, 2),
    ("lahf_lm", 0x8000_0001, 0, C, 0),
    ("abm", 0x8000_0001, 0, C, 5),
    ("sse4a", 0x8000_0001, 0, C, 6),
    ("misalignsse", 0x8000_0001, 0, C, 7),
    ("3dnowprefetch", 0x8000_0001, 0, C, 8),
    ("xop", 0x8000_0001, 0, C, 11),
    ("fma4", 0x8000_0001, 0, C, 16),
    ("tbm", 0x8000_0001, 0, C, 21),
    ("mwaitx", 0x8000_0001, 0, C, 29),
    ("mmxext", 0x8000_0001, 0, D, 22),
    ("rdtscp", 0x8000_0001, 0, D, 27),
    ("3dnowext", 0x8000_0001, 0, D, 30),
    ("3dnow", 0x8000_0001, 0, D, 31),
    ("clzero", 0x8000_0008, 0, B, 0),
];

/// Zero for a leaf that the processor does not have: for one that is too high it gives another's (CPUID, "EAX").
fn leaf(leaf: u32, subleaf: u32) -> CpuidResult {
    let highest = ask(leaf & 0x8000_0000, 0).eax;
    let subleaf_there = leaf != 7 || subleaf <= ask(7, 0).eax;
    match leaf <= highest && subleaf_there {
        true => ask(leaf, subleaf),
        false => CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 },
    }
}

/// The processor's answer. Each is asked for once in this process: a virtual machine is left for it, and the list above would ask for the same seven leaves 290 times.
fn ask(leaf: u32, subleaf: u32) -> CpuidResult {
    static ANSWERS: Mutex<Vec<((u32, u32), CpuidResult)>> = Mutex::new(Vec::new());
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, answer)) = answers.iter().find(|(asked, _)| *asked == (leaf, subleaf)) {
        return *answer;
    }
    // SAFETY: every x86-64 processor has the instruction; it only reads.
    #[allow(unused_unsafe, reason = "safe in later versions of the library")]
    let answer = unsafe { __cpuid_count(leaf, subleaf) };
    answers.push(((leaf, subleaf), answer));
    answer
}

/// The names of what is there.
pub fn features() -> Vec<&'static str> {
    let there = FEATURES.iter().filter(|(_, number, subleaf, register, bit)| {
        let CpuidResult { eax, ebx, ecx, edx } = leaf(*number, *subleaf);
        let word = match register {
            A => eax,
            B => ebx,
            C => ecx,
            D => edx,
        };
        word >> bit & 1 == 1
    });
    let mut names: Vec<&str> = there.map(|(name, ..)| *name).collect();
    // What the kernel has to allow first (linux: arch/x86/include/uapi/asm/hwcap2.h).
    // SAFETY: reads this process's auxiliary vector.
    let allowed = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    names.extend(
        [("ring3mwait", 1), ("fsgsbase", 2)].iter().filter(|(_, bit)| allowed & bit != 0).map(|(name, _)| *name),
    );
    names
}

/// XCR0: which parts of the registers' state the kernel has enabled, one bit each; 0 without XSAVE.
pub fn states() -> u64 {
    const OSXSAVE: u32 = 1 << 27;
    match leaf(1, 0).ecx & OSXSAVE {
        0 => 0,
        // SAFETY: the bit says that the instruction may be used.
        _ => unsafe { _xgetbv(0) },
    }
}

/// Where XSAVE puts part `number` (2 to 62) of the state, and how much of it there is: (offset, size), in bytes.
pub fn place_of_state(number: u32) -> (u32, u32) {
    let CpuidResult { eax, ebx, .. } = leaf(13, number);
    (ebx, eax)
}

/// Of protection keys among the parts of the state.
const KEY_RIGHTS: u32 = 9;

/// Where XSAVE puts the rights of the protection keys (PKRU), 4 bytes; `None` where the processor has no keys, or the kernel does not let programs use them. The
/// processor is asked once.
pub fn place_of_key_rights() -> Option<usize> {
    static PLACE: OnceLock<Option<usize>> = OnceLock::new();
    let place = || (states() >> KEY_RIGHTS & 1 == 1).then(|| place_of_state(KEY_RIGHTS).0 as usize);
    *PLACE.get_or_init(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel says the same of what it says anything of.
    #[test]
    fn the_kernel_agrees() {
        let text = std::fs::read_to_string("/proc/cpuinfo").expect("there");
        let flags = text.lines().find_map(|line| line.strip_prefix("flags")).expect("on x86-64");
        let flags: Vec<&str> = flags.split_whitespace().collect();
        for (name, ..) in FEATURES.iter().filter(|(name, ..)| *name != "osxsave") {
            // It hides some that it does not want used.
            assert!(features().contains(name) || !flags.contains(name), "{name}");
        }
        assert!(features().contains(&"sse2") && !features().contains(&"fma4"));
        assert_eq!(states() & 3, 3);
    }

    #[test]
    fn avx_comes_behind_the_header() {
        if states() & 4 != 0 {
            assert_eq!(place_of_state(2), (576, 256));
        }
    }
}
