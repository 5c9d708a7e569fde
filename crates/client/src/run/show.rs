//! How the output and the ends of several copies are shown, as far as bpsh wants them otherwise than `shoal run`.

use std::collections::BTreeMap;
use vocab::{Exit, NodeId, NodeSet};

/// By default as `shoal run` does: lines as they come, and nothing said of ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Show {
    /// Prefixes are bare numbers: `3: `.
    pub numbers: bool,
    /// The output of one copy after that of the other, in the order of the nodes.
    pub turns: bool,
    /// A line with the node's number before the output of each.
    pub dividers: bool,
    pub ends: Ends,
}

/// Of which copies it is said, after all, how they have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ends {
    #[default]
    None,
    /// Of those that have not ended with 0, where there are several copies.
    Failed,
    All,
    /// Of each at once, as a line of output behind its prefix: for a program that started them ([`END`]).
    Each,
}

/// The line of a copy's end begins with this, behind the prefix; the exit status follows (`shell_number`).
pub const END: &str = "=ended ";

impl Show {
    /// What is put before each line of `node`.
    pub(super) fn prefix(self, node: NodeId) -> String {
        if self.numbers {
            format!("{}: ", node.0)
        } else {
            format!("{node}: ")
        }
    }

    /// The line before the output of `node`, if one is wanted.
    pub(super) fn divider(self, node: NodeId) -> Option<String> {
        self.dividers.then(|| format!("{:<5}{}\n", node.0, "-".repeat(70)))
    }

    /// Is something to be said of how `copies` copies have ended?
    pub(super) fn tells_ends(self, copies: usize) -> bool {
        self.ends == Ends::All || self.ends == Ends::Failed && copies > 1
    }

    /// The line at once of one copy's end, if that is wanted.
    pub(super) fn end(self, node: NodeId, exit: Exit) -> Option<String> {
        (self.ends == Ends::Each).then(|| format!("{}{END}{}\n", self.prefix(node), exit.shell_number()))
    }

    /// What is said of the ends, a line for each sort of end: `n0-2,n7: exit 3`.
    pub(super) fn ends(self, ends: &[(NodeId, Exit)]) -> Vec<String> {
        if !self.tells_ends(ends.len()) {
            return Vec::new();
        }
        let mut sorts: BTreeMap<(i32, String), Vec<NodeId>> = BTreeMap::new();
        for (node, exit) in ends.iter().filter(|(_, exit)| self.ends == Ends::All || *exit != Exit::Code(0)) {
            sorts.entry((exit.shell_number(), exit.to_string())).or_default().push(*node);
        }
        let said = |((_, exit), mut nodes): ((i32, String), Vec<NodeId>)| {
            nodes.sort_unstable();
            format!("{}: {exit}", NodeSet::from(nodes))
        };
        sorts.into_iter().map(said).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Sig;

    #[test]
    fn ends_are_told_by_nodes() {
        let killed = Exit::Killed { sig: Sig::KILL, core: false };
        let all = [Exit::Code(0), Exit::Code(3), killed, Exit::Code(3), Exit::Code(0)];
        let ends: Vec<(NodeId, Exit)> = (0..5).map(NodeId).zip(all).rev().collect();
        let told = |ends_of| Show { ends: ends_of, ..Show::default() }.ends(&ends);
        assert_eq!(told(Ends::All), ["n0,n4: exit 0", "n1,n3: exit 3", "n2: killed by SIGKILL"]);
        assert_eq!(told(Ends::Failed), ["n1,n3: exit 3", "n2: killed by SIGKILL"]);
        assert!(told(Ends::None).is_empty());
        let one = [(NodeId(0), Exit::Code(1))];
        assert!(Show { ends: Ends::Failed, ..Show::default() }.ends(&one).is_empty());
        let each = Show { ends: Ends::Each, numbers: true, ..Show::default() };
        assert_eq!(each.end(NodeId(3), Exit::Code(1)).as_deref(), Some("3: =ended 1\n"));
        assert!(each.ends(&one).is_empty() && Show::default().end(NodeId(3), Exit::Code(1)).is_none());
    }
}
