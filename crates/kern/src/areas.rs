//! The mappings of a process: what /proc/PID/maps and /proc/PID/smaps say (proc_pid_maps(5), proc_pid_smaps(5)).

use crate::proc::PROC;
use bitflags::bitflags;
use vocab::{Fault, Pid, Result};

bitflags! {
    /// What a mapping is besides its protection, by the two letters of VmFlags (linux: `show_smap_vma_flags`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct AreaFlags: u32 {
        /// gd: a stack that grows downwards.
        const GROWSDOWN = 1 << 0;
        /// lo: locked into memory.
        const LOCKED = 1 << 1;
        /// dc: not inherited by fork.
        const DONTFORK = 1 << 2;
        /// wf: empty after fork.
        const WIPEONFORK = 1 << 3;
        /// dd: not in a core.
        const DONTDUMP = 1 << 4;
        /// hg: huge pages wanted.
        const HUGEPAGE = 1 << 5;
        /// nh: huge pages not wanted.
        const NOHUGEPAGE = 1 << 6;
        /// sr: read from front to end.
        const SEQUENTIAL = 1 << 7;
        /// rr: read here and there.
        const RANDOM = 1 << 8;
        /// mg: equal pages may be merged.
        const MERGEABLE = 1 << 9;
        /// nr: no swap is set aside.
        const NORESERVE = 1 << 10;
        /// ht: of huge pages from their pool.
        const HUGETLB = 1 << 11;
        /// io, pf: a device's memory.
        const DEVICE = 1 << 12;
        /// um, uw, ui: faults go to a userfaultfd.
        const USERFAULT = 1 << 13;
        /// sl: may not be changed any more (mseal(2)).
        const SEALED = 1 << 14;
        /// ss: a shadow stack.
        const SHADOW_STACK = 1 << 15;
        /// dp: may be dropped by the kernel when memory is short.
        const DROPPABLE = 1 << 16;
        /// lf: what is locked is locked page by page as it is used (MLOCK_ONFAULT).
        const LOCKED_ON_FAULT = 1 << 17;
    }
}

const LETTERS: [(&str, AreaFlags); 21] = [
    ("gd", AreaFlags::GROWSDOWN),
    ("lo", AreaFlags::LOCKED),
    ("dc", AreaFlags::DONTFORK),
    ("wf", AreaFlags::WIPEONFORK),
    ("dd", AreaFlags::DONTDUMP),
    ("hg", AreaFlags::HUGEPAGE),
    ("nh", AreaFlags::NOHUGEPAGE),
    ("sr", AreaFlags::SEQUENTIAL),
    ("rr", AreaFlags::RANDOM),
    ("mg", AreaFlags::MERGEABLE),
    ("nr", AreaFlags::NORESERVE),
    ("ht", AreaFlags::HUGETLB),
    ("io", AreaFlags::DEVICE),
    ("pf", AreaFlags::DEVICE),
    ("um", AreaFlags::USERFAULT),
    ("uw", AreaFlags::USERFAULT),
    ("ui", AreaFlags::USERFAULT),
    ("sl", AreaFlags::SEALED),
    ("ss", AreaFlags::SHADOW_STACK),
    ("dp", AreaFlags::DROPPABLE),
    ("lf", AreaFlags::LOCKED_ON_FAULT),
];

/// One mapping: addresses `start..end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area {
    pub start: u64,
    pub end: u64,
    /// PROT_READ, PROT_WRITE, PROT_EXEC.
    pub protection: u32,
    pub shared: bool,
    /// Of its beginning in the file, in bytes.
    pub offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// 0: no file.
    pub inode: u64,
    /// The file, or a name in brackets, or empty.
    pub path: Vec<u8>,
    /// Empty when read from maps.
    pub flags: AreaFlags,
    /// The protection key (pkeys(7)); 0 when read from maps.
    pub key: u32,
    /// Bytes of a page of it (KernelPageSize); 0 when read from maps.
    pub page: u64,
    /// Bytes of it that are in memory or swapped out, but for the zero page; 0 when read from maps.
    pub held: u64,
}

impl Area {
    /// Bytes.
    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    /// Does the kernel put this one into every process (vdso(7))?
    pub fn is_kernels(&self) -> bool {
        matches!(&self.path[..], b"[vdso]" | b"[vvar]" | b"[vvar_vclock]" | b"[vsyscall]")
    }
}

/// The mappings of a process, in the order of their addresses and apart from each other; `flags` and `key` need the slower smaps, for which the
/// kernel walks all pages. Of a process that runs they may be from several moments (ODDITY maps-of-several-moments).
pub fn areas(pid: Pid, with_flags: bool) -> Result<Vec<Area>> {
    let path = format!("{PROC}/{pid}/{}", if with_flags { "smaps" } else { "maps" });
    let text = crate::proc::whole(&path).map_err(|e| Fault::io(&e, format!("read {path}")))?;
    let areas = parse(&text).ok_or_else(|| Fault::bug(format!("a line of {path} is not as expected")))?;
    Ok(apart(areas))
}

/// ODDITY maps-of-several-moments: the kernel writes a few mappings at a time, and goes on behind the last one with what there is by then (linux:
/// `m_next`, fs/proc/task_mmu.c). One that has become part of a larger one meanwhile is followed by that, from before it. (tests/prog/odd_maps_moments.c)
fn apart(areas: Vec<Area>) -> Vec<Area> {
    let mut end = 0;
    let rest = areas.into_iter().filter_map(|area| {
        let known = end.clamp(area.start, area.end) - area.start;
        end = end.max(area.end);
        let offset = if area.inode == 0 { area.offset } else { area.offset + known };
        (known < area.end - area.start).then(|| Area { start: area.start + known, offset, ..area })
    });
    rest.collect()
}

fn parse(text: &[u8]) -> Option<Vec<Area>> {
    let mut areas: Vec<Area> = Vec::new();
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        match line[0].is_ascii_uppercase() {
            false => areas.push(parse_line(line)?),
            true => parse_field(line, areas.last_mut()?)?,
        }
    }
    Some(areas)
}

/// `7f12-7f13 rw-p 00000000 08:01 1234    /path`
fn parse_line(line: &[u8]) -> Option<Area> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut field = || fields.next().and_then(|field| std::str::from_utf8(field).ok());
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = field()?.split_once('-')?;
    let protection = field()?.as_bytes();
    let offset = hex(field()?)?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?.parse().ok()?;
    let bits = [(b'r', libc::PROT_READ), (b'w', libc::PROT_WRITE), (b'x', libc::PROT_EXEC)];
    let bits = bits.iter().zip(protection).filter(|((letter, _), byte)| letter == *byte);
    let path = fields.next().unwrap_or_default();
    Some(Area {
        start: hex(start)?,
        end: hex(end)?,
        protection: bits.fold(0, |all, ((_, bit), _)| all | *bit as u32),
        shared: *protection.get(3)? == b's',
        offset,
        device: (hex(major)? as u32, hex(minor)? as u32),
        inode,
        path: unescape(path.trim_ascii_start()),
        flags: AreaFlags::empty(),
        key: 0,
        page: 0,
        held: 0,
    })
}

/// Newlines in a name are written as `\012` (linux: `seq_file_path`).
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, tail @ ..] = rest {
        let newline = rest.strip_prefix(br"\012");
        plain.push(if newline.is_some() { b'\n' } else { *first });
        rest = newline.unwrap_or(tail);
    }
    plain
}

fn parse_field(line: &[u8], area: &mut Area) -> Option<()> {
    let line = std::str::from_utf8(line).ok()?;
    if let Some(names) = line.strip_prefix("VmFlags:") {
        let known = |name: &str| LETTERS.iter().find(|(letters, _)| *letters == name).map(|(_, flag)| *flag);
        area.flags = names.split_ascii_whitespace().filter_map(known).collect();
    } else if let Some(key) = line.strip_prefix("ProtectionKey:") {
        area.key = key.trim().parse().ok()?;
    } else if let Some(size) = line.strip_prefix("KernelPageSize:") {
        area.page = bytes(size)?;
    } else if let Some(size) = HELD.iter().find_map(|name| line.strip_prefix(name)?.strip_prefix(':')) {
        area.held += bytes(size)?;
    }
    Some(())
}

/// What counts what a mapping holds, each page in one of them.
const HELD: [&str; 4] = ["Rss", "Swap", "Shared_Hugetlb", "Private_Hugetlb"];

/// `64 kB`
fn bytes(size: &str) -> Option<u64> {
    Some(size.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_their_fields() {
        let text = b"55e0-55f0 r-xp 00002000 08:01 1234                       /bin/a name\\012x (deleted)\n\
            Size:                 64 kB\nKernelPageSize:     2048 kB\nRss:   8 kB\nPss:  4 kB\nSwap:  4 kB\nSwapPss:  0 kB\nProtectionKey:         3\nVmFlags: rd ex mr mw me dw lo sd\n\
            7f00-7f10 rw-s 00000000 00:00 0 \nVmFlags: rd wr sh gd ?? dc\n";
        let areas = parse(text).expect("well formed");
        assert_eq!(areas.len(), 2);
        assert_eq!((areas[0].start, areas[0].end, areas[0].offset, areas[0].inode), (0x55e0, 0x55f0, 0x2000, 1234));
        assert_eq!((areas[0].protection, areas[0].shared, areas[0].key), (5, false, 3));
        assert_eq!(areas[0].path, b"/bin/a name\nx (deleted)");
        assert_eq!((areas[0].page, areas[1].page), (2 << 20, 0));
        assert_eq!((areas[0].held, areas[1].held), (12 << 10, 0));
        assert_eq!(areas[0].flags, AreaFlags::LOCKED);
        assert_eq!((areas[1].protection, areas[1].shared, areas[1].device), (3, true, (0, 0)));
        assert_eq!(areas[1].flags, AreaFlags::GROWSDOWN | AreaFlags::DONTFORK);
        assert_eq!(parse(b"55e0 r-xp"), None);
    }

    /// A file's four pages, of which the last three are told of as one with three more; and that part of these again.
    #[test]
    fn of_what_is_told_of_twice_there_is_one() {
        let text = b"1000-5000 r--p 00010000 08:01 7 /a\n2000-8000 rw-p 00011000 08:01 7 /a\n3000-8000 r--p 00012000 08:01 7 /a\n\
            8000-9000 rw-p 00000000 00:00 0 \n";
        let told: Vec<_> =
            apart(parse(text).expect("well formed")).iter().map(|a| (a.start, a.end, a.offset)).collect();
        assert_eq!(told, [(0x1000, 0x5000, 0x10000), (0x5000, 0x8000, 0x14000), (0x8000, 0x9000, 0)]);
    }

    #[test]
    fn this_process_has_a_stack_and_a_vdso() {
        let all = areas(Pid(std::process::id() as i32), true).expect("own");
        assert!(all.iter().any(|area| area.is_kernels() && area.path == b"[vdso]"));
        let stack = all.iter().find(|area| area.path == b"[stack]").expect("a stack");
        assert!(stack.flags.contains(AreaFlags::GROWSDOWN) && stack.protection == 3);
    }
}
