//! A user of this machine, as whatever the machine is set up with says (files, LDAP and others: nsswitch.conf(5)), which getent(1) and id(1) can ask and a program
//! without a C library's modules cannot.

use std::ffi::OsString;
use std::process::Command;
use vocab::{Fault, Result};

/// Who a program is to be run as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    home: OsString,
    pub(crate) shell: OsString,
}

impl Account {
    /// Who has called sudo.
    ///
    /// # Errors
    /// `Refused` where nobody has, or the machine does not know them.
    pub(crate) fn of_sudo() -> Result<Account> {
        let missing = || {
            Fault::refused("give the shell to who called sudo: SUDO_UID, SUDO_GID and SUDO_USER do not tell who did")
        };
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
        let (uid, gid) = number("SUDO_UID").zip(number("SUDO_GID")).ok_or_else(missing)?;
        let name = std::env::var("SUDO_USER").ok().filter(|name| !name.is_empty()).ok_or_else(missing)?;
        let unknown = |e: Fault| e.doing(format!("ask who user {name} is"));
        let entry = said("getent", &["passwd", "--", &uid.to_string()]).map_err(unknown)?;
        let (home, shell) = home_and_shell(&entry);
        let groups = said("id", &["-G", "--", &name]).map_err(unknown)?;
        let groups = groups.split_ascii_whitespace().filter_map(|group| group.parse().ok()).collect();
        Ok(Account { name, uid, gid, groups, home, shell })
    }

    /// The calling process becomes that user's, for good.
    ///
    /// # Errors
    /// As [`kern::view::become_user`].
    pub(crate) fn become_it(&self) -> Result<()> {
        kern::view::become_user(self.uid, self.gid, &self.groups)
    }

    /// What differs in the environment.
    pub(crate) fn environment(&self) -> [(&'static str, OsString); 4] {
        let name = OsString::from(&self.name);
        [("USER", name.clone()), ("LOGNAME", name), ("HOME", self.home.clone()), ("SHELL", self.shell.clone())]
    }
}

fn said(program: &str, words: &[&str]) -> Result<String> {
    let done = Command::new(program).args(words).output().map_err(|e| Fault::io(&e, format!("run {program}")))?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(Fault::refused(format!("{program} {} knows nobody", words.join(" ")))),
    }
}

/// Of a line of passwd(5).
fn home_and_shell(entry: &str) -> (OsString, OsString) {
    let mut fields = entry.trim_end().split(':').skip(5);
    let mut next = |otherwise: &str| match fields.next() {
        None | Some("") => otherwise.into(),
        Some(field) => field.into(),
    };
    (next("/"), next("/bin/sh"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_in_an_entry_has_its_default() {
        let of = |entry: &str| home_and_shell(entry);
        assert_eq!(of("ann:x:7:8:Ann,,:/home/ann:/bin/bash\n"), ("/home/ann".into(), "/bin/bash".into()));
        assert_eq!(of("ann:x:7:8:Ann::\n"), ("/".into(), "/bin/sh".into()));
        assert_eq!(of(""), ("/".into(), "/bin/sh".into()));
    }

    #[test]
    fn nobody_is_known_by_no_number() {
        assert!(said("getent", &["passwd", "--", "4294967290"]).is_err());
        assert!(
            said("id", &["-G", "--", "root"]).is_ok_and(|groups| groups.split_whitespace().any(|group| group == "0"))
        );
    }
}
