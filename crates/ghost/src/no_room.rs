//! The failure of a machine that makes no more processes.

use vocab::errno::EAGAIN;
use vocab::Fault;

/// `what` was to be done by making a process.
pub fn no_room(errno: i32, what: impl std::fmt::Display) -> Fault {
    let limits = match errno {
        EAGAIN => " (a limit on processes is reached here: pids.max of a control group, RLIMIT_NPROC, kernel.pid_max)",
        _ => "",
    };
    Fault::sys(errno, format!("{what}{limits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_where_it_is_one() {
        let said = no_room(EAGAIN, "make a process that stands for process 33").to_string();
        assert!(said.contains("stands for process 33 (a limit on processes is reached here: pids.max"), "{said}");
        assert!(!no_room(vocab::errno::ENOMEM, "make one").to_string().contains("limit"));
    }
}
