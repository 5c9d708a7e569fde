//! What a node does, one scene each.

pub(crate) mod mute;

use crate::front::{person, Front, LEASE};
use vocab::{Exit, Pid, Sig, SigInfo};
use wire::event::BodyEvent;
use wire::hello::Hello;
use wire::node::{KillTarget, ToFront, ToNode};

type Scene = fn();

pub(crate) const ALL: &[(&str, Scene)] = &[
    ("a_program_starts_ends_and_is_reaped", a_program_starts_ends_and_is_reaped),
    ("what_cannot_be_run_is_told_as_a_shell_would", what_cannot_be_run_is_told_as_a_shell_would),
    ("children_have_leased_numbers_and_their_place", children_have_leased_numbers_and_their_place),
    ("a_signal_ends_stops_and_continues", a_signal_ends_stops_and_continues),
    ("a_signal_before_the_start_waits_for_the_program", a_signal_before_the_start),
    ("a_kill_of_somebody_elsewhere_is_asked", a_kill_of_somebody_elsewhere_is_asked),
    ("sessions_groups_and_users_are_told", sessions_groups_and_users_are_told),
    ("a_stand_in_passes_signals_on_and_goes_when_nobody_needs_it", a_stand_in_passes_signals_on),
    ("a_group_leader_may_come_after_its_members", a_group_leader_may_come_after_its_members),
    ("a_stand_in_follows_its_body", a_stand_in_follows_its_body),
    ("a_new_link_within_the_time_loses_nothing", a_new_link_within_the_time_loses_nothing),
    ("leases_follow_each_other_and_are_gone_through_again", leases_follow_each_other),
    ("a_handle_on_somebody_elsewhere_is_a_stand_in", a_handle_on_somebody_elsewhere),
    ("who_ends_before_it_stands_here_is_not_stood_for", who_ends_before_it_stands_here_is_not_stood_for),
    ("a_stand_in_that_does_not_answer_holds_up_nobody_else", mute::holds_up_nobody_else),
    ("what_comes_with_the_first_welcome_is_heard", what_comes_with_the_first_welcome),
    ("questions_go_to_the_front_end_and_answers_come_back", questions_go_to_the_front_end),
    ("an_agent_that_hangs_is_killed_in_time", an_agent_that_hangs_is_killed),
    ("when_beats_stop_everything_dies_and_the_node_joins_again", when_beats_stop_everything_dies),
];

fn signal(front: &mut Front, target: i32, info: SigInfo) {
    front.send(&ToNode::Signal { target: Pid(target), info, thread: None, turn: None });
}

fn a_program_starts_ends_and_is_reaped() {
    let mut front = Front::new("start");
    front.start(5001, &["sh", "-c", "exit 3"]);
    front.event("Started", |e| *e == BodyEvent::Started { pid: Pid(5001) });
    front.event("Named", |e| *e == BodyEvent::Named { pid: Pid(5001), name: b"sh".to_vec() });
    assert_eq!(front.exit(5001), Exit::Code(3));
    // The shell's stand-in has waited for it, which is told of no parent, and so its number is free.
    front.start(5001, &["true"]);
    assert_eq!(front.exit(5001), Exit::Code(0));
    assert!(!front.told.iter().any(|e| matches!(e, BodyEvent::Reaped { .. })), "{:?}", front.told);
    // It is there already.
    front.start(5002, &["sh", "-c", "kill -QUIT $$"]);
    assert_eq!(front.exit(5002), Exit::Killed { sig: Sig::QUIT, core: false });
}

fn what_cannot_be_run_is_told_as_a_shell_would() {
    let mut front = Front::new("fail");
    for (pid, file, want) in
        [(5001, "/no/such", 127), (5002, "nosuchprogram", 127), (5003, "/etc/passwd", 126), (5004, "/", 126)]
    {
        front.start(pid, &[file]);
        let status = front.hear("NotStarted", |said| match said {
            ToFront::NotStarted { pid: p, status, .. } if p.0 == pid => Some(*status),
            _ => None,
        });
        assert_eq!(status, want, "{file}");
    }
    front.shell(5005, "exit 0");
    assert_eq!(front.exit(5005), Exit::Code(0));
    assert!(!front.told.iter().any(|e| (5001..5005).contains(&e.pid().0)), "{:?}", front.told);
}

fn children_have_leased_numbers_and_their_place() {
    let mut front = Front::new("children");
    front.shell(5001, "sleep 1000 & (sleep 1001 & exit 0); wait");
    let child = front.child(5001);
    assert!(child.0 >= 2_000_000, "{child}");
    front.event("Named", |e| *e == BodyEvent::Named { pid: child, name: b"sleep".to_vec() });
    let middle = front.child(5001);
    let orphan = front.child(middle.0);
    front.event("Exited", |e| matches!(e, BodyEvent::Exited { pid, .. } if *pid == middle));
    front.event("Adopted", |e| *e == BodyEvent::Adopted { pid: orphan, ppid: Pid(1) });
    front.event("Reaped", |e| *e == BodyEvent::Reaped { pid: middle });
    signal(&mut front, orphan.0, SigInfo::kill(Sig::TERM, Pid(777), 0));
    let term = Exit::Killed { sig: Sig::TERM, core: false };
    assert_eq!(front.exit(orphan.0), term);
    front.event("Reaped", |e| *e == BodyEvent::Reaped { pid: orphan });
    front.send(&ToNode::Ps { id: 9 });
    let rows = front.hear("PsDone", |said| match said {
        ToFront::PsDone { id: 9, rows } => Some(rows.clone()),
        _ => None,
    });
    let lines: Vec<(i32, i32, &str)> = rows.iter().map(|r| (r.pid.0, r.ppid.0, r.command.as_str())).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[1], (child.0, 5001, "sleep 1000"));
}

/// What comes for a program that has not begun is kept on the node, in its order; of one that does not begin nothing is left.
fn a_signal_before_the_start() {
    let mut front = Front::new("early");
    for (pid, first, exit) in [(5001, Sig::TERM, Sig::TERM), (5002, Sig::STOP, Sig::KILL), (5003, Sig::KILL, Sig::KILL)]
    {
        front.start(pid, &["sleep", "1000"]);
        signal(&mut front, pid, SigInfo::kill(first, Pid(777), 0));
        signal(&mut front, pid, SigInfo::kill(Sig::KILL, Pid(777), 0));
        front.event("Started", |e| *e == BodyEvent::Started { pid: Pid(pid) });
        assert_eq!(front.exit(pid), Exit::Killed { sig: exit, core: false });
    }
    front.start(5004, &["/no/such"]);
    signal(&mut front, 5004, SigInfo::kill(Sig::TERM, Pid(777), 0));
    front.send(&ToNode::Barrier { id: 4, pid: Pid(5004) });
    front.hear("Barrier", |said| matches!(said, ToFront::Barrier { id: 4 }).then_some(()));
    front.start(5004, &["sh", "-c", "exit 3"]);
    assert_eq!(front.exit(5004), Exit::Code(3));
}

fn a_signal_ends_stops_and_continues() {
    let mut front = Front::new("signal");
    front.shell(5001, "trap 'exit 7' USR1; sleep 1000 & while :; do wait; done");
    let child = front.child(5001);
    for pid in [Pid(5001), child] {
        let give = |front: &mut Front, sig, sender, turn| {
            let info = SigInfo::kill(sig, Pid(sender), 0);
            front.send(&ToNode::Signal { target: pid, info, thread: None, turn });
        };
        let mut turns = 0;
        for sender in [5000, 4999] {
            turns += 2;
            give(&mut front, Sig::STOP, sender, Some(turns - 1));
            front.event("Stopped", |e| *e == BodyEvent::Stopped { pid, sig: Sig::STOP, turn: Some(turns - 1) });
            give(&mut front, Sig::CONT, sender, Some(turns));
            front.event("Continued", |e| *e == BodyEvent::Continued { pid, turn: Some(turns) });
            // Every turn is answered, though nothing may have changed.
            turns += 1;
            give(&mut front, Sig::CONT, sender, Some(turns));
            front.event("Continued again", |e| *e == BodyEvent::Continued { pid, turn: Some(turns) });
        }
    }
    signal(
        &mut front,
        child.0,
        SigInfo { sig: Sig::KILL, code: SigInfo::SI_KERNEL, pid: Pid(0), uid: 0, value: 0, count: None },
    );
    // Its parent here may have waited for it before we could look: then nobody else needs to know how it ended.
    front.exit(child.0);
    signal(
        &mut front,
        5001,
        SigInfo { sig: Sig::USR1, code: SigInfo::SI_QUEUE, pid: Pid(77), uid: 5, value: 6, count: None },
    );
    assert_eq!(front.exit(5001), Exit::Code(7));
}

fn a_kill_of_somebody_elsewhere_is_asked() {
    let mut front = Front::new("kill");
    let script = "kill -USR1 4000; a=$?; kill -0 -- -4100; b=$?; kill -0 $$; c=$?; exit $a$b$c";
    front.start(5001, &["bash", "-c", &format!("exec 2>/dev/null; {script}")]);
    for (target, sig, errno) in [(KillTarget::Process(Pid(4000)), 10, 0), (KillTarget::Group(Pid(4100)), 0, 3)] {
        let id = front.hear("Kill", |said| match said {
            ToFront::Kill { id, sender: Pid(5001), target: t, sig: s, .. } if (*t, *s) == (target, sig) => Some(*id),
            _ => None,
        });
        front.send(&ToNode::KillDone { id, errno, left: vec![] });
    }
    assert_eq!(front.exit(5001), Exit::Code(10));
}

fn sessions_groups_and_users_are_told() {
    let mut front = Front::new("groups");
    front.shell(5001, "setsid sh -c 'setpriv --reuid 1234 --clear-groups sleep 1000 & wait' & wait");
    let leader = front.child(5001);
    front.event("Session", |e| *e == BodyEvent::Session { pid: leader });
    let user = front.child(leader.0);
    front.event(
        "Credentials",
        |e| matches!(e, BodyEvent::Credentials { pid, creds } if *pid == user && creds.uid.real == 1234),
    );
    front.start(5002, &["bash", "-c", "set -m; sleep 1000 & wait"]);
    let job = front.child(5002);
    front.event("Group", |e| *e == BodyEvent::Group { pid: job, pgid: job });
}

fn a_stand_in_passes_signals_on() {
    let mut front = Front::new("standin");
    let kin = [person(5000, 1, 5000, 5000, b"bash"), person(4990, 5000, 4990, 5000, b"make")];
    front.start_as(
        person(5001, 4990, 4990, 5000, b"shoal"),
        &[
            "python3",
            "-c",
            "import os, signal, time\nfor pid, sig in (os.getppid(), 10), (5000, 9):\n os.kill(pid, sig)\n \
             signal.pidfd_send_signal(os.pidfd_open(pid), sig)\ntime.sleep(1000)",
        ],
        &kin,
    );
    for (target, sig) in [(4990, Sig::USR1), (5000, Sig::KILL)] {
        // A kill does not go by the stand-in; what comes to it another way, it tells.
        let id = front.hear("Kill", |said| match said {
            ToFront::Kill { id, target: KillTarget::Process(t), sig: s, .. } if t.0 == target && *s == sig.number() => {
                Some(*id)
            }
            _ => None,
        });
        front.send(&ToNode::KillDone { id, errno: 0, left: vec![] });
        front.hear("Signal", |said| match said {
            ToFront::Signal { target: t, info, .. } if t.0 == target && info.sig == sig => Some(()),
            _ => None,
        });
    }
    // The parent ends: the program is an orphan.
    let usage = Default::default();
    front.send(&ToNode::Ended { pid: Pid(4990), exit: Exit::Killed { sig: Sig::USR1, core: false }, usage });
    front.event("Adopted", |e| *e == BodyEvent::Adopted { pid: Pid(5001), ppid: Pid(1) });
    front.send(&ToNode::Ended { pid: Pid(5000), exit: Exit::Killed { sig: Sig::KILL, core: false }, usage });
    signal(&mut front, 5001, SigInfo::kill(Sig::TERM, Pid(5000), 0));
    assert_eq!(front.exit(5001), Exit::Killed { sig: Sig::TERM, core: false });
    front.shell(5002, "exit 0");
    front.exit(5002);
    front.hear("StandInGone", |said| match said {
        ToFront::StandInGone { pid: Pid(5000) } => Some(()),
        _ => None,
    });
}

fn a_stand_in_follows_its_body() {
    let mut front = Front::new("follows");
    let shell = person(5000, 1, 5000, 5000, b"bash");
    let make = person(4990, 5000, 4990, 5000, b"make");
    let script = "want() { for i in 1 2 3 4 5 6 7 8 9; do $1 && return; sleep 0.2; done; exit $2; }
        group() { read a b c d e f g </proc/$PPID/stat; [ $b.$e.$f = '(gmake).4990.4990' ]; }
        user() { grep -q '^Uid:.1234.1234.1234' /proc/$PPID/status && grep -q '^Groups:.77 78' /proc/$PPID/status; }
        want group 3; want user 4; exit 0";
    front.start_as(person(5001, 4990, 5001, 5000, b"shoal"), &["sh", "-c", script], &[shell, make]);
    front.event("Started", |e| *e == BodyEvent::Started { pid: Pid(5001) });
    let mut now = person(4990, 5000, 4990, 4990, b"gmake");
    now.creds = vocab::Creds { uid: vocab::Ids::all(1234), gid: vocab::Ids::all(77), groups: vec![77, 78] };
    // Not a group leader any more before it can lead a session (setsid(2)).
    front.send(&ToNode::StandInIs { person: person(4990, 5000, 5000, 5000, b"make") });
    front.send(&ToNode::StandInIs { person: now });
    assert_eq!(front.exit(5001), Exit::Code(0));
}

/// As in `shoal run a | shoal run b` when b's start is here first.
fn a_group_leader_may_come_after_its_members() {
    let mut front = Front::new("pipeline");
    let shell = person(5000, 1, 5000, 5000, b"bash");
    let started = |front: &mut Front, pid| front.event("Started", |e| *e == BodyEvent::Started { pid: Pid(pid) });
    let member = |pid, group| (person(pid, 5000, group, 5000, b"shoal"), person(group, 5000, group, 5000, b"shoal"));
    let (second, first) = member(5002, 5001);
    front.start_as(second, &["sleep", "1000"], &[shell.clone(), first.clone()]);
    started(&mut front, 5002);
    let script = "read pid name state ppid pgrp sid rest </proc/self/stat; trap 'exit 4' USR1
        [ $pid.$ppid.$pgrp.$sid = 5001.5000.5001.5000 ] && while :; do sleep 0.01; done";
    front.start_as(first, &["sh", "-c", script], std::slice::from_ref(&shell));
    started(&mut front, 5001);
    front.child(5001);
    signal(&mut front, 5001, SigInfo::kill(Sig::USR1, Pid(5000), 0));
    assert_eq!(front.exit(5001), Exit::Code(4));
    // And a leader that cannot be run; its stand-in is gone after that.
    let (second, first) = member(5004, 5003);
    front.start_as(second, &["sleep", "1000"], &[shell.clone(), first.clone()]);
    started(&mut front, 5004);
    front.start_as(first, &["/no/such"], std::slice::from_ref(&shell));
    let status = front.hear("NotStarted", |said| match said {
        ToFront::NotStarted { pid: Pid(5003), status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(status, 127);
    for pid in [5002, 5004] {
        signal(&mut front, pid, SigInfo::kill(Sig::TERM, Pid(5000), 0));
        assert_eq!(front.exit(pid), Exit::Killed { sig: Sig::TERM, core: false });
    }
    assert!(!front.told.iter().any(|e| e.pid().0 == 5003), "{:?}", front.told);
}

fn a_new_link_within_the_time_loses_nothing() {
    let mut front = Front::new("relink");
    front.shell(5001, "sleep 0.3; exit 9");
    let child = front.child(5001);
    front.cut();
    front.welcome();
    let Hello { number, leases, bodies, stand_ins, .. } = front.hello.clone().expect("a Hello");
    assert_eq!((number, leases.len(), stand_ins), (Some(vocab::NodeId(0)), 1, vec![Pid(5000)]));
    let mut pids: Vec<Pid> = bodies.iter().map(|person| person.pid).collect();
    pids.sort_unstable();
    assert_eq!(pids, [Pid(5001), child]);
    assert_eq!(front.exit(5001), Exit::Code(9));
}

fn when_beats_stop_everything_dies() {
    let mut front = Front::new("lost");
    front.life_us = 600_000;
    front.cut();
    front.welcome();
    front.shell(5001, "sleep 4321 & wait");
    let child = front.child(5001);
    front.event("Named", |e| *e == BodyEvent::Named { pid: child, name: b"sleep".to_vec() });
    assert!(running("sleep\x004321"));
    front.beating = false;
    let start = kern::clock::monotonic_us();
    while running("sleep\x004321") {
        assert!(kern::clock::monotonic_us() < start + 5_000_000, "it lives on");
        front.serve(10);
    }
    let took = kern::clock::monotonic_us() - start;
    assert!((400_000..900_000).contains(&took), "{took} us");
    front.beating = true;
    front.welcome();
    let Hello { number, bodies, .. } = front.hello.clone().expect("a Hello");
    assert_eq!((number, bodies.len()), (Some(vocab::NodeId(0)), 0));
    front.shell(5001, "exit 4");
    assert_eq!(front.exit(5001), Exit::Code(4));
}

/// Forks until numbers of the second lease come, and no fork fails on the way.
fn leases_follow_each_other() {
    let mut front = Front::new("leases");
    front.start(5001, &["bash", "-c", "exec 2>&-; for i in {1..1000}; do (:); done; (exit 0) & wait $!; exit $?"]);
    front.hear("LeaseWanted", |said| matches!(said, ToFront::LeaseWanted).then_some(()));
    assert_eq!(front.exit(5001), Exit::Code(0));
    front.shell(5002, "sleep 1000 & wait");
    let child = front.child(5002);
    assert!(child.0 >= 2_000_000 + LEASE, "{child} is not of the second lease");
}

fn a_handle_on_somebody_elsewhere() {
    let mut front = Front::new("handle");
    let script = "import os,sys,select\nsys.stderr=open('/dev/null','w')\nfd=os.pidfd_open(4000)\nos.kill(4002,0)\n\
                  p=select.poll();p.register(fd,1)\nos._exit(5 if p.poll(9000) else 6)";
    front.start(5001, &["python3", "-c", script]);
    front.hear("StandInWanted", |said| matches!(said, ToFront::StandInWanted { pid: Pid(4000) }).then_some(()));
    let kin = wire::node::Kin { person: person(4000, 1, 4000, 4000, b"far"), node: vocab::NodeId(1) };
    front.send(&ToNode::StandIn { kin, others: Vec::new() });
    front.hear("StandInDone", |said| matches!(said, ToFront::StandInDone { pid: Pid(4000), errno: 0 }).then_some(()));
    // Only when it has its handle may the other one end.
    let id = front.hear("Kill", |said| match said {
        ToFront::Kill { id, target: KillTarget::Process(Pid(4002)), .. } => Some(*id),
        _ => None,
    });
    front.send(&ToNode::KillDone { id, errno: 0, left: vec![] });
    front.send(&ToNode::Ended { pid: Pid(4000), exit: Exit::Code(1), usage: Default::default() });
    assert_eq!(front.exit(5001), Exit::Code(5));
    front
        .start(5002, &["python3", "-c", "import os\ntry: os.pidfd_open(4001)\nexcept OSError as e: os._exit(e.errno)"]);
    front.hear("StandInWanted", |said| matches!(said, ToFront::StandInWanted { pid: Pid(4001) }).then_some(()));
    front.send(&ToNode::NoStandIn { pid: Pid(4001), errno: 3 });
    assert_eq!(front.exit(5002), Exit::Code(3));
}

/// While the stand-in of one is made, another that is to stand there too ends, and a third changes its group.
fn who_ends_before_it_stands_here_is_not_stood_for() {
    let mut front = Front::new("queued");
    for pid in [4000, 4001, 4002] {
        let kin = wire::node::Kin { person: person(pid, 1, pid, pid, b"far"), node: vocab::NodeId(1) };
        front.send(&ToNode::StandIn { kin, others: Vec::new() });
    }
    front.send(&ToNode::StandInIs { person: person(4002, 1, 4002, 4002, b"near") });
    front.send(&ToNode::Ended { pid: Pid(4001), exit: Exit::Code(1), usage: Default::default() });
    for (number, wanted) in [(4000, 0), (4001, 3), (4002, 0)] {
        let errno = front.hear("StandInDone", |said| match said {
            ToFront::StandInDone { pid, errno } if *pid == Pid(number) => Some(*errno),
            _ => None,
        });
        assert_eq!(errno, wanted, "of {number}");
    }
    let script = "test ! -e /proc/4001 && test $(cat /proc/4000/comm) = far && test $(cat /proc/4002/comm) = near";
    front.shell(5001, script);
    assert_eq!(front.exit(5001), Exit::Code(0));
}

fn what_comes_with_the_first_welcome() {
    let mut front = Front::saying("breath", &[ToNode::Ps { id: 7 }]);
    front.hear("PsDone", |said| matches!(said, ToFront::PsDone { id: 7, .. }).then_some(()));
}

fn questions_go_to_the_front_end() {
    use wire::ask::{Answer, Ask};
    let mut front = Front::new("ask");
    let fd = kern::sock::unix_connect(&front.dir.join("shoal.sock"), 1_000_000).expect("the node listens");
    let mut client = link::Plain::new(fd);
    client.send(&Ask::Where { pid: Pid(7) }).expect("sent");
    client.flush().expect("flushed");
    let id = front.hear("Ask", |said| match said {
        ToFront::Ask { id, caller, ask: Ask::Where { pid: Pid(7) } } if caller.pid == Pid::NONE => Some(*id),
        _ => None,
    });
    let answer = Answer::Where { pid: Pid(7), node: vocab::NodeId(3), birth: 0 };
    front.send(&ToNode::Answer { id, answer: answer.clone(), last: true });
    let got = loop {
        client.receive().expect("the node answers");
        if let Some(got) = client.next::<Answer>().expect("an answer") {
            break got;
        }
        front.serve(5);
    };
    assert_eq!(got, answer);
}

fn an_agent_that_hangs_is_killed() {
    let mut front = Front::new("hang");
    front.life_us = 600_000;
    front.cut();
    front.welcome();
    front.shell(5001, "sleep 4322 & wait");
    let child = front.child(5001);
    front.event("Named", |e| *e == BodyEvent::Named { pid: child, name: b"sleep".to_vec() });
    let proc = kern::proc::Proc::open("/proc").expect("procfs");
    let node = Pid(front.node.id() as i32);
    let agents = proc.pids().expect("a list").into_iter().filter(|pid| proc.stat(*pid).is_ok_and(|s| s.ppid == node));
    for agent in agents {
        let fd = kern::pidfd::open(agent).expect("the agent");
        kern::pidfd::kill(std::os::fd::AsFd::as_fd(&fd), Sig::STOP).expect("root");
    }
    let start = kern::clock::monotonic_us();
    while running("sleep\x004322") {
        assert!(kern::clock::monotonic_us() < start + 5_000_000, "it lives on");
        front.serve(10);
    }
    front.welcome();
    front.shell(5001, "exit 4");
    assert_eq!(front.exit(5001), Exit::Code(4));
}

fn running(command: &str) -> bool {
    let proc = kern::proc::Proc::open("/proc").expect("procfs");
    let pids = proc.pids().expect("a list");
    pids.into_iter().any(|pid| proc.cmdline(pid, 256).is_ok_and(|line| line.starts_with(command.as_bytes())))
}
