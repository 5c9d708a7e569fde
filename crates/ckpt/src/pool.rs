//! Memory of huge pages from the pool that an administrator has set aside (MAP_HUGETLB, hugetlbpage(5)): it is carried where it is private and nameless, to where
//! there are enough of them.

use image::memory::Memory;
use kern::areas::{Area, AreaFlags};
use kern::pool::{available, sizes};
use std::collections::BTreeMap;
use vocab::{Fault, Kind, Result};

/// How many pages of which size, in bytes.
pub type Pages = BTreeMap<u64, u64>;

/// What is shared, or a file's of hugetlbfs, is not.
pub(crate) fn is_carried(area: &Area) -> bool {
    area.flags.contains(AreaFlags::HUGETLB) && !area.shared && area.path == b"/anon_hugepage (deleted)"
}

/// Of mmap(2), for pages of so many bytes.
pub(crate) fn flags(page: u64) -> i32 {
    libc::MAP_HUGETLB | (page.trailing_zeros() as i32) << libc::MAP_HUGE_SHIFT
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
    match &missing(&all)[..] {
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

    #[test]
    fn the_size_stands_in_the_flags() {
        assert_eq!(flags(2 << 20), libc::MAP_HUGETLB | libc::MAP_HUGE_2MB);
        assert_eq!(flags(1 << 30), libc::MAP_HUGETLB | libc::MAP_HUGE_1GB);
    }
}
