//! Where a new program goes: a pure function of what is known of the nodes and of what was asked.
#![forbid(unsafe_code)]

use std::cmp::Ordering;
use vocab::{Fault, Kind, NodeId, Result};

/// What is known of a node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeView {
    pub node: NodeId,
    /// It is linked.
    pub up: bool,
    /// It is, and its beat is overdue: busy, or about to be lost. It gets programs that name it, and others when all are so.
    pub quiet: bool,
    /// Processes of the space on it.
    pub bodies: u32,
    /// Programs placed on it that `bodies` does not count yet.
    pub pending: u32,
    /// Processors; 0 counts as 1.
    pub cores: u32,
    /// One-minute load average.
    pub load: f32,
}

/// Where the program is to run: `wire::run::Target`, word for word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The least loaded node that is up, round robin among equals; one that is quiet only when all are.
    Any,
    /// This many nodes, chosen likewise, each once; more than there are nodes goes round again.
    Count(u32),
    /// All nodes that are up, by number.
    All,
    /// These, in this order; one that is unknown or down is an error.
    Nodes(Vec<NodeId>),
}

/// Whose turn it is among equals: the node chosen last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn(NodeId);

impl Default for Turn {
    fn default() -> Turn {
        Turn(NodeId::FRONT)
    }
}

/// No one asks for more copies than this in one go: what they are told of each copy is to fit into one answer (`wire::frame`).
pub const MOST_COPIES: u32 = 1 << 16;

/// The nodes for one request, one for each copy.
///
/// # Errors
/// `unknown node n9`, `node n3 is down`, `no node is up`, and no copy or more than [`MOST_COPIES`].
pub fn place(view: &[NodeView], target: &Target, turn: &mut Turn) -> Result<Vec<NodeId>> {
    match target {
        Target::Any => least_loaded(view, 1, turn),
        Target::Count(n) => least_loaded(view, *n, turn),
        Target::All => all(view),
        Target::Nodes(nodes) => named(view, nodes),
    }
}

fn all(view: &[NodeView]) -> Result<Vec<NodeId>> {
    let mut nodes: Vec<NodeId> = view.iter().filter(|n| n.up).map(|n| n.node).collect();
    nodes.sort_unstable();
    if nodes.is_empty() {
        return Err(none_up());
    }
    Ok(nodes)
}

fn named(view: &[NodeView], nodes: &[NodeId]) -> Result<Vec<NodeId>> {
    if nodes.is_empty() {
        return Err(Fault::refused("no node is named"));
    }
    if nodes.len() > MOST_COPIES as usize {
        return Err(too_many(nodes.len()));
    }
    for node in nodes {
        match view.iter().find(|n| n.node == *node) {
            None => return Err(Fault::refused(format!("unknown node {node}"))),
            Some(n) if !n.up => return Err(Fault::gone(format!("node {node} is down"))),
            Some(_) => {}
        }
    }
    Ok(nodes.to_vec())
}

fn least_loaded(view: &[NodeView], copies: u32, turn: &mut Turn) -> Result<Vec<NodeId>> {
    if copies == 0 || copies > MOST_COPIES {
        return Err(too_many(copies as usize));
    }
    let mut nodes: Vec<&NodeView> = view.iter().filter(|n| n.up).collect();
    if nodes.iter().any(|n| !n.quiet) {
        nodes.retain(|n| !n.quiet);
    }
    nodes.sort_by(|a, b| busier(a, b).then_with(|| after(turn.0, a.node).cmp(&after(turn.0, b.node))));
    let chosen: Vec<NodeId> = nodes.iter().map(|n| n.node).cycle().take(copies as usize).collect();
    turn.0 = *chosen.last().ok_or_else(none_up)?;
    Ok(chosen)
}

/// Greater is busier: processes per core first, then load per core in tenths, so that noise does not end the round robin.
fn busier(a: &NodeView, b: &NodeView) -> Ordering {
    let processes = |n: &NodeView| u64::from(n.bodies) + u64::from(n.pending);
    let cores = |n: &NodeView| u64::from(n.cores.max(1));
    let tenths = |n: &NodeView| (n.load.max(0.0) * 10.0 / n.cores.max(1) as f32) as u64;
    (processes(a) * cores(b)).cmp(&(processes(b) * cores(a))).then_with(|| tenths(a).cmp(&tenths(b)))
}

/// Orders nodes beginning after the one that had its turn.
fn after(last: NodeId, node: NodeId) -> (bool, NodeId) {
    (node <= last, node)
}

fn too_many(copies: usize) -> Fault {
    Fault::refused(format!("cannot start {copies} copies: 1 to {MOST_COPIES} are possible"))
}

fn none_up() -> Fault {
    Fault::new(Kind::Gone, "no node is up")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(bodies: &[u32]) -> Vec<NodeView> {
        let node = |(i, &bodies): (usize, &u32)| NodeView {
            node: NodeId(i as i32),
            up: true,
            quiet: false,
            bodies,
            pending: 0,
            cores: 2,
            load: 0.0,
        };
        bodies.iter().enumerate().map(node).collect()
    }

    fn numbers(view: &[NodeView], target: Target, turn: &mut Turn) -> Vec<i32> {
        place(view, &target, turn).expect("a node is up").iter().map(|n| n.0).collect()
    }

    fn refusal(view: &[NodeView], target: Target) -> String {
        place(view, &target, &mut Turn::default()).expect_err("nothing to choose").to_string()
    }

    #[test]
    fn equals_take_turns() {
        let (v, mut turn) = (view(&[0, 0, 0]), Turn::default());
        let got: Vec<i32> = (0..7).flat_map(|_| numbers(&v, Target::Any, &mut turn)).collect();
        assert_eq!(got, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn the_least_loaded_goes_first_and_cores_count() {
        let mut v = view(&[4, 1, 2]);
        assert_eq!(numbers(&v, Target::Any, &mut Turn::default()), [1]);
        v[0].cores = 64;
        assert_eq!(numbers(&v, Target::Any, &mut Turn::default()), [0]);
        v[1].pending = 9;
        assert_eq!(numbers(&v, Target::Count(3), &mut Turn::default()), [0, 2, 1]);
    }

    #[test]
    fn load_decides_between_equal_counts_but_not_its_noise() {
        let mut v = view(&[1, 1]);
        v[0].load = 3.0;
        assert_eq!(numbers(&v, Target::Any, &mut Turn::default()), [1]);
        v[0].load = 0.01;
        assert_eq!(numbers(&v, Target::Any, &mut Turn::default()), [0]);
    }

    #[test]
    fn a_count_beyond_the_nodes_goes_round_again() {
        let (v, mut turn) = (view(&[0, 0, 0]), Turn::default());
        assert_eq!(numbers(&v, Target::Count(5), &mut turn), [0, 1, 2, 0, 1]);
        assert_eq!(numbers(&v, Target::Any, &mut turn), [2]);
    }

    #[test]
    fn nodes_that_are_down_are_left_out() {
        let mut v = view(&[0, 0, 5]);
        v[0].up = false;
        assert_eq!(numbers(&v, Target::All, &mut Turn::default()), [1, 2]);
        assert_eq!(numbers(&v, Target::Count(2), &mut Turn::default()), [1, 2]);
    }

    #[test]
    fn a_quiet_node_gets_what_names_it_and_others_when_all_are() {
        let mut v = view(&[0, 5]);
        v[0].quiet = true;
        assert_eq!(numbers(&v, Target::Count(2), &mut Turn::default()), [1, 1]);
        assert_eq!(numbers(&v, Target::All, &mut Turn::default()), [0, 1]);
        assert_eq!(numbers(&v, Target::Nodes(vec![NodeId(0)]), &mut Turn::default()), [0]);
        v[1].quiet = true;
        assert_eq!(numbers(&v, Target::Any, &mut Turn::default()), [0]);
    }

    #[test]
    fn named_nodes_keep_their_order() {
        let named = Target::Nodes(vec![NodeId(2), NodeId(0)]);
        assert_eq!(numbers(&view(&[9, 0, 0]), named, &mut Turn::default()), [2, 0]);
    }

    #[test]
    fn what_cannot_be_is_said_in_words() {
        let mut v = view(&[0, 0, 0, 0]);
        v[3].up = false;
        assert_eq!(refusal(&v, Target::Nodes(vec![NodeId(9)])), "unknown node n9");
        assert_eq!(refusal(&v, Target::Nodes(vec![NodeId(0), NodeId(3)])), "node n3 is down");
        assert_eq!(refusal(&[], Target::Any), "no node is up");
        assert_eq!(refusal(&[], Target::All), "no node is up");
        assert_eq!(refusal(&v, Target::Count(0)), "cannot start 0 copies: 1 to 65536 are possible");
        let many = "cannot start 65537 copies: 1 to 65536 are possible";
        assert_eq!(refusal(&v, Target::Count(MOST_COPIES + 1)), many);
        assert_eq!(refusal(&v, Target::Nodes(vec![NodeId(0); MOST_COPIES as usize + 1])), many);
        assert_eq!(refusal(&v, Target::Nodes(vec![])), "no node is named");
    }
}
