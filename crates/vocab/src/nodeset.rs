//! Nodes as users write them: `0`, `n0`, `front`, and sets of them: `0-3,7`.

use crate::{Fault, NodeId, Result};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// A list of node numbers in the order in which they were named, each once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeSet(Vec<NodeId>);

/// No cluster of ours has more; keeps `0-999999999` from filling the memory.
const MOST: i32 = 65_535;

impl NodeSet {
    /// Reads `0`, `0-3,7`; an optional `n` before a number is allowed, since that is how nodes are printed.
    pub fn parse(text: &str) -> Result<NodeSet> {
        let (mut nodes, mut named) = (Vec::new(), HashSet::new());
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((a, b)) => (number(a, text)?, number(b, text)?),
                None => (number(part, text)?, number(part, text)?),
            };
            if first > last {
                return Err(bad(text, "a range runs from the lower to the higher number"));
            }
            nodes.extend((first..=last).map(NodeId).filter(|node| named.insert(*node)));
        }
        Ok(NodeSet(nodes))
    }

    pub fn nodes(&self) -> &[NodeId] {
        &self.0
    }
}

impl FromStr for NodeId {
    type Err = Fault;

    /// One node, or the front end, as they are printed; the `n` may be missing.
    fn from_str(text: &str) -> Result<NodeId> {
        if text == NodeId::FRONT.to_string() {
            return Ok(NodeId::FRONT);
        }
        node(text).map(NodeId).ok_or_else(|| Fault::refused(format!("{text:?} is no node")))
    }
}

fn number(text: &str, whole: &str) -> Result<i32> {
    let text = text.trim();
    node(text).ok_or_else(|| bad(whole, &format!("{text:?} is no node number")))
}

fn node(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('n').unwrap_or(text);
    digits.parse().ok().filter(|n| (0..=MOST).contains(n) && !digits.starts_with('+'))
}

fn bad(whole: &str, why: &str) -> Fault {
    Fault::refused(format!("node list {whole:?}: {why}"))
}

impl From<Vec<NodeId>> for NodeSet {
    /// These, each named once.
    fn from(nodes: Vec<NodeId>) -> NodeSet {
        NodeSet(nodes)
    }
}

impl fmt::Display for NodeSet {
    /// In the order in which they were named, as [`NodeSet::parse`] reads them: `n0-3,n7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let follows = |before: &NodeId, node: &NodeId| before.0.checked_add(1) == Some(node.0);
        for (i, run) in self.0.chunk_by(follows).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{}", last.0)?,
                all => all.iter().try_for_each(|node| write!(f, "{comma}{node}"))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        let set = NodeSet::parse("0-3,7,n2").expect("a good list");
        assert_eq!(set.to_string(), "n0-3,n7");
        for text in ["n0", "n7,n3", "n0-22,n24-61", "n5-6,n8,n2-3"] {
            let set = NodeSet::parse(text).expect("a good list");
            assert_eq!(set.to_string(), text);
            assert_eq!(NodeSet::from(set.nodes().to_vec()), set);
        }
        assert_eq!(NodeSet::default().to_string(), "");
    }

    #[test]
    fn what_is_no_list_is_refused_with_the_reason() {
        for bad in ["", "x", "3-1", "-1", "1,,2", "0-99999999999", "+1"] {
            assert!(NodeSet::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_node_is_read_as_it_is_printed() {
        for node in [NodeId(0), NodeId(12), NodeId::FRONT] {
            assert_eq!(node.to_string().parse(), Ok(node));
        }
        assert_eq!("12".parse(), Ok(NodeId(12)));
        for bad in ["", "n", "-1", "nn1", "+1", "0-3", "fronts", "99999999999"] {
            assert!(bad.parse::<NodeId>().is_err(), "{bad:?}");
        }
    }
}
