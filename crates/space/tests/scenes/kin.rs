//! Children and subreapers, and many of them.

use super::{body, exited, person, running, step, N0, N1};
use space::{BodyEvent, Effect, Event, KillTarget, Space};
use vocab::{Exit, NodeId, Pid, Sig, SigInfo};

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
    for child in [211, 212, 213] {
        body(&mut space, N0, BodyEvent::Forked { parent: Pid(210), child: Pid(child) });
    }
    body(&mut space, N0, exited(212, Exit::Code(4)));
    // One that its parent has waited for is nobody's, though its ghost is to be made yet.
    body(&mut space, N0, exited(213, Exit::Code(5)));
    body(&mut space, N0, BodyEvent::Reaped { pid: Pid(213) });
    let ended = body(&mut space, N0, exited(210, Exit::Code(0)));
    let told = ended.iter().filter_map(|effect| match effect {
        Effect::Adopt { node: N1, kin, from: Pid(210), .. } => Some((kin.person.pid.0, kin.person.ppid.0)),
        Effect::EndStandIn { node: N1, pid, .. } => Some((pid.0, 0)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(211, 201), (212, 201), (212, 0), (210, 0)]);
}

/// 210 moves away from there, and its child 211 ends there: what stands for 210 waits for that, which 210 itself never does.
#[test]
fn a_zombie_is_the_subreapers_also_where_it_has_ended_on_its_node() {
    for told_first in [true, false] {
        the_subreaper_gets_a_zombie(told_first);
    }
}

fn the_subreaper_gets_a_zombie(told_first: bool) {
    let mut space = running(&[0, 0]);
    body(&mut space, N1, BodyEvent::Subreaper { pid: Pid(201), on: true });
    body(&mut space, N1, BodyEvent::Forked { parent: Pid(201), child: Pid(210) });
    for child in [211, 212] {
        body(&mut space, N1, BodyEvent::Forked { parent: Pid(210), child: Pid(child) });
    }
    step(&mut space, Event::Arrive { pid: Pid(210), to: N0 });
    step(&mut space, Event::Leaves { pid: Pid(210) });
    step(&mut space, Event::Moved { pid: Pid(210), to: N0 });
    body(&mut space, N1, exited(211, Exit::Code(4)));
    // It may have yet to be told that 210 stands there.
    if told_first {
        step(&mut space, Event::Stands { pid: Pid(210), node: N1 });
        step(&mut space, Event::Left { pid: Pid(210) });
        body(&mut space, N1, BodyEvent::Reaped { pid: Pid(211) });
    }
    let mut ended = body(&mut space, N0, exited(210, Exit::Code(0)));
    if !told_first {
        ended.append(&mut step(&mut space, Event::Stands { pid: Pid(210), node: N1 }));
        step(&mut space, Event::Left { pid: Pid(210) });
    }
    let told = ended.iter().filter_map(|effect| match effect {
        Effect::Adopt { node: N1, kin, from: Pid(210), .. } => Some((kin.person.pid.0, kin.person.ppid.0)),
        Effect::EndStandIn { node: N1, pid, .. } => Some((pid.0, 0)),
        _ => None,
    });
    // Of an end of 212, which lives as far as is known, 210 has not heard.
    assert_eq!(told.collect::<Vec<_>>(), [(211, 201), (211, 0), (212, 201), (210, 0)]);
    // The subreaper's wait counts.
    let reaps = |space: &mut Space, pid| body(space, N1, BodyEvent::Reaped { pid: Pid(pid) });
    reaps(&mut space, 210);
    reaps(&mut space, 211);
    assert!(!space.unwaited_children(Pid(201)).contains(&Pid(211)));
}

/// 201 is about to run on another node when its child 210 ends, which stands there as its child: 211 is to be there too.
#[test]
fn orphans_stand_also_where_their_subreaper_is_about_to_run() {
    let mut space = running(&[0, 0]);
    let there = NodeId(2);
    step(&mut space, Event::NodeUp { node: there });
    body(&mut space, N1, BodyEvent::Subreaper { pid: Pid(201), on: true });
    body(&mut space, N1, BodyEvent::Forked { parent: Pid(201), child: Pid(210) });
    step(&mut space, Event::Arrive { pid: Pid(210), to: N0 });
    step(&mut space, Event::Leaves { pid: Pid(210) });
    step(&mut space, Event::Moved { pid: Pid(210), to: N0 });
    step(&mut space, Event::Left { pid: Pid(210) });
    step(&mut space, Event::Stands { pid: Pid(210), node: N1 });
    body(&mut space, N0, BodyEvent::Forked { parent: Pid(210), child: Pid(211) });
    step(&mut space, Event::Arrive { pid: Pid(201), to: there });
    let ended = body(&mut space, N0, exited(210, Exit::Code(0)));
    let adopts = |effect: &Effect| match effect {
        Effect::Adopt { node, kin, from: Pid(210), .. } if kin.person.pid == Pid(211) => Some(*node),
        _ => None,
    };
    assert_eq!(ended.iter().filter_map(adopts).collect::<Vec<_>>(), [N1, there]);
    // What goes with the move is another set of children now.
    assert_eq!(space.unwaited_children(Pid(201)), [Pid(210), Pid(211)]);
}

/// 210 has come home and ends there: of its zombies the subreaper on a node gets 211, which it has not waited for, and not 212, for which nobody has told that it has.
#[test]
fn zombies_of_one_that_ends_at_home_are_the_subreapers() {
    let mut space = running(&[0, 0]);
    body(&mut space, N1, BodyEvent::Subreaper { pid: Pid(201), on: true });
    body(&mut space, N1, BodyEvent::Forked { parent: Pid(201), child: Pid(210) });
    step(&mut space, Event::Done { pid: Pid(201), result: Ok(0) });
    step(&mut space, Event::Done { pid: Pid(201), result: Ok(0) });
    step(&mut space, Event::Held { pid: Pid(210) });
    for child in [211, 212] {
        body(&mut space, N1, BodyEvent::Forked { parent: Pid(210), child: Pid(child) });
        step(&mut space, Event::Done { pid: Pid(210), result: Ok(0) });
        step(&mut space, Event::Held { pid: Pid(child) });
        body(&mut space, N1, exited(child, Exit::Code(4)));
        step(&mut space, Event::Dying { pid: Pid(child) });
        step(&mut space, Event::Gone { pid: Pid(child) });
    }
    step(&mut space, Event::Arrive { pid: Pid(210), to: NodeId::FRONT });
    step(&mut space, Event::Leaves { pid: Pid(210) });
    step(&mut space, Event::Left { pid: Pid(210) });
    step(&mut space, Event::Moved { pid: Pid(210), to: NodeId::FRONT });
    step(&mut space, Event::Stands { pid: Pid(210), node: N1 });
    let (exit, unwaited) = (Some(Exit::Code(0)), vec![Pid(211)]);
    let ended = step(&mut space, Event::NativeEnded { pid: Pid(210), exit, unwaited });
    let adopts = |effect: &Effect| match effect {
        Effect::Adopt { node: N1, kin, from: Pid(210), .. } => Some(kin.person.pid),
        _ => None,
    };
    assert_eq!(ended.iter().filter_map(adopts).collect::<Vec<_>>(), [Pid(211)]);
    assert_eq!(space.unwaited_children(Pid(201)), [Pid(210), Pid(211)]);
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

/// Its group is another when the front end looks again: a kill of that group on node 0 is to find it.
#[test]
fn what_stands_for_a_native_follows_what_the_front_end_sees_of_it() {
    let mut space = running(&[0]);
    let native = |pgid| Event::Natives { persons: vec![person(150, 100, pgid, 0)] };
    step(&mut space, native(100));
    let wanted = Event::StandInWanted { node: N0, pid: Pid(150), native: None };
    assert!(matches!(step(&mut space, wanted)[..], [Effect::StandIn { node: N0, .. }]));
    assert_eq!(step(&mut space, native(100)), []);
    let follows = Effect::StandInIs { node: N0, person: person(150, 100, 150, 0) };
    assert_eq!(step(&mut space, native(150)), [follows]);
}

/// 210, which leads a group on node 1, and its child 211, of that group, which has come home.
fn with_one_at_home() -> Space {
    let mut space = running(&[0, 0]);
    for (parent, child) in [(201, 210), (210, 211)] {
        body(&mut space, N1, BodyEvent::Forked { parent: Pid(parent), child: Pid(child) });
        step(&mut space, Event::Done { pid: Pid(parent), result: Ok(0) });
        step(&mut space, Event::Held { pid: Pid(child) });
        body(&mut space, N1, BodyEvent::Group { pid: Pid(child), pgid: Pid(210) });
        step(&mut space, Event::Done { pid: Pid(child), result: Ok(0) });
    }
    step(&mut space, Event::Arrive { pid: Pid(211), to: NodeId::FRONT });
    step(&mut space, Event::Leaves { pid: Pid(211) });
    step(&mut space, Event::Left { pid: Pid(211) });
    step(&mut space, Event::Moved { pid: Pid(211), to: NodeId::FRONT });
    space
}

#[test]
fn a_group_kill_reaches_who_of_a_group_of_programs_has_come_home() {
    let mut space = with_one_at_home();
    let target = KillTarget::Group(Pid(210));
    let told = step(&mut space, Event::KillAsked { node: N0, id: 1, sender: Pid(200), target, sig: 15 });
    let info = SigInfo::kill(Sig::TERM, Pid(200), 0);
    assert!(told.contains(&Effect::SignalNative { target: Pid(211), info }), "{told:?}");
    assert!(told.contains(&Effect::KillDone { node: N0, id: 1, errno: 0, left: vec![] }), "{told:?}");
}

/// The ancestors of what stands for 212, a child of 211, go on past 211.
#[test]
fn who_is_to_stand_somewhere_comes_with_ancestors_and_leaders() {
    let mut space = with_one_at_home();
    let native = Some(person(212, 211, 210, 0));
    let told = step(&mut space, Event::StandInWanted { node: N0, pid: Pid(212), native });
    let others = |effect: &Effect| match effect {
        Effect::StandIn { node: N0, others, .. } => Some(others.iter().map(|kin| kin.person.pid.0).collect::<Vec<_>>()),
        _ => None,
    };
    assert_eq!(told.iter().find_map(others), Some(vec![100, 211, 210, 201]));
}
