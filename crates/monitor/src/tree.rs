//! Processes as a tree.

use std::collections::{HashMap, HashSet};
use vocab::Pid;

/// Parents before their children, and these in the order that they had; each with its depth: how many of its ancestors are there. `family` tells of one its
/// number and its parent's.
pub fn forest<T>(all: Vec<T>, family: impl Fn(&T) -> (Pid, Pid)) -> Vec<(usize, T)> {
    let pids: HashSet<Pid> = all.iter().map(|one| family(one).0).collect();
    let mut children: HashMap<Pid, Vec<usize>> = HashMap::new();
    let mut waiting = Vec::new();
    for (at, one) in all.iter().enumerate().rev() {
        let (pid, ppid) = family(one);
        match pids.contains(&ppid) && ppid != pid {
            true => children.entry(ppid).or_default().push(at),
            false => waiting.push((0, at)),
        }
    }
    let mut all: Vec<Option<T>> = all.into_iter().map(Some).collect();
    let mut sorted = Vec::with_capacity(all.len());
    while let Some((depth, at)) = waiting.pop() {
        let Some(one) = all[at].take() else { continue };
        let below = children.remove(&family(&one).0).unwrap_or_default();
        waiting.extend(below.into_iter().map(|child| (depth + 1, child)));
        sorted.push((depth, one));
    }
    // Nodes are asked one after the other, so what they say of parents may make a circle.
    sorted.extend(all.into_iter().flatten().map(|one| (0, one)));
    sorted
}

/// What stands before the command of one at this depth, as ps(1) draws a forest.
pub fn branch(depth: usize) -> String {
    // A chain of thousands would be all blanks.
    const DEEPEST: usize = 40;
    if depth == 0 {
        return String::new();
    }
    "    ".repeat(depth.min(DEEPEST) - 1) + " \\_ "
}
