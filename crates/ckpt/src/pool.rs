//! Memory of huge pages from the pool that an administrator has set aside (MAP_HUGETLB, hugetlbpage(5)): it is carried where it is private and nameless, or shared
//! without a name in a file system that somebody has mounted, to where there are enough of them.

use image::memory::Memory;
use image::objects::{Object, ObjectKind, Objects};
use kern::areas::{Area, AreaFlags};
use kern::pool::{available, sizes};
use rustix::fs::MemfdFlags;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use vocab::{Fault, Kind, Result};

/// How many pages of which size, in bytes.
pub type Pages = BTreeMap<u64, u64>;

/// As the kernel calls its files for mappings without one (linux: HUGETLB_ANON_FILE).
pub(crate) const NAMELESS: &[u8] = b"/anon_hugepage";

/// Private memory without a name.
pub(crate) fn is_private(area: &Area) -> bool {
    area.flags.contains(AreaFlags::HUGETLB) && !area.shared && without_end(&area.path) == Some(NAMELESS)
}

/// Shared, and by its name an object of the image ([`crate::objects`]).
pub(crate) fn is_object(area: &Area) -> bool {
    let named_so = |name: &[u8]| name == NAMELESS || name.starts_with(b"/memfd:");
    area.flags.contains(AreaFlags::HUGETLB) && area.shared && without_end(&area.path).is_some_and(named_so)
}

fn without_end(path: &[u8]) -> Option<&[u8]> {
    path.strip_suffix(b" (deleted)")
}

/// Is it on the mount that the kernel keeps for huge pages of so many bytes (linux: `hugetlbfs_vfsmount`), to which no path leads? Else it is somebody's.
pub(crate) fn is_kernels(device: u64, page: u64) -> Result<bool> {
    let own = memory_file(b"", page, MemfdFlags::empty())?;
    let own = rustix::fs::fstat(own).map_err(|e| Fault::sys(e.raw_os_error(), "look at a memory file"))?;
    Ok(own.st_dev == device)
}

/// Of huge pages, none of which is set aside for it yet.
pub(crate) fn memory_file(name: &[u8], page: u64, flags: MemfdFlags) -> Result<OwnedFd> {
    let size = page.trailing_zeros() << libc::MFD_HUGE_SHIFT;
    let how = MemfdFlags::from_bits_retain(libc::MFD_HUGETLB | size) | MemfdFlags::CLOEXEC | flags;
    rustix::fs::memfd_create(name, how).map_err(|e| Fault::sys(e.raw_os_error(), "make a file of huge pages"))
}

/// How many this machine could give.
pub fn here() -> Pages {
    sizes().into_iter().map(|size| (size, available(size))).collect()
}

/// What this machine does not have of that, in words.
pub fn missing(needed: &Pages) -> Vec<String> {
    // To ask takes a while, and few need any.
    if needed.is_empty() {
        Vec::new()
    } else {
        short(needed, &here())
    }
}

/// The same of a machine that has these.
pub fn short(needed: &Pages, there: &Pages) -> Vec<String> {
    let of = |size| there.get(size).copied().unwrap_or(0);
    let short = needed.iter().map(|(size, pages)| (*size, *pages, of(size)));
    short
        .filter(|(_, pages, there)| there < pages)
        .map(|(size, pages, there)| {
            format!("it needs {pages} huge pages of {} KiB from their pool, which has {there} free there", size / 1024)
        })
        .collect()
}

/// # Errors
/// `Unsupported` where there are not as many as the image is sure to need.
pub(crate) fn check(memory: &Memory) -> Result<()> {
    let mut all = Pages::new();
    let reserved = |flags| !AreaFlags::from_bits_retain(flags).contains(AreaFlags::NORESERVE);
    for area in memory.areas.iter().filter(|area| area.page != 0 && reserved(area.flags)) {
        *all.entry(area.page).or_default() += (area.end - area.start) / area.page;
    }
    must_be_there(&all)
}

/// The same of its shared memory; or this machine has no pages of that size.
pub(crate) fn check_objects(objects: &Objects) -> Result<()> {
    let mut all = Pages::new();
    for Object { kind, size, page, .. } in objects.objects.iter().filter(|object| object.page != 0) {
        let known = sizes().contains(page);
        if !known {
            return Err(Fault::new(Kind::Unsupported, format!("there are no huge pages of {page} bytes here")));
        }
        let reserved = matches!(kind, ObjectKind::Shared { reserved: true });
        *all.entry(*page).or_default() += if reserved { size / page } else { 0 };
    }
    must_be_there(&all)
}

fn must_be_there(pages: &Pages) -> Result<()> {
    match &missing(pages)[..] {
        [] => Ok(()),
        short => Err(Fault::new(Kind::Unsupported, short.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_not_enough_of_is_named() {
        assert_eq!(missing(&Pages::from([(2 << 20, 0)])), [""; 0]);
        let told = missing(&Pages::from([(2 << 20, 1 << 40)]));
        assert!(told.len() == 1 && told[0].contains("huge pages of 2048 KiB"), "{told:?}");
        assert_eq!(missing(&Pages::from([(12345, 1)])).len(), 1);
    }

    /// Of a memory file it is told by the pages, of which it needs none for that.
    #[test]
    fn the_kernels_own_mount_is_told_from_others() {
        let file = memory_file(b"one", 2 << 20, MemfdFlags::empty()).expect("x86-64 has pages of 2 MiB");
        let device = rustix::fs::fstat(&file).expect("open").st_dev;
        assert_eq!(is_kernels(device, 2 << 20), Ok(true));
        let other = std::fs::File::open("/proc/self/exe").expect("there");
        assert_eq!(is_kernels(rustix::fs::fstat(&other).expect("open").st_dev, 2 << 20), Ok(false));
    }

    #[test]
    fn what_is_set_aside_for_shared_memory_must_be_there() {
        let object = |reserved, size| {
            let (kind, page) = (ObjectKind::Shared { reserved }, 2 << 20);
            Object { kind, size, mode: 0o600, uid: 0, gid: 0, accessed: 0, modified: 0, page }
        };
        assert_eq!(check_objects(&Objects { objects: vec![object(false, 1 << 50)] }), Ok(()));
        let told = check_objects(&Objects { objects: vec![object(true, 1 << 50)] });
        assert_eq!(told.map_err(|fault| fault.kind), Err(Kind::Unsupported));
        let bad = Objects { objects: vec![Object { page: 4096, ..object(false, 0) }] };
        assert_eq!(check_objects(&bad).map_err(|fault| fault.kind), Err(Kind::Unsupported));
    }
}
