//! Signals: who may send them, and in which order they arrive.

use super::{body, person, running, step, N0};
use space::{BodyEvent, Effect, Event, KillTarget};
use vocab::{NodeId, Pid, Sig, SigInfo, SigSet};

#[test]
fn kill_of_all_goes_by_permission() {
    let mut space = running(&[7, 8, 7]);
    let ask = |sender, sig| Event::KillAsked { node: N0, id: 1, sender: Pid(sender), target: KillTarget::All, sig };
    let effects = step(&mut space, ask(200, 15));
    let info = SigInfo::kill(Sig::TERM, Pid(200), 7);
    let signal = Effect::Signal { node: N0, target: Pid(202), info, thread: None, turn: None };
    assert_eq!(effects, [signal, Effect::KillDone { node: N0, id: 1, errno: 0, left: vec![] }]);
    assert_eq!(
        step(&mut space, ask(201, 0)),
        [Effect::KillDone { node: N0, id: 1, errno: 0, left: vec![] }],
        "nobody it may signal"
    );
    assert_eq!(step(&mut running(&[7]), ask(200, 15)), [Effect::KillDone { node: N0, id: 1, errno: 0, left: vec![] }]);
    assert_eq!(step(&mut space, ask(200, 65)), [Effect::KillDone { node: N0, id: 1, errno: 22, left: vec![] }]);
}

#[test]
fn kill_of_a_group_that_is_of_the_front_end_is_answered_there() {
    let mut space = running(&[7, 8, 7]);
    let ask =
        |pgid| Event::KillAsked { node: N0, id: 1, sender: Pid(200), target: KillTarget::Group(Pid(pgid)), sig: 15 };
    let info = SigInfo::kill(Sig::TERM, Pid(200), 7);
    let natives = |pgid, but: Vec<Pid>, errno| Effect::SignalNatives {
        left: but.clone(),
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
    assert_eq!(
        step(&mut space, ask(300)),
        [Effect::KillDone { node: N0, id: 1, errno: 3, left: vec![Pid(300)] }],
        "the node's own"
    );
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
fn a_signal_for_what_is_being_started_goes_to_its_node_at_once() {
    let mut space = running(&[]);
    step(&mut space, Event::Run { person: person(300, 100, 300, 7), at: NodeId::FRONT, to: N0, kin: vec![] });
    let info = SigInfo::kill(Sig::TERM, Pid(100), 0);
    let signal = Effect::Signal { node: N0, target: Pid(300), info, thread: None, turn: None };
    assert_eq!(step(&mut space, Event::Signalled { pid: Pid(300), info }), [signal]);
    assert_eq!(body(&mut space, N0, BodyEvent::Started { pid: Pid(300) }), [], "it is not sent twice");
}
