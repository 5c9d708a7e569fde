//! The front end's daemon ends, and another finds out what there is.

use super::{body, exited, ghost, person, running, step, N0, N1};
use space::{BodyEvent, Command, Effect, Event, Space, Usage};
use vocab::{Exit, NodeId, Pid, Sig};

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
    let ended = step(&mut space, Event::NativeEnded { pid: Pid(100), exit: None, unwaited: vec![] });
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
