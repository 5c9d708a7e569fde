//! The pool of huge pages (linux: Documentation/admin-guide/mm/hugetlbpage.rst).

/// How many huge pages of `size` bytes a program that asks for them may have: those that are free and nobody's, and those that the kernel may make beyond
/// the pool, if it finds the memory. 0 for a size that there is not.
pub fn available(size: u64) -> u64 {
    let read = |name: &str| -> u64 {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{name}", size / 1024);
        std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    let pool = read("free_hugepages").saturating_sub(read("resv_hugepages"));
    pool + read("nr_overcommit_hugepages").saturating_sub(read("surplus_hugepages"))
}

/// The sizes of huge pages that there are, in bytes.
pub fn sizes() -> Vec<u64> {
    let all = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let size = |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok();
    all.filter_map(|entry| size(entry.file_name().to_str()?)).map(|kib| kib * 1024).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_agrees() {
        let text = std::fs::read_to_string("/proc/meminfo").expect("there");
        let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        let size = of("Hugepagesize:").and_then(|kib| kib.parse::<u64>().ok()).expect("on x86-64") * 1024;
        let free = of("HugePages_Free:").and_then(|pages| pages.parse::<u64>().ok()).expect("a number");
        let reserved = of("HugePages_Rsvd:").and_then(|pages| pages.parse::<u64>().ok()).expect("a number");
        assert!(super::available(size) >= free - reserved && super::sizes().contains(&size));
        assert_eq!(super::available(12345 * 1024), 0);
    }
}
