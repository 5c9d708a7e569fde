//! Linux, typed: one file per kernel facility, and all unsafe code of shoal.
//!
//! Every oddity of the kernel that we met is documented once, where it is wrapped, in this form:
//! `// ODDITY(name): what happens. linux: the function. prog: tests/prog/odd_name.c`

pub mod areas;
mod bpf;
pub mod capability;
pub mod cgroup;
pub mod clock;
pub mod clone;
pub mod cpu;
pub mod disk;
pub mod epoll;
pub mod faultpoint;
pub mod features;
pub mod file_handle;
pub mod fuse;
pub mod huge;
pub mod idle;
mod impatient;
pub mod init;
pub mod inotify;
pub mod lock;
pub mod machine;
pub mod missing;
pub mod mount;
pub mod netlink;
pub mod newborn;
pub mod ns;
pub mod others;
pub mod own;
pub mod pagemap;
pub mod pending;
pub mod perf;
pub mod pidfd;
pub mod poll;
pub mod pool;
pub mod proc;
pub mod ptrace;
pub mod pty;
pub mod ran;
pub mod regain;
pub mod relay;
pub mod remote_memory;
pub mod restart_block;
pub mod rights;
pub mod sched;
pub mod seccomp;
pub mod send_as;
pub mod shared_memory;
pub mod sigio;
pub mod signal;
pub mod sock;
pub mod standin;
pub mod stat;
pub mod subreaper;
pub mod sys;
#[cfg(test)]
pub(crate) mod testing;
pub mod timeline;
pub mod timens;
pub mod trace;
pub mod tty;
pub mod uffd;
pub mod unix_socket;
pub mod view;
pub mod wait;
