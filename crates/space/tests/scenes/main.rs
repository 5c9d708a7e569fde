//! Scenes that the naive model does not play.

mod copies;
mod kin;
mod moves;
mod restarts;
mod signals;

use space::{BodyEvent, Command, Effect, Event, Person, Space, Usage};
use vocab::{Creds, Exit, Ids, NodeId, Pid};

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
