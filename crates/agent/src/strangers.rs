//! Users whose programs this node takes: those that its configuration allows. Of users of the front end whom the node does not know, or knows as somebody else, it takes none, or with a
//! warning to the first one.

use crate::config::UsersConfig;
use kern::users;
use link::allow::Allow;
use std::collections::BTreeSet;
use tracing::{info, warn};
use vocab::{Creds, Fault, NodeId, Result};

/// In bytes, longer than any name (useradd(8)).
const LONGEST: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    allow: Allow,
    refuse: bool,
    /// The users of whom this node has said that it does not know them.
    told: BTreeSet<u32>,
}

/// A node's knowledge of a user of the front end.
#[derive(PartialEq, Eq, Debug)]
enum Known {
    Yes,
    No(String),
    /// The files of one of the machines do not tell: worth a line in the log.
    Perhaps(String),
}

impl Strangers {
    pub(crate) fn of(config: &UsersConfig) -> Strangers {
        let allow = Allow::of(config.allow.as_deref());
        let unknown = allow.unknown();
        if !unknown.is_empty() {
            warn!("allow names whom this machine's passwd(5) and group(5) do not know: {}", unknown.join(", "));
        }
        Strangers { allow, refuse: config.refuse_unknown, told: BTreeSet::new() }
    }

    /// A program of these credentials is to start, of the user who is `user` on the front end; `is_of_front`: it sees the front end's files, and with them its users. The warning that it is to be given,
    /// once for each user.
    ///
    /// # Errors
    /// `Refused` for whom the node does not take.
    pub(crate) fn admits(
        &mut self,
        node: NodeId,
        creds: &Creds,
        user: Option<&str>,
        is_of_front: bool,
    ) -> Result<Option<String>> {
        self.allow.admits(creds)?;
        let uid = creds.uid.effective;
        // Root has one number everywhere.
        let known = if uid == 0 || is_of_front { Known::Yes } else { known(node, uid, user) };
        let (text, is_sure) = match known {
            Known::Yes => return Ok(None),
            Known::No(text) => (text, true),
            Known::Perhaps(text) => (text, false),
        };
        if self.refuse {
            return Err(Fault::refused(format!("{text} (unknown_users)")));
        }
        if !self.told.insert(uid) {
            return Ok(None);
        }
        if !is_sure {
            info!("{text}");
        }
        Ok(is_sure.then(|| format!("shoal: {text}: programs run there as the bare number {uid}\n")))
    }

    /// A process of these credentials is to come; `asker` has asked for that, or root.
    ///
    /// # Errors
    /// As [`Strangers::admits`].
    pub(crate) fn takes(
        &mut self,
        node: NodeId,
        creds: &Creds,
        asker: Option<&Creds>,
        user: Option<&str>,
    ) -> Result<()> {
        asker.map_or(Ok(()), |asker| self.allow.admits(asker))?;
        if let (uid @ 1.., Known::No(text) | Known::Perhaps(text)) =
            (creds.uid.effective, known(node, creds.uid.effective, user))
        {
            if self.refuse {
                return Err(Fault::refused(format!("{text} (unknown_users)")));
            }
            if self.told.insert(uid) {
                warn!("{text}: a process that comes runs as the number {uid}");
            }
        }
        Ok(())
    }
}

fn known(node: NodeId, uid: u32, user: Option<&str>) -> Known {
    // Text that is written before the program has begun must fit into its pipe.
    let user = user.filter(|user| user.len() <= LONGEST);
    compare(node, (uid, user), users::name(uid).as_deref(), users::are_all_listed())
}

fn compare(node: NodeId, (uid, user): (u32, Option<&str>), here: Option<&str>, all_listed: bool) -> Known {
    let shown = user.map(kern::own::plain);
    match (shown, here) {
        (Some(_), Some(here)) if user == Some(here) => Known::Yes,
        (Some(shown), Some(here)) => Known::No(format!("user {shown} ({uid}) is {here} on {node}")),
        (Some(shown), None) if all_listed => Known::No(format!("{node} does not know user {shown}")),
        // A number without a name is the same on both: worth a line in the log.
        (None, None) if all_listed => {
            Known::Perhaps(format!("{node} does not know user {uid}, nor is there a name on the front end"))
        }
        (Some(shown), None) => Known::Perhaps(format!(
            "{node} cannot tell whether user {shown} ({uid}) is known there: nsswitch.conf(5) names more than files"
        )),
        (None, _) => Known::Perhaps(format!(
            "{node} cannot tell who user {uid} is on the front end, whose passwd(5) has no such user"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Ids;

    fn said(known: Known) -> (bool, String) {
        match known {
            Known::Yes => (true, String::new()),
            Known::No(text) => (false, text),
            Known::Perhaps(text) => (true, text),
        }
    }

    #[test]
    fn who_is_somebody_else_here_or_nobody_is_told() {
        let of = |user, here, listed| said(compare(NodeId(2), (1000, user), here, listed));
        assert_eq!(of(Some("ann"), Some("ann"), true), (true, String::new()));
        assert_eq!(of(Some("ann"), Some("bob"), false), (false, "user ann (1000) is bob on n2".into()));
        assert_eq!(of(Some("ann"), None, true), (false, "n2 does not know user ann".into()));
        assert_eq!(
            of(None, None, true),
            (true, "n2 does not know user 1000, nor is there a name on the front end".into())
        );
        for (user, here) in [(Some("ann"), None), (None, Some("bob")), (None, None)] {
            let (perhaps, text) = of(user, here, false);
            assert!(perhaps && text.contains("cannot tell"), "{user:?} {here:?}: {text}");
        }
    }

    #[test]
    fn a_stranger_is_refused_or_warned_of_once() {
        // No machine has it.
        let creds = Creds { uid: Ids::all(4_000_001), gid: Ids::all(1), groups: Vec::new() };
        let root = Creds { uid: Ids::all(0), ..creds.clone() };
        let node = NodeId(2);
        let mut warns = Strangers::default();
        let first = warns.admits(node, &creds, Some("ann"), false).expect("a warning");
        assert_eq!(first.is_some(), users::are_all_listed());
        assert_eq!(warns.admits(node, &creds, Some("ann"), false), Ok(None), "once");
        let mut refuses = Strangers { refuse: true, ..Strangers::default() };
        assert!(refuses.admits(node, &creds, Some("ann"), false).is_err());
        assert!(refuses.takes(node, &creds, None, Some("ann")).is_err());
        assert_eq!(refuses.admits(node, &creds, Some("ann"), true), Ok(None), "the users are the front end's");
        assert_eq!(refuses.admits(node, &root, Some("root"), false), Ok(None));
        let mut none = Strangers { allow: Allow::of(Some(&[])), ..Strangers::default() };
        assert!(
            none.admits(node, &creds, Some("ann"), true).is_err()
                && none.takes(node, &creds, Some(&creds), None).is_err()
        );
        assert!(none.admits(node, &root, None, false).is_ok());
        assert!(none.takes(node, &creds, None, None).is_ok(), "root has it moved");
    }
}
