//! Several copies of one program, of which one `shoal run` hears.

use super::{body, exited, ghost, person, running, step, N0, N1};
use space::{BodyEvent, Command, Effect, Event, Space};
use vocab::{Exit, NodeId, Pid, Sig, SigInfo, SigSet};

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

#[test]
fn a_parent_of_copies_that_is_killed_before_it_has_cloned_them_all_waits_for_no_more() {
    let killed = || Event::Pending { pid: Pid(300), set: SigSet(Sig::KILL.bit()) };
    let many = || Event::RunMany { parent: person(300, 100, 300, 7), to: vec![N0, N1], kin: vec![] };
    let mut space = running(&[]);
    step(&mut space, many());
    step(&mut space, Event::Held { pid: Pid(300) });
    let effects = step(&mut space, killed());
    assert!(effects.contains(&Effect::Interrupt { pid: Pid(300) }), "none has come: {effects:?}");

    let mut space = running(&[]);
    step(&mut space, many());
    step(&mut space, Event::Held { pid: Pid(300) });
    step(&mut space, Event::Done { pid: Pid(300), result: Ok(301) });
    let effects = step(&mut space, killed());
    assert!(!effects.contains(&Effect::Interrupt { pid: Pid(300) }), "the first has not ended: {effects:?}");
    let effects = body(&mut space, N0, exited(301, Exit::Killed { sig: Sig::KILL, core: false }));
    assert!(effects.contains(&Effect::Interrupt { pid: Pid(300) }), "{effects:?}");
}

#[test]
fn a_parent_of_copies_does_no_stop_that_sigcont_came_after() {
    let mut space = running(&[]);
    step(&mut space, Event::RunMany { parent: person(300, 100, 300, 7), to: vec![N0], kin: vec![] });
    step(&mut space, Event::Held { pid: Pid(300) });
    let signal = |sig| Event::Signalled { pid: Pid(300), info: SigInfo::kill(sig, Pid(100), 0) };
    let effects = step(&mut space, signal(Sig::TSTP));
    assert!(effects.contains(&ghost(300, Command::Stop(Sig::TSTP))), "{effects:?}");
    let effects = step(&mut space, signal(Sig::CONT));
    assert!(
        effects.contains(&Effect::Wake { pid: Pid(300) }),
        "it was told, and has not said that it is done: {effects:?}"
    );
    step(&mut space, Event::Done { pid: Pid(300), result: Ok(301) });
    step(&mut space, Event::Done { pid: Pid(300), result: Ok(0) });
    let effects = step(&mut space, signal(Sig::CONT));
    assert!(!effects.contains(&Effect::Wake { pid: Pid(300) }), "it runs: {effects:?}");
}
