//! The sandbox on this kernel, as root. This program is also the daemons' stand-in and the caller of the sandbox.

mod call;
mod standin;
mod terminal;

use call::{kill, run, text, Call};
use libtest_mimic::{Arguments, Trial};
use sandbox::Plan;
use std::ffi::OsString;
use std::process::Stdio;
use std::time::{Duration, Instant};
use vocab::Sig;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(role @ ("front" | "node")) => std::process::exit(standin::run(role, &arguments)),
        Some("sandbox") => std::process::exit(caller(&arguments[2..])),
        Some("fault") => std::process::exit(fault(&arguments[2..])),
        _ => {}
    }
    let mut options = Arguments::from_args();
    // Each makes many processes, and they compare the machine before and after.
    options.test_threads.get_or_insert(1);
    let test = |name: &str, body: fn()| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    };
    let tests = vec![
        test("the_end_is_the_commands", the_end_is_the_commands),
        test("machines_are_apart_and_joined", machines_are_apart_and_joined),
        test("streams_are_the_commands", streams_are_the_commands),
        test("signals_are_passed_on", signals_are_passed_on),
        test("a_daemon_that_fails_is_told_with_its_log", a_daemon_that_fails_is_told_with_its_log),
        test("a_hundred_nodes_in_time", a_hundred_nodes_in_time),
        test("too_many_nodes_are_refused", too_many_nodes_are_refused),
        test("a_killed_caller_leaves_nothing", || killed_parts_leave_nothing(&["caller"])),
        test("a_killed_cluster_leaves_nothing", || killed_parts_leave_nothing(&["shoal:sandbox"])),
        test("a_killed_front_end_leaves_nothing", || killed_parts_leave_nothing(&["shoal:front"])),
        test("a_killed_janitor_leaves_nothing", a_killed_janitor_leaves_nothing),
        test("all_killed_leaves_nothing", || killed_parts_leave_nothing(&["caller", "shoal:sandbox", "shoal:n1"])),
        test("what_even_the_janitor_left_is_swept", what_even_the_janitor_left_is_swept),
        test("kills_at_random_moments_leave_nothing", kills_at_random_moments_leave_nothing),
        test("parts_break_and_mend", parts_break_and_mend),
        test("two_sandboxes_do_not_meet", two_sandboxes_do_not_meet),
        test("a_shell_on_a_terminal_has_job_control", terminal::a_shell_has_job_control),
        test("a_killed_caller_leaves_the_terminal_as_it_was", terminal::a_killed_caller_leaves_it_as_it_was),
        test("redirected_output_is_no_terminal", terminal::redirected_output_is_no_terminal),
    ];
    libtest_mimic::run(&options, tests).exit();
}

/// `sandbox N COMMAND…` as `shoal sandbox -n N -- COMMAND…`.
fn caller(arguments: &[String]) -> i32 {
    let nodes = arguments[0].parse().expect("a number of nodes");
    let command = arguments[1..].iter().map(OsString::from).collect();
    match sandbox::run(Plan {
        nodes,
        command,
        lost_after: None,
        chaos: None,
        logs: None,
        clocks: Default::default(),
        bare: false,
        settings: String::new(),
    }) {
        Ok(exit) => {
            if let vocab::Exit::Killed { sig, .. } = exit {
                kern::signal::suffer(sig).expect("a signal can be raised");
            }
            exit.shell_number()
        }
        Err(fault) => {
            eprintln!("shoal: {fault}");
            1
        }
    }
}

/// `fault MACHINE ACTION` as `shoal fault`.
fn fault(arguments: &[String]) -> i32 {
    match sandbox::control::request(&arguments[0], &arguments[1]) {
        Ok(()) => 0,
        Err(fault) => {
            eprintln!("shoal: {fault}");
            1
        }
    }
}

fn the_end_is_the_commands() {
    assert_eq!(run(1, &["sh", "-c", "exit 7"]).0, 7);
    assert_eq!(run(1, &["sh", "-c", "exit 255"]).0, 255);
    assert_eq!(run(1, &["sh", "-c", "kill -TERM $$"]).0, 143);
    assert_eq!(run(1, &["sh", "-c", "kill -KILL $$"]).0, 137);
    let (status, _, error) = run(0, &["/nonexistent"]);
    assert_eq!((status, error.lines().count()), (127, 1), "{error}");
    assert_eq!(run(0, &["/etc"]).0, 126);
}

fn machines_are_apart_and_joined() {
    let script = "hostname; cat /run/shoal/sandbox/n2.log; ps -e -o comm= | sort -u | tr '\\n' ' '; echo
        ls -A /run; stat -c '%a %U' /run/shoal/key /run/shoal/bin/shoal; command -v shoal; echo x >/dev/shm/x; ps -o pgid=,sid= -p $$
        while read address name; do echo $name; done </etc/hosts; cat /proc/sys/kernel/hostname; ls /sys/fs/cgroup";
    let (status, out, error) = run(3, &["sh", "-c", script]);
    assert_eq!((status, error.as_str()), (0, ""), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..2], ["front", "stand-in node starts"]);
    assert!(lines[2].contains("shoal") && !lines[2].contains("systemd"), "{}", lines[2]);
    assert_eq!(lines[3..8], ["lock", "shoal", "600 root", "755 root", "/run/shoal/bin/shoal"]);
    let ids: Vec<&str> = lines[8].split_whitespace().collect();
    assert!(ids[0] == ids[1] && ids[0] != "0", "a session of its own: {ids:?}");
    assert_eq!(lines[9..14], ["localhost", "front", "n0", "n1", "n2"]);
    assert!(!std::path::Path::new("/dev/shm/x").exists());
}

fn streams_are_the_commands() {
    use std::io::Write;
    let mut call = Call::start_with(1, &["cat"], |command| {
        command.stdin(Stdio::piped());
    });
    let mut input = call.child.stdin.take().expect("a pipe");
    input.write_all(b"there\nand back\n").expect("cat reads");
    assert_eq!(call.line(), "there");
    drop(input);
    assert_eq!(text(&call.end().stdout), "and back\n");
    // When the command closes its output the reader sees the end, although the sandbox is still there.
    let mut call = Call::start_with(1, &["sh", "-c", "echo begun; exec >/dev/null; read wait"], |command| {
        command.stdin(Stdio::piped());
    });
    assert_eq!(call.line(), "begun");
    assert_eq!(call.line(), "");
    call.part("shoal:sandbox");
    drop(call.child.stdin.take());
    call.end();
}

fn signals_are_passed_on() {
    let script = "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let mut call = Call::start(1, &["sh", "-c", script]);
    assert_eq!(call.line(), "ready");
    kill(call.pid(), Sig::TERM);
    let output = call.end();
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(9), "got\n"));
}

fn a_daemon_that_fails_is_told_with_its_log() {
    for who in ["front", "node"] {
        let call = Call::start_with(2, &["true"], |command| {
            command.env("STANDIN_FAILS", who);
        });
        let output = call.end();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(error.lines().count() == 1 && error.contains("fails as it was asked to"), "{error}");
    }
}

fn a_hundred_nodes_in_time() {
    let begun = Instant::now();
    assert_eq!(run(100, &["true"]).0, 0);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

fn too_many_nodes_are_refused() {
    let (status, _, error) = run(101, &["true"]);
    assert_eq!((status, error.lines().count()), (1, 1), "{error}");
}

/// Kills the parts of a running sandbox (`caller`, or the name of a process) with SIGKILL, in this order.
fn killed_parts_leave_nothing(parts: &[&str]) {
    let mut call = Call::start(3, &["sh", "-c", "sleep 1000 & sleep 1000 & echo ready; wait"]);
    assert_eq!(call.line(), "ready");
    let pids: Vec<_> = parts.iter().map(|part| if *part == "caller" { call.pid() } else { call.part(part) }).collect();
    pids.into_iter().for_each(|pid| kill(pid, Sig::KILL));
    let output = call.end();
    assert!(!output.status.success());
}

fn a_killed_janitor_leaves_nothing() {
    let mut call = Call::start_with(2, &["sh", "-c", "echo ready; read wait; exit 3"], |command| {
        command.stdin(Stdio::piped());
    });
    assert_eq!(call.line(), "ready");
    kill(call.part("shoal:janitor"), Sig::KILL);
    drop(call.child.stdin.take());
    assert_eq!(call.end().status.code(), Some(3));
}

fn what_even_the_janitor_left_is_swept() {
    let mut call = Call::start(2, &["sh", "-c", "echo ready; sleep 1000"]);
    assert_eq!(call.line(), "ready");
    kill(call.part("shoal:janitor"), Sig::KILL);
    kill(call.pid(), Sig::KILL);
    call.child.wait().expect("my child");
    call.nothing_left(false);
    assert_eq!(call.cgroups().len(), 1);
    assert_eq!(run(0, &["true"]).0, 0);
    call.nothing_left(true);
}

/// The moments are spread over the whole life of a sandbox, from the first process to the end of the command.
fn kills_at_random_moments_leave_nothing() {
    let life = Duration::from_millis(150);
    let mut seed = std::process::id();
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    for round in 0..40 {
        let mut call = Call::start(4, &["sh", "-c", "sleep 1000 & sleep 1000"]);
        std::thread::sleep(life * random(1000) / 1000);
        let victims: Vec<i32> = call.processes().into_keys().collect();
        if let (false, false) = (victims.is_empty(), [0, 10, 20, 30].contains(&round)) {
            kill(vocab::Pid(victims[random(victims.len() as u32) as usize]), Sig::KILL);
        }
        // If that did not end it (a node, the janitor), the caller does.
        kill(call.pid(), Sig::KILL);
        let _ = call.child.wait();
        call.nothing_left(false);
        drop(call);
    }
    // Whatever cgroup is left when the janitor was the victim goes with the next start.
    let last = Call::start(0, &["true"]);
    last.end();
    let root = kern::cgroup::find_v2().expect("cgroup version 2");
    kern::cgroup::sweep(&root, "shoal-sandbox.").expect("a sweep");
}

fn parts_break_and_mend() {
    let script = "set -e; s=/run/shoal/bin/shoal
        $s fault n1 kill; $s fault n1 boot; cat /run/shoal/sandbox/n1.log
        $s fault n0 kill-daemon; $s fault n0 start-daemon; cat /run/shoal/sandbox/n0.log
        for what in link-down link-up silent heard stop-daemon continue-daemon; do $s fault n0 $what; done
        $s fault n9 kill || echo refused; $s fault n0 boot || echo refused";
    let (status, out, error) = run(2, &["sh", "-c", script]);
    let starts = "stand-in node starts\n".repeat(4);
    assert_eq!((status, out), (0, format!("{starts}refused\nrefused\n")), "{error}");
}

fn two_sandboxes_do_not_meet() {
    let calls: Vec<Call> = (0..2).map(|_| Call::start(2, &["hostname"])).collect();
    for mut call in calls {
        assert_eq!(call.line(), "front");
        // The other one's processes, cgroups and devices are its own: only this one's are looked for.
        assert!(call.child.wait().expect("my child").success());
        assert_eq!(call.cgroups(), Vec::<String>::new());
    }
}
