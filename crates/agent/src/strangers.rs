//! Users of the front end whom this node does not know, or knows as somebody else: their programs run all the same, under the number, and the first one says so.

use kern::users;
use std::collections::BTreeSet;
use vocab::NodeId;

/// In bytes, longer than any name (useradd(8)).
const LONGEST: usize = 256;

/// The users of whom this node has said so.
#[derive(Debug, Default)]
pub(crate) struct Strangers(BTreeSet<u32>);

impl Strangers {
    /// The warning, given once, to user `uid` of this node, who is `user` where the program was asked for.
    pub(crate) fn warning(&mut self, node: NodeId, uid: u32, user: Option<&str>) -> Option<String> {
        // Text that is written before the program has begun must fit into its pipe.
        let user = user.filter(|user| uid != 0 && user.len() <= LONGEST && !self.0.contains(&uid))?;
        let here = users::name(uid);
        if here.is_none() && !users::are_all_listed() {
            return None;
        }
        let text = said(node, (uid, user), here.as_deref())?;
        self.0.insert(uid);
        Some(text)
    }
}

fn said(node: NodeId, (uid, user): (u32, &str), here: Option<&str>) -> Option<String> {
    let shown = kern::own::plain(user);
    match here {
        Some(here) if here == user => None,
        Some(here) => Some(format!("shoal: user {shown} ({uid}) is {here} on {node}\n")),
        None => {
            Some(format!("shoal: {node} does not know user {shown}: programs run there as the bare number {uid}\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_somebody_else_here_or_nobody_is_told() {
        let said = |here| said(NodeId(2), (1000, "ann"), here).unwrap_or_default();
        assert_eq!(said(Some("ann")), "");
        assert_eq!(said(Some("bob")), "shoal: user ann (1000) is bob on n2\n");
        assert!(said(None).contains("n2 does not know user ann"), "{}", said(None));
    }
}
