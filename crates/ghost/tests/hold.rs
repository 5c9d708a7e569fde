//! The hold protocol on the real kernel: stand-ins made by this test, signalled, caught, ended, waited for.

use ghost::{Command, Ghosts, Happened, Name};
use std::time::{Duration, Instant};
use vocab::{Pid, Sig};

/// The signal handler knows one region of slots in a process (as every daemon and every `shoal run` has), so one stand at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

struct Stand {
    _alone: std::sync::MutexGuard<'static, ()>,
    ghosts: Ghosts,
    first: Pid,
    dir: std::path::PathBuf,
    seen: Vec<Happened>,
}

impl Stand {
    fn new(name: &str) -> Stand {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let dir = std::env::temp_dir().join(format!("shoal-hold-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a scratch directory");
        let mut ghosts = Ghosts::mount(&dir).expect("FUSE, as root");
        let slots = kern::standin::here::Slots::reserve(128, 64).expect("room");
        let name = Name::new(b"shoal:first");
        let first = ghosts.make_first(&dir.join("hold"), slots, Pid::NONE, name).expect("clone");
        let mut stand = Stand { _alone: alone, ghosts, first, dir, seen: Vec::new() };
        stand.until(|h| matches!(h, Happened::Held { pid } if *pid == first));
        stand
    }

    /// Serves until something happens that fits, and returns it.
    fn until(&mut self, fits: impl Fn(&Happened) -> bool) -> Happened {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            if let Some(at) = self.seen.iter().position(&fits) {
                return self.seen.remove(at);
            }
            assert!(Instant::now() < deadline, "it did not happen; seen: {:?}", self.seen);
            kern::pending::wait_readable(self.ghosts.fd(), 20);
            self.ghosts.read(64, &mut self.seen).expect("the mount lives");
            self.ghosts.acknowledge(0);
        }
    }

    fn done(&mut self, pid: Pid, command: Command) -> (i64, [i64; 4]) {
        self.ghosts.command(pid, command);
        let done = self.until(|h| matches!(h, Happened::Done { pid: p, .. } if *p == pid));
        let Happened::Done { outcome, .. } = done else { unreachable!("it was matched") };
        (outcome.ret, outcome.out)
    }

    fn child(&mut self) -> Pid {
        let (ret, _) =
            self.done(self.first, Command::Clone { pid: Pid::NONE, sibling: false, name: Name::new(b"shoal:child") });
        assert!(ret > 0, "{ret}");
        let child = Pid(ret as i32);
        self.until(|h| matches!(h, Happened::Held { pid } if *pid == child));
        child
    }

    /// The first stand-in sends it. (A program run for this would wait for us: its exec closes the hold file.)
    fn kill(&mut self, target: Pid, sig: Sig) {
        assert_eq!(self.done(self.first, Command::Kill { target, sig: sig.number() }).0, 0);
    }

    fn wait(&mut self, pid: Pid) -> i64 {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let (ret, out) = self.done(self.first, Command::Wait { pid, options: libc_wnohang() });
            if ret == i64::from(pid.0) {
                return out[0];
            }
            assert!(ret == 0 && Instant::now() < deadline, "wait {pid}: {ret}");
        }
    }
}

fn libc_wnohang() -> i32 {
    1
}

impl Drop for Stand {
    fn drop(&mut self) {
        // The stand-ins end once their device is closed, after this; the mount can go now (by a thread, for the same reason as `kill`).
        let dir = self.dir.clone();
        let unmount = std::thread::spawn(move || std::process::Command::new("umount").arg("-l").arg(&dir).status());
        while !unmount.is_finished() {
            kern::pending::wait_readable(self.ghosts.fd(), 20);
            let _ = self.ghosts.read(64, &mut self.seen);
            self.ghosts.acknowledge(0);
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}

#[test]
fn a_signal_is_handed_over_with_its_sender_and_the_end_is_as_told() {
    let mut stand = Stand::new("signal");
    let child = stand.child();
    assert_eq!(std::fs::read_to_string(format!("/proc/{child}/comm")).expect("alive"), "shoal:child\n");
    stand.kill(child, Sig::TERM);
    let Happened::Signal { info, .. } = stand.until(|h| matches!(h, Happened::Signal { pid, .. } if *pid == child))
    else {
        unreachable!("it was matched")
    };
    assert_eq!((info.sig, info.code, info.uid), (Sig::TERM, 0, 0));
    stand.ghosts.command(child, Command::Die { sig: Sig::TERM, core: false });
    stand.until(|h| matches!(h, Happened::Gone { pid } if *pid == child));
    assert_eq!(stand.wait(child), 15);
}

#[test]
fn of_many_that_are_signalled_at_once_those_that_end_need_no_acknowledgement() {
    let mut stand = Stand::new("many");
    assert_eq!(stand.done(stand.first, Command::Setpgid { pid: Pid::NONE, pgid: Pid::NONE }).0, 0);
    let children: Vec<Pid> = (0..80).map(|_| stand.child()).collect();
    let group = Pid(-stand.first.0);
    stand.ghosts.command(stand.first, Command::Kill { target: group, sig: Sig::INT.number() });
    let signalled = |h: &Happened| matches!(h, Happened::Signal { .. });
    let deadline = Instant::now() + Duration::from_secs(5);
    while stand.seen.iter().filter(|h| signalled(h)).count() < children.len() + 1 {
        assert!(Instant::now() < deadline, "all are signalled; seen: {:?}", stand.seen);
        kern::pending::wait_readable(stand.ghosts.fd(), 20);
        stand.ghosts.read(64, &mut stand.seen).expect("the mount lives");
    }
    stand.seen.clear();
    let (one, other) = (children[10], children[20]);
    stand.kill(one, Sig::USR1);
    stand.ghosts.command(other, Command::Die { sig: Sig::INT, core: false });
    stand.until(|h| matches!(h, Happened::Gone { pid } if *pid == other));
    assert_eq!(stand.wait(other), 2);
    // What comes next does not wait for it either.
    stand.until(|h| matches!(h, Happened::Signal { pid, info } if *pid == one && info.sig == Sig::USR1));
    assert!(stand.ghosts.acknowledge_at().is_some());
    stand.ghosts.acknowledge(u64::MAX);
    assert!(stand.ghosts.acknowledge_at().is_none());
    assert_eq!(stand.done(one, Command::Setsid).0, i64::from(one.0));
    assert!(!stand.seen.iter().any(signalled), "nothing is handed over twice: {:?}", stand.seen);
}

#[test]
fn of_an_address_space_nothing_is_kept_when_its_last_stand_in_has_ended() {
    let mut stand = Stand::new("spaces");
    let child = stand.child();
    assert_eq!(stand.ghosts.address_spaces(), 1);
    for pid in [stand.first, child] {
        stand.ghosts.command(pid, Command::Exit(0));
        stand.until(|h| matches!(h, Happened::Gone { pid: p } if *p == pid));
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while stand.ghosts.address_spaces() > 0 {
        assert!(Instant::now() < deadline, "its file is closed");
        kern::pending::wait_readable(stand.ghosts.fd(), 20);
        stand.ghosts.read(64, &mut stand.seen).expect("the mount lives");
    }
}

#[test]
fn sigkill_waits_for_the_daemon_twice() {
    let mut stand = Stand::new("kill");
    let child = stand.child();
    stand.kill(child, Sig::KILL);
    stand.until(|h| matches!(h, Happened::Caught { pid, signals } if *pid == child && signals.has(Sig::KILL)));
    assert!(std::path::Path::new(&format!("/proc/{child}")).exists());
    stand.ghosts.interrupt(child);
    stand.until(|h| matches!(h, Happened::Dying { pid } if *pid == child));
    let mut happened = Vec::new();
    stand.ghosts.release(child, &mut happened);
    assert!(matches!(happened[..], [Happened::Gone { pid }] if pid == child));
    assert_eq!(stand.wait(child), 9);
}

#[test]
fn an_exit_code_a_stop_and_a_continue() {
    let mut stand = Stand::new("stop");
    let child = stand.child();
    // Not SIGTSTP: in an orphaned group, as a test may well be in, the kernel ignores it.
    stand.ghosts.command(child, Command::Stop(Sig::STOP));
    let deadline = Instant::now() + Duration::from_secs(5);
    while kern::pending::read(child).map(|p| p.state) != Some(b'T') {
        stand.ghosts.read(64, &mut stand.seen).expect("the mount lives");
        assert!(Instant::now() < deadline, "it did not stop");
    }
    stand.kill(child, Sig::CONT);
    stand.until(|h| matches!(h, Happened::Signal { pid, info } if *pid == child && info.sig == Sig::CONT));
    stand.ghosts.command(child, Command::Exit(200));
    assert_eq!(stand.wait(child), 200 << 8);
}

#[test]
fn a_thousand_queued_signals_come_complete_and_in_order() {
    let mut stand = Stand::new("queue");
    let (sender, target) = (stand.child(), stand.child());
    for value in 0..1000 {
        stand.ghosts.command(sender, Command::Queue { target, sig: 36, code: -1, value });
    }
    for value in 0..1000u64 {
        let Happened::Signal { info, .. } =
            stand.until(|h| matches!(h, Happened::Signal { pid, .. } if *pid == target))
        else {
            unreachable!("it was matched")
        };
        assert_eq!((info.value, info.pid, info.code), (value, sender, -1));
    }
}

/// In a process that [`a_server_that_is_killed_while_it_makes_its_first_stand_in_ends`] starts: makes it, once it has said so.
#[test]
fn makes_its_first_stand_in() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(std::path::PathBuf::from) else { return };
    let mut ghosts = Ghosts::mount(&dir).expect("FUSE, as root");
    let slots = kern::standin::here::Slots::reserve(128, 64).expect("room");
    println!("\nnow");
    ghosts.make_first(&dir.join("hold"), slots, Pid::NONE, Name::new(b"shoal:first")).expect("clone");
    let mut seen = Vec::new();
    loop {
        kern::pending::wait_readable(ghosts.fd(), 1000);
        ghosts.read(64, &mut seen).expect("the mount lives");
    }
}

const DIRECTORY: &str = "SHOAL_TEST_HOLD_DIRECTORY";

#[test]
#[expect(clippy::zombie_processes, reason = "it is waited for until it has ended")]
fn a_server_that_is_killed_while_it_makes_its_first_stand_in_ends() {
    use std::io::BufRead;
    let dir = std::env::temp_dir().join(format!("shoal-hold-{}-killed", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a scratch directory");
    for round in 0..60u64 {
        let mut server = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "makes_its_first_stand_in", "--nocapture"])
            .env(DIRECTORY, &dir)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("this test");
        let said = std::io::BufReader::new(server.stdout.take().expect("piped")).lines();
        assert!(said.map_while(Result::ok).any(|line| line == "now"), "it has begun");
        let killed_at = Instant::now() + Duration::from_micros(20 * round);
        while Instant::now() < killed_at {}
        server.kill().expect("my child");
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut ended = false;
        while !ended && Instant::now() < deadline {
            std::thread::yield_now();
            ended = server.try_wait().expect("my child").is_some();
        }
        if !ended {
            // Or it would be there for ever.
            let number = kern::stat::known(&dir).expect("mounted").dev.1;
            std::fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1").expect("fusectl");
        }
        let unmounted = std::process::Command::new("umount").arg("-l").arg(&dir).status();
        assert!(unmounted.expect("umount").success());
        assert!(ended, "killed {} us after it began, it has not ended", 20 * round);
    }
    std::fs::remove_dir(&dir).expect("it is empty");
}
