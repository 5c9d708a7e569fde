//! What is in a process's directory of /proc, and who may read it.

/// The directory of what is of all machines.
pub(crate) const ALL_MACHINES: &str = "whole";

/// For how long that is so which is so as long as there is what it is of, in microseconds.
pub(crate) const FOREVER_US: u64 = 1_000_000_000_000;

/// A directory of the tree, as far as what may be in it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// `PID/`
    Process,
    /// `PID/task/`
    Tasks,
    /// `PID/task/TID/`
    Task,
    /// `fd/`, of either.
    Descriptors,
    /// `fdinfo/`, of either.
    Infos,
}

const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// Names and modes. What only those may read who may trace the process natively, others cannot open here.
const NAMES: &[(&str, u32)] = &[
    ("stat", FILE | 0o444),
    ("status", FILE | 0o444),
    ("statm", FILE | 0o444),
    ("cmdline", FILE | 0o444),
    ("comm", FILE | 0o444),
    ("arch_status", FILE | 0o444),
    ("autogroup", FILE | 0o444),
    ("auxv", FILE | 0o400),
    ("cgroup", FILE | 0o444),
    ("coredump_filter", FILE | 0o644),
    ("cpuset", FILE | 0o444),
    ("cwd", LINK | 0o777),
    ("environ", FILE | 0o400),
    ("exe", LINK | 0o777),
    ("fd", DIRECTORY | 0o500),
    ("fdinfo", DIRECTORY | 0o500),
    ("io", FILE | 0o400),
    ("limits", FILE | 0o444),
    ("loginuid", FILE | 0o444),
    ("maps", FILE | 0o400),
    ("mountinfo", FILE | 0o444),
    ("mounts", FILE | 0o444),
    ("mountstats", FILE | 0o400),
    ("numa_maps", FILE | 0o400),
    ("oom_adj", FILE | 0o444),
    ("oom_score", FILE | 0o444),
    ("oom_score_adj", FILE | 0o644),
    ("personality", FILE | 0o400),
    ("root", LINK | 0o777),
    ("sched", FILE | 0o444),
    ("schedstat", FILE | 0o444),
    ("sessionid", FILE | 0o444),
    ("smaps", FILE | 0o400),
    ("smaps_rollup", FILE | 0o400),
    ("stack", FILE | 0o400),
    ("syscall", FILE | 0o400),
    ("task", DIRECTORY | 0o555),
    // Natively everybody may read it, and who may not trace the process reads 0.
    ("wchan", FILE | 0o400),
];
/// Those of them that ps reads of each process, and what it looks for and does not find.
pub(crate) const ALL_READ: &[&str] = &["stat", "status", "cmdline", "environ"];
pub(crate) const NOT_THERE: &[&str] = &["ctty"];
/// Those of them that are nearly always the same.
const LASTING: &[&str] = &["environ", "auxv"];
/// Those of them that are asked for of all bodies of a node at once, if somebody reads them of several: all that is short and no work for the kernel.
const OF_MANY: &[&str] = &[
    "autogroup",
    "auxv",
    "cgroup",
    "cpuset",
    "cwd",
    "environ",
    "exe",
    "fd",
    "fdinfo",
    "io",
    "limits",
    "loginuid",
    "oom_adj",
    "oom_score",
    "oom_score_adj",
    "personality",
    "root",
    "sched",
    "schedstat",
    "sessionid",
    "stack",
    "statm",
    "syscall",
    "task",
    "wchan",
];
/// Those that are a ghost's own, and tell nothing of its memory, where it has no body yet or any more. To read them nobody waits.
const HARMLESS: &[&str] = &[
    "autogroup",
    "cgroup",
    "cpuset",
    "limits",
    "loginuid",
    "mountinfo",
    "mounts",
    "oom_adj",
    "oom_score",
    "oom_score_adj",
    "sched",
    "schedstat",
    "sessionid",
    "statm",
    "task",
];
/// Not of a thread.
const WHOLE: &[&str] = &["task", "autogroup", "coredump_filter", "mountstats"];
const CHILDREN: (&str, u32) = ("children", FILE | 0o444);

impl Place {
    /// All names whose number is always the same, with their modes; of the others nodes tell.
    pub(crate) fn names(self) -> impl Iterator<Item = (&'static str, u32)> {
        let fixed = matches!(self, Place::Process | Place::Task);
        let in_task = self == Place::Task;
        let names = NAMES.iter().copied().filter(move |(name, _)| fixed && !(in_task && WHOLE.contains(name)));
        names.chain(in_task.then_some(CHILDREN))
    }

    /// The mode of a name of these.
    pub(crate) fn mode(self, name: &[u8]) -> Option<u32> {
        self.names().find(|(known, _)| known.as_bytes() == name).map(|(_, mode)| mode)
    }

    /// What the directory of this name in it is.
    pub(crate) fn below(self, name: &[u8]) -> Option<Place> {
        match (self, name) {
            (Place::Process, b"task") => Some(Place::Tasks),
            (Place::Process | Place::Task, b"fd") => Some(Place::Descriptors),
            (Place::Process | Place::Task, b"fdinfo") => Some(Place::Infos),
            (Place::Tasks, _) => Some(Place::Task),
            _ => None,
        }
    }

    /// Are its names told by nodes, and are numbers?
    pub(crate) fn numbered(self) -> bool {
        !matches!(self, Place::Process | Place::Task)
    }
}

/// The name under which this path is asked for of many.
pub(crate) fn of_many(path: &[u8]) -> Option<&'static str> {
    OF_MANY.iter().find(|name| name.as_bytes() == path).copied()
}

/// Is it nearly always the same?
pub(crate) fn lasts(path: &[u8]) -> bool {
    LASTING.iter().any(|name| name.as_bytes() == path)
}

/// Is it shown as the ghost's own, where there is no body?
pub(crate) fn is_harmless(path: &[u8]) -> bool {
    let mut names = path.splitn(3, |byte| *byte == b'/');
    let name = match (names.next(), names.next(), names.next()) {
        (Some(b"task"), Some(_), Some(name)) => name,
        (Some(b"task"), Some(_), None) => b"task",
        _ => path,
    };
    HARMLESS.iter().any(|known| known.as_bytes() == name)
}

/// May only its owner read it, and root?
pub(crate) fn is_guarded(mode: u32) -> bool {
    mode & 0o004 == 0 || is_link(mode)
}

pub(crate) fn is_directory(mode: u32) -> bool {
    mode & 0o170_000 == DIRECTORY
}

pub(crate) fn is_link(mode: u32) -> bool {
    mode & 0o170_000 == LINK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_children_and_no_threads() {
        assert_eq!(Place::Task.mode(b"children"), Some(0o100_444));
        assert_eq!(Place::Process.mode(b"children"), None);
        assert_eq!((Place::Process.mode(b"task"), Place::Task.mode(b"task")), (Some(0o040_555), None));
        assert_eq!(Place::Tasks.mode(b"1"), None);
        assert!(Place::Tasks.numbered() && Place::Descriptors.numbered() && !Place::Task.numbered());
    }

    #[test]
    fn what_a_ghost_has_of_its_own_is_shown_unless_it_is_its_memorys() {
        for (path, harmless) in [
            ("limits", true),
            ("task", true),
            ("task/7", true),
            ("task/7/cgroup", true),
            ("environ", false),
            ("maps", false),
            ("cmdline", false),
            ("task/7/fd/3", false),
        ] {
            assert_eq!(is_harmless(path.as_bytes()), harmless, "{path}");
        }
        assert_eq!((of_many(b"environ"), of_many(b"smaps"), of_many(b"task/7/io")), (Some("environ"), None, None));
        for name in OF_MANY.iter().chain(HARMLESS) {
            assert!(Place::Process.mode(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn what_only_a_tracer_may_read_is_guarded() {
        for (name, guarded) in
            [("environ", true), ("maps", true), ("fd", true), ("exe", true), ("wchan", true), ("stat", false)]
        {
            assert_eq!(Place::Process.mode(name.as_bytes()).map(is_guarded), Some(guarded), "{name}");
        }
    }
}
