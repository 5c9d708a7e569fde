//! What a node says of itself when it joins: one [`ToFront::Hello`], or several where it has much to say.

use crate::event::Person;
use crate::frame::PIECE;
use crate::node::{Lease, Load, ToFront};
use crate::way::Way;
use vocab::{NodeId, Pid};

/// The fields of [`ToFront::Hello`]; what they mean is told there.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Hello {
    pub version: u32,
    pub number: Option<NodeId>,
    pub load: Load,
    pub leases: Vec<Lease>,
    pub bodies: Vec<Person>,
    pub stand_ins: Vec<Pid>,
    pub channel_port: u16,
    pub subreapers: Vec<Pid>,
    pub starting: Vec<Pid>,
    pub ways: Vec<Way>,
    pub more: bool,
    pub passes: Vec<Pid>,
    pub identity: u64,
    pub name: String,
    pub allow: Option<Vec<String>>,
}

/// For [`ToFront::Hello`], which has nothing of a part that is the last.
pub(crate) fn is_last(more: &bool) -> bool {
    !more
}

/// For [`ToFront::Hello`] of a node that does not know its own identity.
pub(crate) fn is_unknown(identity: &u64) -> bool {
    *identity == 0
}

/// Bytes of a PID in a list, at most.
const PID: usize = 5;

impl Hello {
    /// The same in pieces that fit into frames: all but the last say that there is more, and [`Hello::add`] puts them together.
    pub fn parts(self) -> Vec<Hello> {
        let Hello { version, number, load, leases, channel_port, more, identity, .. } = self;
        let Hello { bodies, stand_ins, subreapers, starting, ways, passes, name, allow, .. } = self;
        let first =
            Hello { version, number, load, leases, channel_port, more, identity, name, allow, ..Hello::default() };
        let mut parts = Parts { all: vec![first], left: PIECE };
        bodies.into_iter().for_each(|person| parts.with(person.bytes()).bodies.push(person));
        ways.into_iter().for_each(|way| parts.with(way.bytes()).ways.push(way));
        stand_ins.into_iter().for_each(|pid| parts.with(PID).stand_ins.push(pid));
        subreapers.into_iter().for_each(|pid| parts.with(PID).subreapers.push(pid));
        starting.into_iter().for_each(|pid| parts.with(PID).starting.push(pid));
        passes.into_iter().for_each(|pid| parts.with(PID).passes.push(pid));
        parts.all
    }

    /// The next part has come.
    pub fn add(&mut self, part: Hello) {
        self.leases.extend(part.leases);
        self.bodies.extend(part.bodies);
        self.ways.extend(part.ways);
        self.stand_ins.extend(part.stand_ins);
        self.subreapers.extend(part.subreapers);
        self.starting.extend(part.starting);
        self.passes.extend(part.passes);
        self.more = part.more;
    }
}

struct Parts {
    all: Vec<Hello>,
    /// Bytes for which the last has room.
    left: usize,
}

impl Parts {
    /// The last part, or another one where this has no room for so many bytes.
    fn with(&mut self, bytes: usize) -> &mut Hello {
        let last = self.all.len() - 1;
        if bytes > self.left {
            let Hello { version, number, more, identity, .. } = self.all[last];
            self.all[last].more = true;
            self.all.push(Hello { version, number, more, identity, ..Hello::default() });
            self.left = PIECE;
        }
        self.left = self.left.saturating_sub(bytes);
        let last = self.all.len() - 1;
        &mut self.all[last]
    }
}

impl From<Hello> for ToFront {
    fn from(hello: Hello) -> ToFront {
        let Hello { version, number, load, leases, bodies, stand_ins, .. } = hello;
        let Hello { channel_port, subreapers, starting, ways, more, passes, identity, name, allow, .. } = hello;
        ToFront::Hello {
            version,
            number,
            load,
            leases,
            bodies,
            stand_ins,
            channel_port,
            subreapers,
            starting,
            ways,
            more,
            passes,
            identity,
            name,
            allow,
        }
    }
}

impl ToFront {
    /// `None` for every other message.
    pub fn hello(self) -> Option<Hello> {
        match self {
            ToFront::Hello {
                version,
                number,
                load,
                leases,
                bodies,
                stand_ins,
                channel_port,
                subreapers,
                starting,
                ways,
                more,
                passes,
                identity,
                name,
                allow,
            } => Some(Hello {
                version,
                number,
                load,
                leases,
                bodies,
                stand_ins,
                channel_port,
                subreapers,
                starting,
                ways,
                more,
                passes,
                identity,
                name,
                allow,
            }),
            _ => None,
        }
    }
}
