#![allow(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]

use super::*;
use crate::testing::in_namespace;

/// Runs `calls` on a thread of its own behind a gate, and answers what arrives there with `answer` until it is done.
fn behind_gate<T: Send>(passes: &Passes, calls: impl FnOnce() -> T + Send, mut answer: impl FnMut(Notice)) -> T {
    let program = Program::new(passes);
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            send.send(install(&program).expect("root may")).expect("the test waits");
            calls()
        });
        let listener = receive.recv().expect("the thread sends it");
        while !thread.is_finished() {
            let mut poll = libc::pollfd { fd: listener.fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd, as the count says; 1 ms so as to see the thread end.
            unsafe { libc::poll(&mut poll, 1, 1) };
            while let Some(notice) = listener.receive().expect("a good listener") {
                answer(notice);
            }
        }
        thread.join().expect("no panic behind the gate")
    })
}

fn kill(pid: i32, sig: i32) -> i32 {
    // SAFETY: numbers only.
    match unsafe { libc::kill(pid, sig) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap_or(-1),
    }
}

#[test]
fn this_kernel_has_what_the_gate_needs() {
    supported().expect("seccomp notifications");
}

#[test]
fn own_pids_pass_and_others_are_asked_about() {
    let me = std::process::id() as i32;
    let passes = Passes { own: vec![me..me + 1, 3_000_000..3_000_010], code: 0..0 };
    let mut seen = Vec::new();
    let got = behind_gate(
        &passes,
        || [kill(me, 0), kill(3_000_009, 0), kill(3_000_010, 0), kill(2_999_999, 0), kill(-3_000_001, 0), kill(-1, 0)],
        |notice| {
            seen.push(notice.call);
            assert!(notice.held.waits());
            assert!(notice.held.answer(if seen.len() == 1 { libc::EXDEV } else { libc::EPERM }));
            assert!(!notice.held.waits());
        },
    );
    assert_eq!(got, [0, libc::ESRCH, libc::EXDEV, libc::EPERM, libc::EPERM, libc::EPERM]);
    let pids = [3_000_010, 2_999_999, -3_000_001, -1];
    assert_eq!(seen, pids.map(|pid| Call::Kill { pid, sig: 0 }));
}

#[test]
fn every_call_of_the_gate_is_recognised_and_goes_on() {
    let mut seen = Vec::new();
    behind_gate(
        &Passes::default(),
        // SAFETY: each call has wrong or harmless arguments; none changes this process.
        || unsafe {
            libc::syscall(libc::SYS_tkill, -5, 3);
            libc::syscall(libc::SYS_tgkill, 7, -6, 3);
            libc::syscall(libc::SYS_rt_sigqueueinfo, 0x3f_ffff, 3, 8);
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, 0x3f_ffff, 0x3f_ffff, 3, 8);
            libc::syscall(libc::SYS_pidfd_open, 0x3f_ffff, 0);
            libc::setpgid(0x3f_ffff, 9);
            libc::syscall(libc::SYS_setfsuid, -1);
            libc::syscall(libc::SYS_setresgid, -1, -1, -1);
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 0);
            libc::prctl(libc::PR_GET_DUMPABLE);
        },
        |notice| {
            seen.push(notice.call);
            notice.held.proceed();
        },
    );
    let far = 0x3f_ffff;
    let want = [
        Call::ThreadKill { tgid: None, tid: -5, sig: 3 },
        Call::ThreadKill { tgid: Some(7), tid: -6, sig: 3 },
        Call::Queue { pid: far, sig: 3 },
        Call::ThreadQueue { tgid: far, tid: far, sig: 3 },
        Call::PidfdOpen { pid: far, flags: 0 },
        Call::SetPgid { pid: far, pgid: 9 },
        Call::SetIds,
        Call::SetIds,
        Call::Subreaper { on: false },
    ];
    assert_eq!(seen, want);
}

#[test]
fn only_who_reads_the_usage_of_children_is_asked_about() {
    let mut seen = Vec::new();
    let got = behind_gate(
        &Passes::default(),
        // SAFETY: the results are live, or null; nobody is waited for. Any child (-1) would be that of another
        // test of this process as well.
        || unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            let mut ticks: libc::tms = std::mem::zeroed();
            let nobody = i32::MAX;
            let (at, none) = (&raw mut usage, std::ptr::null_mut::<libc::rusage>());
            let quiet = [
                libc::getrusage(libc::RUSAGE_SELF, at).into(),
                libc::getrusage(libc::RUSAGE_THREAD, at).into(),
                libc::syscall(libc::SYS_wait4, nobody, 0, 0, none),
                libc::syscall(libc::SYS_waitid, libc::P_PID, nobody, 0, libc::WEXITED, none),
                int80(114, nobody, 0).into(),
            ];
            let asked = [
                libc::getrusage(libc::RUSAGE_CHILDREN, at).into(),
                libc::times(&mut ticks).min(0),
                libc::syscall(libc::SYS_wait4, nobody, 0, 0, at),
                libc::syscall(libc::SYS_waitid, libc::P_PID, nobody, 0, libc::WEXITED, at),
                int80(77, libc::RUSAGE_CHILDREN, 0).into(),
            ];
            (quiet, asked)
        },
        |notice| {
            let Call::Reads { of, .. } = notice.call else { panic!("{notice:?}") };
            seen.push(of);
            notice.held.proceed();
        },
    );
    let (echild, efault) = (-i64::from(libc::ECHILD), -i64::from(libc::EFAULT));
    assert_eq!(got, ([0, 0, -1, -1, echild], [0, 0, -1, -1, efault]));
    assert_eq!(seen, [Reads::Children, Reads::Times, Reads::Wait4, Reads::Waitid { info: 0 }, Reads::Children]);
}

/// A call in the i386 way from 64-bit code.
fn int80(number: u32, a: i32, b: i32) -> i32 {
    let result: i64;
    // SAFETY: kill with numbers only; rbx, which the compiler keeps for itself, is put back.
    unsafe {
        std::arch::asm!("xchg rbx, {a}", "int 0x80", "xchg rbx, {a}", a = inout(reg) i64::from(a) => _,
            inout("rax") i64::from(number) => result, in("rcx") i64::from(b), in("rdx") 0i64, in("rsi") 0i64,
            in("rdi") 0i64, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    result as i32
}

#[test]
fn i386_calls_are_seen_and_x32_calls_do_not_exist() {
    let mut seen = Vec::new();
    let x32 = behind_gate(
        &Passes { own: vec![3_000_000..3_000_010], code: 0..0 },
        || {
            assert_eq!(int80(37, 3_000_001, 0), -libc::ESRCH);
            assert_eq!(int80(37, 4711, 0), -libc::EXDEV);
            // SAFETY: a number that no system call has.
            let ret = unsafe { libc::syscall(0x4000_0000 + libc::SYS_getpid) };
            (ret, std::io::Error::last_os_error().raw_os_error())
        },
        |notice| {
            seen.push(notice.call);
            notice.held.answer(libc::EXDEV);
        },
    );
    assert_eq!(x32, (-1, Some(libc::ENOSYS)));
    assert_eq!(seen, [Call::Kill { pid: 4711, sig: 0 }]);
}

#[test]
fn the_code_of_stand_ins_is_not_asked_about() {
    let mut asked = 0;
    let here = libc::kill as *const () as usize as u64;
    let passes = Passes { own: vec![], code: here..here + 0x100 };
    let got = behind_gate(
        &passes,
        || kill(3_999_999, 0),
        |notice| {
            asked += 1;
            notice.held.proceed();
        },
    );
    assert_eq!((got, asked), (libc::ESRCH, 0));
}

#[test]
fn a_killed_caller_no_longer_waits_and_blocks_nobody() {
    in_namespace(|_| {
        // SAFETY: the child makes two calls and never returns into the test.
        let child = unsafe { libc::fork() };
        if child == 0 {
            child_behind_a_gate();
        }
        let fd = loop {
            let pidfd = crate::pidfd::open(Pid(child)).expect("my child");
            match crate::pidfd::getfd(pidfd.as_fd(), 100) {
                Ok(fd) => break fd,
                Err(_) => std::thread::yield_now(),
            }
        };
        let gate = Listener::from_fd(fd);
        let notice = loop {
            match gate.receive().expect("a good listener") {
                Some(notice) => break notice,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!((notice.tid, notice.call), (Pid(child), Call::Kill { pid: 4711, sig: 0 }));
        assert_eq!(kill(child, libc::SIGKILL), 0);
        crate::wait::ended(Pid(child)).expect("my child");
        assert!(!notice.held.waits());
        assert!(!notice.held.proceed());
        assert!(gate.receive().expect("a good listener").is_none());
    });
}

fn child_behind_a_gate() -> ! {
    let gate = install(&Program::new(&Passes::default())).expect("root may");
    // SAFETY: numbers only; the copy at 100 is where the test fetches it.
    unsafe { libc::dup2(gate.fd().as_raw_fd(), 100) };
    kill(4711, 0);
    // SAFETY: ends this process.
    unsafe { libc::_exit(1) }
}
