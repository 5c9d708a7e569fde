//! Users and groups whose programs a front end or a node takes, by name or number, as a configuration lists them (`allow`).

use kern::clock::monotonic_us;
use kern::users;
use std::cell::RefCell;
use vocab::{Creds, Fault, Result};

/// How long the numbers of names are kept, in microseconds: many nodes are looked at for one program.
const KEPT_US: u64 = 1_000_000;
/// The most bytes of an entry: longer than any name (useradd(8)).
const LONGEST: usize = 256;

/// See the module; by default everybody's.
#[derive(Debug, Default)]
pub struct Allow {
    /// `None`: everybody's.
    list: Option<Vec<String>>,
    kept: RefCell<Option<Kept>>,
}

/// The numbers of the list, as this machine has them.
#[derive(Debug)]
struct Kept {
    since_us: u64,
    users: Vec<u32>,
    groups: Vec<u32>,
}

/// Is it an entry that a list may have: `alice`, `@lab`, `1000`, `@100`?
pub fn is_entry(text: &str) -> bool {
    let name = text.strip_prefix('@').unwrap_or(text);
    let printable = |byte: u8| byte.is_ascii_graphic() && !b":,@".contains(&byte);
    !name.is_empty() && text.len() <= LONGEST && name.bytes().all(printable)
}

impl Allow {
    /// The users and groups of this list; what is no entry names nobody. `None`: everybody.
    pub fn of(list: Option<&[String]>) -> Allow {
        let good = |entries: &[String]| entries.iter().filter(|entry| is_entry(entry)).cloned().collect();
        Allow { list: list.map(good), kept: RefCell::default() }
    }

    /// Entries whose names this machine does not know.
    pub fn unknown(&self) -> Vec<&str> {
        let all = self.list.iter().flatten().map(String::as_str);
        all.filter(|entry| number(entry).is_none()).collect()
    }

    /// May a process with these credentials start programs here? Root always may.
    ///
    /// Of a client the kernel has noted the effective ids when it connected, and the supplementary groups, to which every login adds the first group. A group in the list is one of those: a set-group-ID program
    /// brings nobody into it. A set-user-ID program of a user in the list acts as that user, here as with files.
    ///
    /// # Errors
    /// `Refused`, with the list.
    pub fn admits(&self, creds: &Creds) -> Result<()> {
        let Some(list) = &self.list else { return Ok(()) };
        let (real, effective) = (creds.uid.real, creds.uid.effective);
        if effective == 0 {
            return Ok(());
        }
        let one_user = real == effective || real == 0;
        let admitted = self.with_numbers(list, |kept| {
            let is_in = |gid: &u32| creds.groups.contains(gid);
            one_user && (kept.users.contains(&effective) || kept.groups.iter().any(is_in))
        });
        match admitted {
            true => Ok(()),
            false => {
                let user = users::name(effective).unwrap_or_else(|| effective.to_string());
                let whom = if list.is_empty() { "root alone".into() } else { list.join(", ") };
                Err(Fault::refused(format!("user {user} may not start programs there: that is for {whom} (allow)")))
            }
        }
    }

    fn with_numbers<T>(&self, list: &[String], with: impl FnOnce(&Kept) -> T) -> T {
        let now = monotonic_us();
        let mut kept = self.kept.borrow_mut();
        let is_fresh = kept.as_ref().is_some_and(|kept| now < kept.since_us + KEPT_US);
        match kept.as_ref().filter(|_| is_fresh) {
            Some(kept) => with(kept),
            None => with(kept.insert(Kept::of(list, now))),
        }
    }
}

impl Kept {
    fn of(list: &[String], since_us: u64) -> Kept {
        let (groups, users): (Vec<&String>, Vec<&String>) = list.iter().partition(|entry| entry.starts_with('@'));
        let numbers = |entries: Vec<&String>| entries.into_iter().filter_map(|entry| number(entry)).collect();
        Kept { since_us, users: numbers(users), groups: numbers(groups) }
    }
}

/// As chown(1) reads them: a name before a number.
fn number(entry: &str) -> Option<u32> {
    let found = match entry.strip_prefix('@') {
        Some(group) => users::gid(group).or_else(|| group.parse().ok()),
        None => users::uid(entry).or_else(|| entry.parse().ok()),
    };
    found.filter(|number| *number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Ids;

    fn creds(real: u32, effective: u32, (real_group, effective_group): (u32, u32), groups: &[u32]) -> Creds {
        let uid = Ids { real, effective, saved: effective, fs: effective };
        let gid = Ids { real: real_group, effective: effective_group, saved: effective_group, fs: effective_group };
        Creds { uid, gid, groups: groups.to_vec() }
    }

    fn of(list: &[&str]) -> Allow {
        Allow::of(Some(&list.iter().map(|entry| entry.to_string()).collect::<Vec<_>>()))
    }

    #[test]
    fn users_and_groups_of_the_list_and_root_are_let_in() {
        let allow = of(&["1000", "@50"]);
        let table = [
            ("the user", creds(1000, 1000, (7, 7), &[]), true),
            ("another", creds(1001, 1001, (7, 7), &[1000]), false),
            ("of the group by login", creds(1001, 1001, (50, 50), &[50]), true),
            ("of the group by itself", creds(1001, 1001, (50, 50), &[]), false),
            ("of the group besides", creds(1001, 1001, (7, 7), &[1, 50]), true),
            ("by a set-group-ID program", creds(1001, 1001, (7, 50), &[]), false),
            ("of two users", creds(1001, 1000, (7, 7), &[]), false),
            ("of the group, and of two users", creds(1001, 1002, (7, 7), &[50]), false),
            ("a daemon of root's that acts for the user", creds(0, 1000, (0, 0), &[]), true),
            ("a daemon of root's that acts for another", creds(0, 1001, (0, 0), &[]), false),
            ("root", creds(1001, 0, (7, 7), &[]), true),
        ];
        for (who, creds, may) in table {
            assert_eq!(allow.admits(&creds).is_ok(), may, "{who}");
        }
    }

    #[test]
    fn nobody_or_everybody() {
        let user = creds(1000, 1000, (50, 50), &[]);
        assert!(Allow::default().admits(&user).is_ok() && Allow::of(None).admits(&user).is_ok());
        assert!(of(&[]).admits(&user).expect_err("nobody").to_string().contains("root alone"));
        assert!(of(&["no-such-user", "@no-such-group"]).admits(&user).is_err());
        assert_eq!(of(&["root", "no-such-user", "@no-such-group", "7"]).unknown(), ["no-such-user", "@no-such-group"]);
        assert_eq!(of(&["4294967295"]).unknown(), ["4294967295"], "nobody's number");
    }

    #[test]
    fn an_entry_is_a_name_or_a_number() {
        assert!(["alice", "@lab", "1000", "@100", "a.b-c_d$"].iter().all(|entry| is_entry(entry)));
        assert!(["", "@", "a b", "a:b", "a,b", "@@x", "\u{e9}", "a\nb"].iter().all(|entry| !is_entry(entry)));
    }
}
