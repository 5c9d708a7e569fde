//! Ends that a node is told when it has said what it has in the place of a process that left it.
//!
//! What ends within milliseconds where it has come to may be waited for there, and its parent end too, before the old node has said whether it stands there now. Were
//! that told of the parent's end first, what stands there for the child would outlive its parent, and who takes orphans there would get one that nobody has.

use crate::effect::Effect;
use crate::person::Usage;
use crate::space::Space;
use std::collections::BTreeMap;
use vocab::{Exit, NodeId, Pid};

/// A process that has ended, and of which a node has yet to say whether it stands there.
#[derive(Debug)]
struct Ended {
    exit: Exit,
    parent: Pid,
    /// Ends that are told there after its own.
    then: Vec<(Pid, Exit, Usage)>,
}

/// By the node and the process.
#[derive(Debug, Default)]
pub(crate) struct Unsaid(BTreeMap<(NodeId, Pid), Ended>);

impl Unsaid {
    /// It has moved from `node`, and ended before that has said all.
    pub(crate) fn ended(&mut self, node: NodeId, pid: Pid, parent: Pid, exit: Exit) {
        self.0.insert((node, pid), Ended { exit, parent, then: Vec::new() });
    }

    /// It has ended so, and of its old node that is not known.
    pub(crate) fn exit(&self, node: NodeId, pid: Pid) -> Option<Exit> {
        self.0.get(&(node, pid)).map(|ended| ended.exit)
    }

    /// That node is lost, and with it all that stood there.
    pub(crate) fn lost(&mut self, node: NodeId) {
        self.0.retain(|(at, _), _| *at != node);
    }
}

impl Space {
    /// What stands on `node` for `pid` is to end; one of its children there first, if that has ended too.
    pub(crate) fn end_stand_in(&mut self, node: NodeId, pid: Pid, exit: Exit, usage: Usage) {
        let mut there = self.unsaid.0.range_mut((node, Pid(i32::MIN))..=(node, Pid(i32::MAX)));
        match there.find(|(_, ended)| ended.parent == pid) {
            Some((_, child)) => child.then.push((pid, exit, usage)),
            None => self.out.push(Effect::EndStandIn { node, pid, exit, usage }),
        }
    }

    /// It is known by now what every node has in the place of `pid`.
    pub(crate) fn all_said(&mut self, pid: Pid) {
        let nodes: Vec<NodeId> = self.unsaid.0.keys().filter(|(_, one)| *one == pid).map(|(node, _)| *node).collect();
        for node in nodes {
            let said = self.unsaid.0.remove(&(node, pid));
            for (pid, exit, usage) in said.into_iter().flat_map(|ended| ended.then) {
                self.end_stand_in(node, pid, exit, usage);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BodyEvent, Event};
    use crate::person::Person;
    use vocab::Creds;

    const OLD: NodeId = NodeId(0);
    const NEW: NodeId = NodeId(1);
    const TAKER: Pid = Pid(200);
    const PARENT: Pid = Pid(5000);
    const CHILD: Pid = Pid(5001);

    /// The ends that OLD is told, in order, of a child and its parent that have moved from there one after the other and end as soon as the child is on NEW. OLD says
    /// what it has of the child before or after that, and that it stands there, or that nothing does.
    fn told(late: bool, stands: bool) -> Vec<(Pid, Exit)> {
        let (mut space, mut effects) = (Space::new(), Vec::new());
        let mut step = move |event| {
            space.step(event, &mut effects);
            space.audit().expect("the invariants hold");
            std::mem::take(&mut effects)
        };
        let body = |node, event| Event::Body { node, event };
        let moves = |pid| [Event::Arrive { pid, to: NEW }, Event::Leaves { pid }, Event::Moved { pid, to: NEW }];
        let person =
            Person { pid: TAKER, ppid: Pid(100), pgid: TAKER, sid: Pid(100), creds: Creds::default(), name: vec![] };
        let mut before = vec![
            Event::NodeUp { node: OLD },
            Event::NodeUp { node: NEW },
            Event::Run { person, at: NodeId::FRONT, to: OLD, kin: vec![] },
            Event::Held { pid: TAKER },
            body(OLD, BodyEvent::Started { pid: TAKER }),
            body(OLD, BodyEvent::Subreaper { pid: TAKER, on: true }),
            body(OLD, BodyEvent::Forked { parent: TAKER, child: PARENT }),
            body(OLD, BodyEvent::Forked { parent: PARENT, child: CHILD }),
        ];
        before.extend(moves(PARENT));
        before.extend([Event::Stands { pid: PARENT, node: OLD }, Event::Left { pid: PARENT }]);
        before.extend(moves(CHILD));
        let said = || {
            stands.then_some(Event::Stands { pid: CHILD, node: OLD }).into_iter().chain([Event::Left { pid: CHILD }])
        };
        before.extend(said().filter(|_| !late));
        before.into_iter().for_each(|event| drop(step(event)));
        let exit = |pid, code| body(NEW, BodyEvent::Exited { pid, exit: Exit::Code(code), usage: Usage::default() });
        let ends = [exit(CHILD, 1), body(NEW, BodyEvent::Reaped { pid: CHILD }), exit(PARENT, 2)];
        let all = ends.into_iter().chain(said().filter(|_| late)).flat_map(&mut step);
        all.filter_map(|effect| match effect {
            Effect::EndStandIn { node: OLD, pid, exit, .. } => Some((pid, exit)),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn a_parent_that_has_waited_for_a_child_ends_after_it_also_where_that_is_yet_to_stand() {
        let both = vec![(CHILD, Exit::Code(1)), (PARENT, Exit::Code(2))];
        assert_eq!(told(false, true), both);
        assert_eq!(told(true, true), both);
        assert_eq!(told(true, false), vec![(PARENT, Exit::Code(2))]);
        assert_eq!(told(false, false), vec![(PARENT, Exit::Code(2))]);
    }
}
