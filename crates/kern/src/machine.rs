//! What /proc and /sys tell of a machine as a whole, as text (proc(5), sysfs(5)).

use crate::proc::PROC;

/// What its processors are. On a large machine it is long, and the kernel asks each processor for its frequency.
pub const PROCESSORS: &str = "cpuinfo";

/// The others, by their names in what [`files`] returns. The last three are of processors, as lists of ranges.
pub const FILES: [&str; 7] = ["stat", "meminfo", "loadavg", "vmstat", "online", "present", "possible"];

/// All of them that this machine has. They are made by the kernel at once, and wait for nobody.
pub fn files(processors: bool) -> Vec<(&'static str, Vec<u8>)> {
    let names = FILES.into_iter().chain(processors.then_some(PROCESSORS));
    names.filter_map(|name| Some((name, std::fs::read(path(name)).ok()?))).collect()
}

fn path(name: &str) -> String {
    match name {
        "online" | "present" | "possible" => format!("/sys/devices/system/cpu/{name}"),
        _ => format!("{PROC}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_them() {
        let all = files(true);
        assert_eq!(all.len(), FILES.len() + 1);
        assert!(all.iter().all(|(_, text)| !text.is_empty()));
        assert_eq!(files(false).len(), FILES.len());
    }
}
