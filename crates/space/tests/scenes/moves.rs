//! A parent that moves while its children stay.

use super::{body, exited, running, step, N0, N1};
use space::{BodyEvent, Effect, Event, Space};
use vocab::{Exit, NodeId, Pid, Sig, SigInfo};

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

/// It takes orphans on node 1, where it has become that before node 0 has said that it stands there.
#[test]
fn what_stands_for_one_that_takes_orphans_does() {
    let mut space = running(&[0]);
    step(&mut space, Event::Arrive { pid: Pid(200), to: N1 });
    step(&mut space, Event::Leaves { pid: Pid(200) });
    step(&mut space, Event::Moved { pid: Pid(200), to: N1 });
    body(&mut space, N1, BodyEvent::Subreaper { pid: Pid(200), on: true });
    let effects = step(&mut space, Event::Stands { pid: Pid(200), node: N0 });
    assert!(effects.contains(&Effect::Subreaper { node: N0, pid: Pid(200), on: true }), "{effects:?}");
}

/// 210 is on its way to node 1, where its parent stands, whose children there are the kernel's to give away when it ends: of the end of 210 that node is told first.
#[test]
fn where_one_is_to_come_it_is_told_that_it_has_ended() {
    let mut space = running(&[0]);
    body(&mut space, N0, BodyEvent::Forked { parent: Pid(200), child: Pid(210) });
    step(&mut space, Event::Arrive { pid: Pid(210), to: N1 });
    let mut told = body(&mut space, N0, exited(210, Exit::Code(3)));
    body(&mut space, N0, BodyEvent::Reaped { pid: Pid(210) });
    told.append(&mut body(&mut space, N0, exited(200, Exit::Code(0))));
    let ends = |effect: &Effect| match effect {
        Effect::EndStandIn { node: N1, pid, .. } => Some(pid.0),
        _ => None,
    };
    assert_eq!(told.iter().filter_map(ends).collect::<Vec<_>>(), [210, 200]);
}

/// 200 has a child, so that it is to stand on node 1 before it can become itself there; it stays after all, and what stands for it there ends as it does.
#[test]
fn what_was_made_for_one_that_does_not_come_ends_with_it() {
    let stays = || {
        let mut space = running(&[0]);
        body(&mut space, N0, BodyEvent::Forked { parent: Pid(200), child: Pid(210) });
        step(&mut space, Event::Arrive { pid: Pid(200), to: N1 });
        step(&mut space, Event::Stays { pid: Pid(200) });
        let told = step(&mut space, Event::Stands { pid: Pid(200), node: N1 });
        assert!(told.iter().any(|effect| matches!(effect, Effect::StandInIs { node: N1, .. })), "{told:?}");
        space
    };
    let ends = |space: &mut Space| {
        let effects = body(space, N0, exited(200, Exit::Code(3)));
        effects.iter().any(|effect| matches!(effect, Effect::EndStandIn { node: N1, pid: Pid(200), .. }))
    };
    assert!(ends(&mut stays()));
    // Or nothing was made.
    let mut space = stays();
    step(&mut space, Event::StandInGone { node: N1, pid: Pid(200) });
    assert!(!ends(&mut space));
    // Nothing stands on a node that is not there.
    let mut space = stays();
    step(&mut space, Event::NodeLost { node: N1 });
    assert_eq!(step(&mut space, Event::Stands { pid: Pid(200), node: N1 }), []);
    assert!(!ends(&mut space));
}
