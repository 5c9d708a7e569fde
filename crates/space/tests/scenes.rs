//! Scenes that the naive model does not play: several copies, restarts, kill of all, a storm of forks.

use space::{BodyEvent, Command, Effect, Event, KillTarget, Person, Space, Usage};
use vocab::{Creds, Exit, Ids, NodeId, Pid, Sig, SigInfo, SigSet};

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);

fn person(pid: i32, ppid: i32, pgid: i32, uid: u32) -> Person {
    let creds = Creds { uid: Ids::all(uid), gid: Ids::all(uid), groups: vec![] };
    Person { pid: Pid(pid), ppid: Pid(ppid), pgid: Pid(pgid), sid: Pid(100), creds, name: b"prog".to_vec() }
}

fn step(space: &mut Space, event: Event) -> Vec<Effect> {
    let mut effects = Vec::new();
    space.step(event, &mut effects);
    space.audit().expect("the invariants hold");
    effects.retain(|e| !matches!(e, Effect::Transition(_)));
    effects
}

fn body(space: &mut Space, node: NodeId, event: BodyEvent) -> Vec<Effect> {
    step(space, Event::Body { node, event })
}

fn exited(pid: i32, exit: Exit) -> BodyEvent {
    BodyEvent::Exited { pid: Pid(pid), exit, usage: Usage::default() }
}

fn ghost(pid: i32, command: Command) -> Effect {
    Effect::Ghost { pid: Pid(pid), command }
}

/// Two nodes, and `uids.len()` programs of the shell 100, on nodes 0 and 1 in turn, with PIDs from 200.
fn running(uids: &[u32]) -> Space {
    let mut space = Space::new();
    step(&mut space, Event::NodeUp { node: N0 });
    step(&mut space, Event::NodeUp { node: N1 });
    for (i, uid) in uids.iter().enumerate() {
        let pid = 200 + i as i32;
        let to = NodeId(i as i32 % 2);
        let kin = vec![person(100, 1, 100, 0)];
        step(&mut space, Event::Run { person: person(pid, 100, pid, *uid), at: NodeId::FRONT, to, kin });
        step(&mut space, Event::Held { pid: Pid(pid) });
        body(&mut space, to, BodyEvent::Started { pid: Pid(pid) });
    }
    space
}

#[test]
fn several_copies_end_as_the_worst_of_them() {
    let mut space = running(&[]);
    let many = Event::RunMany { parent: person(300, 100, 300, 7), to: vec![N0, N1], kin: vec![person(100, 1, 100, 0)] };
    step(&mut space, many);
    let clone = ghost(300, Command::Clone { pid: Pid::NONE, orphan: false });
    assert_eq!(step(&mut space, Event::Held { pid: Pid(300) }), [clone.clone(), clone]);
    for (pid, node) in [(301, N0), (302, N1)] {
        let effects = step(&mut space, Event::Done { pid: Pid(300), result: Ok(pid) });
        assert!(matches!(&effects[..], [Effect::Start { node: n, copy, kin, .. }, ..]
            if *n == node && *copy == Some((pid - 301) as u32) && kin.len() == 2));
        step(&mut space, Event::Held { pid: Pid(pid) });
        body(&mut space, node, BodyEvent::Started { pid: Pid(pid) });
    }
    let term = SigInfo::kill(Sig::TERM, Pid(100), 0);
    assert_eq!(step(&mut space, Event::Signalled { pid: Pid(300), info: term }).len(), 2);
    let first = body(&mut space, N0, exited(301, Exit::Code(3)));
    assert!(first.contains(&ghost(301, Command::Exit(3))));
    let killed = Exit::Killed { sig: Sig::TERM, core: false };
    let before = space.newest();
    let last = body(&mut space, N1, exited(302, killed));
    assert!(last.contains(&ghost(300, Command::Die { sig: Sig::TERM, core: false })));
    for pid in [301, 302] {
        step(&mut space, Event::Gone { pid: Pid(pid) });
    }
    assert_eq!(
        space.unshown(before + 1..=space.newest()).next(),
        None,
        "it ends when it has written their output, which waits for this"
    );
    step(&mut space, Event::Gone { pid: Pid(300) });
    assert_eq!((space.len(), space.open_steps()), (1, 0));
}

#[test]
fn a_copy_that_could_not_be_cloned_is_told() {
    let mut space = running(&[]);
    step(&mut space, Event::RunMany { parent: person(300, 100, 300, 7), to: vec![N0], kin: vec![] });
    step(&mut space, Event::Held { pid: Pid(300) });
    let effects = step(&mut space, Event::Done { pid: Pid(300), result: Err(11) });
    let expected = Effect::NotCloned { parent: Pid(300), copy: 0, errno: 11 };
    let kept = Effect::Copies { parent: Pid(300), worst: Exit::Code(125), copies: Some(vec![]) };
    assert_eq!(effects, [expected, kept, ghost(300, Command::Exit(125))]);
}

#[test]
fn kill_of_all_goes_by_permission() {
    let mut space = running(&[7, 8, 7]);
    let ask = |sender, sig| Event::KillAsked { node: N0, id: 1, sender: Pid(sender), target: KillTarget::All, sig };
    let effects = step(&mut space, ask(200, 15));
    let info = SigInfo::kill(Sig::TERM, Pid(200), 7);
    let signal = Effect::Signal { node: N0, target: Pid(202), info, thread: None, turn: None };
    assert_eq!(effects, [signal, Effect::KillDone { node: N0, id: 1, errno: 0 }]);
    assert_eq!(step(&mut space, ask(201, 0)), [Effect::KillDone { node: N0, id: 1, errno: 0 }], "nobody it may signal");
    assert_eq!(step(&mut running(&[7]), ask(200, 15)), [Effect::KillDone { node: N0, id: 1, errno: 0 }]);
    assert_eq!(step(&mut space, ask(200, 65)), [Effect::KillDone { node: N0, id: 1, errno: 22 }]);
}

#[test]
fn kill_of_a_group_that_is_of_the_front_end_is_answered_there() {
    let mut space = running(&[7, 8, 7]);
    let ask =
        |pgid| Event::KillAsked { node: N0, id: 1, sender: Pid(200), target: KillTarget::Group(Pid(pgid)), sig: 15 };
    let info = SigInfo::kill(Sig::TERM, Pid(200), 7);
    let natives = |pgid, but, errno| Effect::SignalNatives {
        node: N0,
        id: 1,
        pgid: Pid(pgid),
        but,
        sender: person(200, 100, 200, 7),
        info: Some(info),
        errno,
    };
    assert_eq!(step(&mut space, ask(100)), [natives(100, vec![Pid(100)], 3)], "the shell's, which stands on the node");
    assert_eq!(step(&mut space, ask(999)), [natives(999, vec![], 3)], "one that nobody here knows");
    assert_eq!(step(&mut space, ask(201)), [natives(201, vec![], 1)], "a job that may have other members");
    body(&mut space, N0, BodyEvent::Forked { parent: Pid(202), child: Pid(300) });
    body(&mut space, N0, BodyEvent::Group { pid: Pid(300), pgid: Pid(300) });
    assert_eq!(step(&mut space, ask(300)), [Effect::KillDone { node: N0, id: 1, errno: 3 }], "the node's own");
}

#[test]
fn a_setuid_program_is_safe_before_its_ghost_has_followed() {
    let mut space = running(&[7]);
    let creds = person(0, 0, 0, 0).creds;
    body(&mut space, N0, BodyEvent::Credentials { pid: Pid(200), creds });
    let from =
        |code, pid, sig| Event::Signalled { pid: Pid(200), info: SigInfo { code, ..SigInfo::kill(sig, Pid(pid), 7) } };
    assert_eq!(step(&mut space, from(SigInfo::SI_USER, 999, Sig::TERM)), []);
    assert_eq!(step(&mut space, from(SigInfo::SI_USER, 100, Sig::CONT)).len(), 1, "same session");
    assert_eq!(step(&mut space, from(SigInfo::SI_KERNEL, 0, Sig::INT)).len(), 1, "the terminal");
    assert_eq!(step(&mut space, from(1, 201, Sig::CHLD)), [], "a ghost's own child");
}

#[test]
fn after_a_restart_both_sides_find_together() {
    let mut space = Space::new();
    for pid in [200, 201, 202] {
        let ppid = if pid == 200 { 100 } else { 200 };
        step(&mut space, Event::GhostFound { person: person(pid, ppid, 200, 7), stopped: false });
    }
    // 201 has another group by now, 202 has ended, 203 is new, 204 belongs to nobody.
    let bodies =
        vec![person(204, 999, 204, 7), person(203, 201, 201, 7), person(201, 200, 201, 7), person(200, 100, 200, 7)];
    let natives = vec![person(100, 1, 100, 0)];
    let effects = step(
        &mut space,
        Event::NodeBack {
            node: N0,
            bodies,
            stand_ins: vec![Pid(100)],
            natives,
            subreapers: vec![Pid(200)],
            starting: vec![],
        },
    );
    assert!(effects.contains(&ghost(201, Command::Setpgid(Pid(201)))));
    assert!(effects.contains(&ghost(201, Command::Clone { pid: Pid(203), orphan: false })));
    assert!(effects
        .iter()
        .any(|e| matches!(e, Effect::Signal { target: Pid(204), info, .. } if info.sig == Sig::KILL)));
    let effects = step(&mut space, Event::Settled);
    assert_eq!(effects.iter().filter(|e| matches!(e, Effect::Ghost { pid: Pid(202), .. })).count(), 1);
    assert_eq!(space.iter().filter(|v| v.node == N0 && v.ended.is_none()).count(), 3);
    let ended = step(&mut space, Event::NativeEnded { pid: Pid(100), exit: None });
    assert!(matches!(ended[..], [Effect::EndStandIn { node: N0, pid: Pid(100), .. }]));
}

#[test]
fn what_was_to_start_and_went_with_the_link_is_told_as_not_started() {
    let mut space = running(&[]);
    for pid in [200, 201, 202] {
        let to = if pid == 202 { N1 } else { N0 };
        step(&mut space, Event::Run { person: person(pid, 100, pid, 7), at: NodeId::FRONT, to, kin: vec![] });
        step(&mut space, Event::Held { pid: Pid(pid) });
    }
    let (bodies, stand_ins, natives, subreapers) = (vec![], vec![], vec![], vec![]);
    let back = Event::NodeBack { node: N0, bodies, stand_ins, natives, subreapers, starting: vec![Pid(201)] };
    let effects = step(&mut space, back);
    assert!(effects.contains(&Effect::NotStarted { node: N0, pid: Pid(200) }), "{effects:?}");
    assert!(effects.contains(&ghost(200, Command::Exit(125))), "{effects:?}");
    assert!(effects.iter().all(|effect| !matches!(effect, Effect::Ghost { pid: Pid(201 | 202), .. })), "{effects:?}");
}

#[test]
fn a_node_that_is_back_is_told_of_those_that_stand_there() {
    let mut space = running(&[7, 7, 7]);
    // 201 and its child 301, a program on node 0, have stood there; so has 203 for whom nobody knows.
    body(&mut space, N1, BodyEvent::Forked { parent: Pid(201), child: Pid(301) });
    step(&mut space, Event::Held { pid: Pid(301) });
    let at_home = person(301, 201, 201, 7);
    step(&mut space, Event::Run { person: at_home, at: N1, to: N0, kin: vec![] });
    body(&mut space, N0, BodyEvent::Started { pid: Pid(301) });
    body(&mut space, N0, exited(301, Exit::Code(5)));
    let back = |stand_ins: &[i32]| Event::NodeBack {
        node: N1,
        bodies: vec![person(201, 100, 201, 7)],
        stand_ins: stand_ins.iter().map(|pid| Pid(*pid)).collect(),
        natives: vec![],
        subreapers: vec![],
        starting: vec![],
    };
    let effects = step(&mut space, back(&[301, 203]));
    let ends = Effect::EndStandIn { node: N1, pid: Pid(301), exit: Exit::Code(5), usage: Usage::default() };
    assert_eq!(effects, [ends]);
    body(&mut space, N0, BodyEvent::Stopped { pid: Pid(200), sig: Sig::TSTP, turn: None });
    let effects = step(&mut space, back(&[200, 202]));
    let is = |pid| Effect::StandInIs { node: N1, person: person(pid, 100, pid, 7) };
    let stops = Effect::StopStandIn { node: N1, pid: Pid(200), sig: Sig::TSTP, turn: None };
    let goes_on = Effect::ContinueStandIn { node: N1, pid: Pid(202), turn: None };
    assert_eq!(effects, [is(200), stops, is(202), goes_on]);
}

#[test]
fn several_copies_outlive_a_restart() {
    let mut space = Space::new();
    // 301 has ended before, with 3; 303 is a copy whose node will not come back; 299 was a child before its parent was `shoal run`.
    for (pid, ppid) in [(302, 300), (300, 100), (303, 300), (299, 300)] {
        step(&mut space, Event::GhostFound { person: person(pid, ppid, 300, 7), stopped: false });
    }
    let copies = Some([301, 302, 303].map(Pid).to_vec());
    assert_eq!(step(&mut space, Event::CopiesFound { parent: Pid(300), worst: Exit::Code(3), copies }), []);
    let bodies = vec![person(302, 300, 300, 7), person(299, 300, 300, 7)];
    step(
        &mut space,
        Event::NodeBack {
            node: N1,
            bodies,
            stand_ins: vec![Pid(300)],
            natives: vec![],
            subreapers: vec![],
            starting: vec![],
        },
    );
    let term = SigInfo::kill(Sig::TERM, Pid(100), 0);
    let signal = Effect::Signal { node: N1, target: Pid(302), info: term, thread: None, turn: None };
    assert_eq!(step(&mut space, Event::Signalled { pid: Pid(300), info: term }), [signal]);
    body(&mut space, N1, exited(302, Exit::Killed { sig: Sig::TERM, core: false }));
    step(&mut space, Event::Gone { pid: Pid(302) });
    let die = |sig| Command::Die { sig, core: false };
    let effects = step(&mut space, Event::Settled);
    let ends = [ghost(303, die(Sig::KILL)), ghost(300, die(Sig::TERM))];
    assert!(ends.iter().all(|end| effects.contains(end)), "{effects:?}");
    for pid in [303, 300] {
        step(&mut space, Event::Gone { pid: Pid(pid) });
    }
    body(&mut space, N1, exited(299, Exit::Code(9)));
    step(&mut space, Event::Gone { pid: Pid(299) });
    assert_eq!((space.len(), space.open_steps()), (0, 0));
}

#[test]
fn a_child_from_before_its_parent_was_the_parent_of_copies_is_none_of_them() {
    let mut space = running(&[]);
    let parent = person(300, 100, 300, 7);
    let before = Event::Run { person: person(299, 300, 300, 7), at: NodeId::FRONT, to: N1, kin: vec![parent.clone()] };
    step(&mut space, before);
    step(&mut space, Event::Held { pid: Pid(299) });
    body(&mut space, N1, BodyEvent::Started { pid: Pid(299) });
    step(&mut space, Event::RunMany { parent, to: vec![N0], kin: vec![] });
    step(&mut space, Event::Held { pid: Pid(300) });
    let effects = step(&mut space, Event::Done { pid: Pid(300), result: Ok(301) });
    assert!(effects.contains(&Effect::Copies { parent: Pid(300), worst: Exit::Code(0), copies: Some(vec![Pid(301)]) }));
    step(&mut space, Event::Held { pid: Pid(301) });
    body(&mut space, N0, BodyEvent::Started { pid: Pid(301) });
    let term = SigInfo::kill(Sig::TERM, Pid(100), 0);
    let signal = Effect::Signal { node: N0, target: Pid(301), info: term, thread: None, turn: None };
    assert_eq!(step(&mut space, Event::Signalled { pid: Pid(300), info: term }), [signal]);
    let ends = body(&mut space, N1, exited(299, Exit::Code(9)));
    assert!(!ends.iter().any(|effect| matches!(effect, Effect::Ghost { pid: Pid(300), .. })), "{ends:?}");
    let ends = body(&mut space, N0, exited(301, Exit::Code(2)));
    assert!(ends.contains(&ghost(300, Command::Exit(2))), "{ends:?}");
}

#[test]
fn a_parent_whose_copies_have_all_ended_before_a_restart_ends_after_it() {
    let mut space = Space::new();
    step(&mut space, Event::GhostFound { person: person(300, 100, 300, 7), stopped: false });
    let effects = step(&mut space, Event::CopiesFound { parent: Pid(300), worst: Exit::Code(3), copies: None });
    assert_eq!(effects, [ghost(300, Command::Exit(3))]);
}

#[test]
fn what_comes_and_goes_before_its_ghost_is_begun_leaves_no_trace() {
    let mut space = running(&[]);
    step(&mut space, Event::Run { person: person(200, 100, 200, 7), at: NodeId::FRONT, to: N0, kin: vec![] });
    body(&mut space, N0, BodyEvent::Started { pid: Pid(200) });
    body(&mut space, N0, BodyEvent::Forked { parent: Pid(200), child: Pid(201) });
    body(&mut space, N0, exited(201, Exit::Code(0)));
    body(&mut space, N0, BodyEvent::Reaped { pid: Pid(201) });
    assert_eq!(step(&mut space, Event::Held { pid: Pid(200) }), []);
    assert_eq!((space.len(), space.open_steps()), (1, 0));
}

#[test]
fn orphans_stand_where_their_subreaper_runs_before_their_parent_ends_there() {
    let mut space = running(&[0, 0]);
    body(&mut space, N1, BodyEvent::Subreaper { pid: Pid(201), on: true });
    body(&mut space, N1, BodyEvent::Forked { parent: Pid(201), child: Pid(210) });
    let run = Event::Run { person: person(210, 201, 201, 0), at: N1, to: N0, kin: vec![] };
    let started = step(&mut space, run);
    let takes = started.iter().position(|e| *e == Effect::Subreaper { node: N0, pid: Pid(201), on: true });
    let start = started.iter().position(|e| matches!(e, Effect::Start { node: N0, .. }));
    assert!(takes.is_some() && takes < start, "{started:?}");
    body(&mut space, N0, BodyEvent::Started { pid: Pid(210) });
    for child in [211, 212] {
        body(&mut space, N0, BodyEvent::Forked { parent: Pid(210), child: Pid(child) });
    }
    body(&mut space, N0, exited(212, Exit::Code(4)));
    let ended = body(&mut space, N0, exited(210, Exit::Code(0)));
    let told = ended.iter().filter_map(|effect| match effect {
        Effect::Adopt { node: N1, kin, from: Pid(210) } => Some((kin.person.pid.0, kin.person.ppid.0)),
        Effect::EndStandIn { node: N1, pid, .. } => Some((pid.0, 0)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(211, 201), (212, 201), (212, 0), (210, 0)]);
}

#[test]
fn a_zombie_that_init_has_taken_and_reaped_is_not_waited_for_by_its_parent() {
    let mut space = running(&[0]);
    body(&mut space, N0, BodyEvent::Forked { parent: Pid(200), child: Pid(210) });
    step(&mut space, Event::Done { pid: Pid(200), result: Ok(210) });
    step(&mut space, Event::Held { pid: Pid(210) });
    body(&mut space, N0, exited(210, Exit::Code(4)));
    step(&mut space, Event::Gone { pid: Pid(210) });
    body(&mut space, N0, BodyEvent::Adopted { pid: Pid(210), ppid: Pid::INIT });
    assert_eq!(body(&mut space, N0, BodyEvent::Reaped { pid: Pid(210) }), []);
}

#[test]
fn fifteen_thousand_come_and_go_quickly() {
    let mut space = running(&[7]);
    let mut effects = Vec::new();
    let mut tell = |event| space.step(event, &mut effects);
    let body = |event| Event::Body { node: N0, event };
    let begin = std::time::Instant::now();
    for pid in (1000..16_000).map(Pid) {
        tell(body(BodyEvent::Forked { parent: Pid(200), child: pid }));
        tell(Event::Done { pid: Pid(200), result: Ok(pid.0) });
        tell(Event::Held { pid });
    }
    for pid in (1000..16_000).map(Pid) {
        tell(body(exited(pid.0, Exit::Code(0))));
        tell(body(BodyEvent::Reaped { pid }));
        tell(Event::Gone { pid });
        tell(Event::Done { pid: Pid(200), result: Ok(0) });
    }
    let took = begin.elapsed();
    println!("15,000 came and went in {took:?}");
    assert_eq!((space.len(), space.open_steps()), (2, 0));
    assert!(took.as_secs() < 2, "{took:?}");
}

#[test]
fn a_stop_right_after_a_continue_reaches_the_body_too() {
    let mut space = running(&[0]);
    body(&mut space, N0, BodyEvent::Stopped { pid: Pid(200), sig: Sig::TSTP, turn: None });
    let cont = SigInfo::kill(Sig::CONT, Pid(100), 0);
    step(&mut space, Event::Signalled { pid: Pid(200), info: cont });
    // The node has not told yet that the body goes on.
    let effects = step(&mut space, Event::Pending { pid: Pid(200), set: SigSet(Sig::STOP.bit()) });
    let sent = |e: &Effect| matches!(e, Effect::Signal { target: Pid(200), info, .. } if info.sig == Sig::STOP);
    assert!(effects.iter().any(sent), "{effects:?}");
    body(&mut space, N0, BodyEvent::Continued { pid: Pid(200), turn: Some(1) });
    let effects = body(&mut space, N0, BodyEvent::Stopped { pid: Pid(200), sig: Sig::STOP, turn: Some(2) });
    assert!(space.get(Pid(200)).is_some_and(|v| v.stopped == Some(Sig::STOP)), "{effects:?}");
}

#[test]
fn a_native_subreaper_stands_above_the_parent_of_what_is_started() {
    let mut space = running(&[]);
    let line = |takes| {
        let ancestors =
            [(person(150, 120, 150, 0), false), (person(120, 100, 120, 0), takes), (person(100, 1, 100, 0), false)];
        Event::Ancestors { line: ancestors.to_vec() }
    };
    assert_eq!(step(&mut space, line(false)), []);
    let watch = |pid| Effect::WatchNative { pid: Pid(pid) };
    assert_eq!(step(&mut space, line(true)), [watch(150), watch(120)]);
    let kin = vec![person(150, 120, 150, 0), person(100, 1, 100, 0)];
    let run = Event::Run { person: person(200, 150, 200, 0), at: NodeId::FRONT, to: N0, kin };
    let effects = step(&mut space, run);
    let takes = |on| Effect::Subreaper { node: N0, pid: Pid(120), on };
    let before = effects.iter().position(|effect| *effect == takes(true)).expect("the node is told");
    let starts = |effect: &Effect| matches!(effect, Effect::Start { kin, .. } if kin.iter().map(|k| k.person.pid.0).eq([120, 100, 150]));
    assert!(effects[before..].iter().any(starts), "{effects:?}");
    assert_eq!(step(&mut space, line(false)), [takes(false)]);
    assert_eq!(step(&mut space, line(false)), []);
}

/// 200 has children 210 and 211 beside it on node 0; it moves to node 1, where these stand, and stands where they are.
#[test]
fn a_parent_that_moves_has_its_children_where_it_goes_and_stands_where_it_was() {
    let mut space = running(&[0]);
    for child in [210, 211] {
        body(&mut space, N0, BodyEvent::Forked { parent: Pid(200), child: Pid(child) });
    }
    body(&mut space, N0, exited(211, Exit::Code(4)));
    let effects = step(&mut space, Event::Arrive { pid: Pid(200), to: N1 });
    let [Effect::Arrive { node: N1, kin, children, .. }, Effect::EndStandIn { node: N1, pid: Pid(211), .. }] =
        &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(children, &[Pid(210), Pid(211)]);
    assert_eq!(kin.iter().map(|kin| kin.person.pid.0).collect::<Vec<_>>(), [100, 210, 211]);
    // Once it has waited for one, that is not its child any more.
    body(&mut space, N0, BodyEvent::Reaped { pid: Pid(211) });
    assert_eq!(space.unwaited_children(Pid(200)), [Pid(210)]);
    step(&mut space, Event::Leaves { pid: Pid(200) });
    step(&mut space, Event::Moved { pid: Pid(200), to: N1 });
    step(&mut space, Event::Left { pid: Pid(200) });
    step(&mut space, Event::Stands { pid: Pid(200), node: N0 });
    let ends = |effects: &[Effect], of: i32| -> Vec<NodeId> {
        let ended = |effect: &Effect| match effect {
            Effect::EndStandIn { node, pid, .. } if pid.0 == of => Some(*node),
            _ => None,
        };
        effects.iter().filter_map(ended).collect()
    };
    // What the stand-in on node 0 has waited for counts for nothing; the parent's own waiting does.
    let effects = body(&mut space, N0, exited(210, Exit::Code(5)));
    assert_eq!(ends(&effects, 210), [N1]);
    body(&mut space, N0, BodyEvent::Reaped { pid: Pid(210) });
    assert_eq!(space.unwaited_children(Pid(200)), [Pid(210)]);
    body(&mut space, N1, BodyEvent::Reaped { pid: Pid(210) });
    assert_eq!(space.unwaited_children(Pid(200)), []);
    let effects = body(&mut space, N1, exited(200, Exit::Code(6)));
    assert_eq!(ends(&effects, 200), [N0]);
}

/// It has stopped on the node that it leaves, where that is told after the SIGCONT that waits for it: its ghost, which runs by that, does not stop again.
#[test]
fn what_is_told_of_a_stop_while_it_leaves_is_out_of_date_by_what_waits() {
    let mut space = running(&[0]);
    let signalled =
        |sig| Event::Signalled { pid: Pid(200), info: SigInfo { code: 0, ..SigInfo::kill(sig, Pid(100), 0) } };
    let sent = |effects: &[Effect], whom: NodeId| {
        effects.iter().any(|one| matches!(one, Effect::Signal { node, info, turn: Some(_), .. } if *node == whom && info.sig == Sig::CONT))
    };
    step(&mut space, signalled(Sig::TSTP));
    step(&mut space, Event::Arrive { pid: Pid(200), to: N1 });
    step(&mut space, Event::Leaves { pid: Pid(200) });
    assert_eq!(step(&mut space, signalled(Sig::CONT)), []);
    let stopped = BodyEvent::Stopped { pid: Pid(200), sig: Sig::TSTP, turn: Some(1) };
    assert_eq!(body(&mut space, N0, stopped.clone()), []);
    let effects = step(&mut space, Event::Moved { pid: Pid(200), to: N1 });
    assert!(sent(&effects, N1), "{effects:?}");
    // Or it stays, and has it there.
    let mut space = running(&[0]);
    step(&mut space, signalled(Sig::TSTP));
    step(&mut space, Event::Arrive { pid: Pid(200), to: N1 });
    step(&mut space, Event::Leaves { pid: Pid(200) });
    step(&mut space, signalled(Sig::CONT));
    assert_eq!(body(&mut space, N0, stopped), []);
    let effects = step(&mut space, Event::Stays { pid: Pid(200) });
    assert!(sent(&effects, N0), "{effects:?}");
}

/// 200 runs on node 1 before node 0 has said that it stands there: what has become of it meanwhile is told then.
#[test]
fn who_stands_where_it_was_is_told_what_it_has_missed() {
    let left = |what: &[BodyEvent]| {
        let mut space = running(&[0]);
        step(&mut space, Event::NodeUp { node: N1 });
        step(&mut space, Event::Arrive { pid: Pid(200), to: N1 });
        step(&mut space, Event::Leaves { pid: Pid(200) });
        step(&mut space, Event::Moved { pid: Pid(200), to: N1 });
        for event in what {
            let effects = body(&mut space, N1, event.clone());
            assert!(!effects.iter().any(|effect| matches!(effect, Effect::EndStandIn { node: N0, .. })));
        }
        step(&mut space, Event::Stands { pid: Pid(200), node: N0 })
    };
    // It may have been stopped when it left, and what stands there with it.
    assert!(matches!(left(&[])[..], [Effect::ContinueStandIn { node: N0, .. }, Effect::StandInIs { node: N0, .. }]));
    let stopped = left(&[BodyEvent::Stopped { pid: Pid(200), sig: Sig::STOP, turn: None }]);
    assert!(matches!(stopped[..], [Effect::StopStandIn { node: N0, .. }, Effect::StandInIs { node: N0, .. }]));
    let ended = left(&[exited(200, Exit::Code(3))]);
    assert!(matches!(ended[..], [Effect::EndStandIn { node: N0, exit: Exit::Code(3), .. }]));
    let gone = step(&mut running(&[0]), Event::Stands { pid: Pid(201), node: N0 });
    assert!(matches!(gone[..], [Effect::EndStandIn { node: N0, exit: Exit::NodeLost, .. }]));
}

#[test]
fn a_signal_for_what_is_being_started_goes_to_its_node_at_once() {
    let mut space = running(&[]);
    step(&mut space, Event::Run { person: person(300, 100, 300, 7), at: NodeId::FRONT, to: N0, kin: vec![] });
    let info = SigInfo::kill(Sig::TERM, Pid(100), 0);
    let signal = Effect::Signal { node: N0, target: Pid(300), info, thread: None, turn: None };
    assert_eq!(step(&mut space, Event::Signalled { pid: Pid(300), info }), [signal]);
    assert_eq!(body(&mut space, N0, BodyEvent::Started { pid: Pid(300) }), [], "it is not sent twice");
}

#[test]
fn what_comes_for_copies_before_all_are_there_is_for_the_later_ones_too() {
    let mut space = running(&[]);
    let many = Event::RunMany { parent: person(300, 100, 300, 7), to: vec![N0, N1], kin: vec![] };
    step(&mut space, many);
    step(&mut space, Event::Held { pid: Pid(300) });
    step(&mut space, Event::Done { pid: Pid(300), result: Ok(301) });
    let info = SigInfo::kill(Sig::TERM, Pid(100), 0);
    let of_terminal = SigInfo { code: SigInfo::SI_KERNEL, ..SigInfo::kill(Sig::INT, Pid::NONE, 0) };
    let sent = |node, target, info| Effect::Signal { node, target: Pid(target), info, thread: None, turn: None };
    assert_eq!(step(&mut space, Event::Signalled { pid: Pid(300), info }), [sent(N0, 301, info)]);
    assert_eq!(
        step(&mut space, Event::Signalled { pid: Pid(300), info: of_terminal }),
        [],
        "the first has it as of the group"
    );
    let effects = step(&mut space, Event::Done { pid: Pid(300), result: Ok(302) });
    for info in [info, of_terminal] {
        assert!(effects.contains(&sent(N1, 302, info)), "{effects:?}");
    }
    let alarm = SigInfo { code: SigInfo::SI_KERNEL, ..SigInfo::kill(Sig::new(14).expect("SIGALRM"), Pid::NONE, 0) };
    let effects = step(&mut space, Event::Signalled { pid: Pid(300), info: alarm });
    assert_eq!(effects, [sent(N0, 301, alarm), sent(N1, 302, alarm)], "no terminal's: for all of them");
}
