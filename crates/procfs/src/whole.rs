//! The files of /proc and /sys that tell of a machine, as of one that is all machines of the space: a directory of the tree, of which views bind what is in it.

use crate::cluster::Cluster;
use crate::inodes::Told;
use crate::machines::Machines;
use crate::names::{ALL_MACHINES, FOREVER_US};
use crate::sums;
use kern::clock::monotonic_us;
use kern::fuse::tree::{Asked, Named, Shown, Tree, What, ROOT};
use kern::machine::PROCESSORS;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use vocab::errno::{EACCES, ENOENT};

/// Their numbers from here on, which no ghost's files ([`crate::inodes::Inodes`]) and no links ([`crate::natives`]) have.
const FIRST: u64 = 1 << 52;
const FILE: u32 = 0o100_444;
const DIRECTORY: u32 = 0o040_555;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    Top,
    /// A file of /proc.
    Proc(usize),
    Cpus,
    /// A file of `cpu/`.
    Cpu(usize),
    /// `cpu/cpuN/`, and `online` in it.
    One(usize),
    Online(usize),
}

const OF_PROC: [&str; 5] = ["stat", "meminfo", "loadavg", PROCESSORS, "vmstat"];
const OF_CPUS: [&str; 5] = ["online", "present", "possible", "offline", "kernel_max"];
const CPUS: &str = "cpu";

impl Node {
    fn number(self) -> u64 {
        let behind = match self {
            Node::Top => 0,
            Node::Cpus => 1,
            Node::Proc(at) => 16 + at,
            Node::Cpu(at) => 32 + at,
            Node::One(processor) => 64 + 2 * processor,
            Node::Online(processor) => 65 + 2 * processor,
        };
        FIRST + behind as u64
    }

    fn of(number: u64) -> Option<Node> {
        let behind = usize::try_from(number.checked_sub(FIRST)?).ok()?;
        Some(match behind {
            0 => Node::Top,
            1 => Node::Cpus,
            16.. if behind < 16 + OF_PROC.len() => Node::Proc(behind - 16),
            32.. if behind < 32 + OF_CPUS.len() => Node::Cpu(behind - 32),
            64.. if behind % 2 == 0 => Node::One((behind - 64) / 2),
            64.. => Node::Online((behind - 64) / 2),
            _ => return None,
        })
    }

    fn is_directory(self) -> bool {
        matches!(self, Node::Top | Node::Cpus | Node::One(_))
    }
}

type Result<T> = std::result::Result<T, i32>;

/// What is served of it.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    pub(crate) cluster: Cluster,
    told: Mutex<HashMap<u64, Told>>,
}

impl Whole {
    /// Is this asked of one of them?
    pub(crate) fn is_asked(&self, asked: &Asked) -> bool {
        let by_name =
            matches!(&asked.what, What::Lookup(name) if asked.node == ROOT && name == ALL_MACHINES.as_bytes());
        by_name
            || Node::of(asked.node).is_some() && !matches!(asked.what, What::Names { .. } | What::CloseDirectory { .. })
    }

    /// The answer; `Some`: these names are in a directory that is opened.
    pub(crate) fn answer(&self, asked: &Asked, tree: &Tree, machines: &Machines) -> Result<Option<Vec<Named>>> {
        let unique = asked.unique;
        let node = Node::of(asked.node);
        match (&asked.what, node) {
            (What::Lookup(_), None) => tree.found(unique, &self.show(Node::Top, machines)?),
            (What::Lookup(name), Some(directory)) => {
                let name = std::str::from_utf8(name).map_err(|_| ENOENT)?;
                let found = self.below(directory, name, machines).ok_or(ENOENT)?;
                tree.found(unique, &self.show(found, machines)?);
            }
            (What::Attributes, Some(node)) => tree.attributes(unique, &self.show(node, machines)?),
            (What::OpenDirectory, Some(directory)) => return Ok(Some(self.names(directory, machines))),
            (What::Read { from, most }, Some(node)) => {
                let told = self.as_told(node, machines)?;
                let text = told.text.ok_or(ENOENT)?;
                let from = usize::try_from(*from).unwrap_or(usize::MAX).min(text.len());
                tree.data(unique, &text[from..text.len().min(from.saturating_add(*most))]);
            }
            (What::Write { .. }, _) => return Err(EACCES),
            (What::Nothing | What::Forget(_), _) => {}
            _ => return Err(ENOENT),
        }
        Ok(None)
    }

    fn show(&self, node: Node, machines: &Machines) -> Result<Shown> {
        let (node_number, name_us) = (node.number(), FOREVER_US);
        if node.is_directory() {
            return Ok(Shown { node: node_number, mode: DIRECTORY, name_us, kept_us: FOREVER_US, ..Shown::default() });
        }
        let told = self.now(node, machines)?;
        let kept_us = told.until_us.saturating_sub(monotonic_us());
        let Told { length: size, time_ns, .. } = told;
        Ok(Shown { node: node_number, mode: FILE, size, time_ns, name_us, kept_us, ..Shown::default() })
    }

    /// As the kernel was told last, which is what it reads.
    fn as_told(&self, node: Node, machines: &Machines) -> Result<Told> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).get(&node.number()).cloned();
        told.map_or_else(|| self.now(node, machines), Ok)
    }

    fn now(&self, node: Node, machines: &Machines) -> Result<Told> {
        let processors = matches!(node, Node::Proc(at) if OF_PROC[at] == PROCESSORS);
        let said = self.cluster.say(machines, processors);
        let has = |name: &str, number: &usize| said.processors(name).contains(number);
        let text = match node {
            Node::Proc(at) => said.text(OF_PROC[at]).ok_or(ENOENT)?,
            Node::Cpu(at) => match OF_CPUS[at] {
                "kernel_max" => format!("{}\n", said.processors("possible").last().unwrap_or(&0)).into_bytes(),
                "offline" => {
                    let all = said.processors("present");
                    sums::list(&all.into_iter().filter(|number| !has("online", number)).collect::<Vec<_>>())
                }
                name => sums::list(&said.processors(name)),
            },
            Node::Online(number) => format!("{}\n", u8::from(has("online", &number))).into_bytes(),
            Node::Top | Node::Cpus | Node::One(_) => return Err(ENOENT),
        };
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let told = Told::now(text, (0, 0), said.until_us(processors), all.get(&node.number()));
        all.insert(node.number(), told.clone());
        Ok(told)
    }

    fn below(&self, directory: Node, name: &str, machines: &Machines) -> Option<Node> {
        let at = |names: &[&str]| names.iter().position(|known| *known == name);
        match directory {
            Node::Top if name == CPUS => Some(Node::Cpus),
            Node::Top => at(&OF_PROC).map(Node::Proc),
            Node::Cpus => at(&OF_CPUS).map(Node::Cpu).or_else(|| {
                let number = name.strip_prefix("cpu")?.parse().ok()?;
                let is_it = name == format!("cpu{number}") && self.present(machines).contains(&number);
                is_it.then_some(Node::One(number))
            }),
            Node::One(number) => (name == "online").then_some(Node::Online(number)),
            Node::Proc(_) | Node::Cpu(_) | Node::Online(_) => None,
        }
    }

    fn present(&self, machines: &Machines) -> Vec<usize> {
        self.cluster.say(machines, false).processors("present")
    }

    fn names(&self, directory: Node, machines: &Machines) -> Vec<Named> {
        let all =
            |names: &[&str], mode: u32| names.iter().map(move |name| Named { name: (*name).into(), mode }).collect();
        match directory {
            Node::Top => [all(&OF_PROC, FILE), all(&[CPUS], DIRECTORY)].concat(),
            Node::Cpus => {
                let one = |number: usize| Named { name: format!("cpu{number}").into(), mode: DIRECTORY };
                let each: Vec<Named> = self.present(machines).into_iter().map(one).collect();
                [all(&OF_CPUS, FILE), each].concat()
            }
            _ => all(&["online"], FILE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_one_file() {
        let proc = (0..OF_PROC.len()).map(Node::Proc);
        let cpu = (0..OF_CPUS.len()).map(Node::Cpu);
        let each = (0..300).flat_map(|number| [Node::One(number), Node::Online(number)]);
        for node in [Node::Top, Node::Cpus].into_iter().chain(proc).chain(cpu).chain(each) {
            assert_eq!(Node::of(node.number()), Some(node));
        }
        assert_eq!((Node::of(ROOT), Node::of(FIRST + 2), Node::of(FIRST + 40)), (None, None, None));
    }
}
