//! The users and groups of this machine, by passwd(5) and group(5). The static program does not use the C library's lookup, which loads plugins.

/// The name of a user; of several names for one number the first counts, as for getpwuid(3).
pub fn name(uid: u32) -> Option<String> {
    name_in(&std::fs::read_to_string("/etc/passwd").ok()?, uid)
}

/// The name of a group, likewise.
pub fn group_name(gid: u32) -> Option<String> {
    name_in(&std::fs::read_to_string("/etc/group").ok()?, gid)
}

/// The number of the user of this name.
pub fn uid(name: &str) -> Option<u32> {
    number_in(&std::fs::read_to_string("/etc/passwd").ok()?, name)
}

/// The number of the group of this name.
pub fn gid(name: &str) -> Option<u32> {
    number_in(&std::fs::read_to_string("/etc/group").ok()?, name)
}

/// Does this machine know no users but those of passwd(5), as far as nsswitch.conf(5) says?
pub fn are_all_listed() -> bool {
    std::fs::read_to_string("/etc/nsswitch.conf").map_or(true, |text| listed_only(&text))
}

/// Name and number are the first and the third field of either file.
fn number_in(file: &str, name: &str) -> Option<u32> {
    let one = |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.split(':').nth(1)?.parse().ok();
    file.lines().find_map(one)
}

fn name_in(passwd: &str, uid: u32) -> Option<String> {
    let one = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_string())
    };
    passwd.lines().find_map(one)
}

/// Besides them systemd(1) knows users that it makes itself.
fn listed_only(nsswitch: &str) -> bool {
    let sources = nsswitch.lines().find_map(|line| line.trim_start().strip_prefix("passwd:"));
    let known = |word: &str| matches!(word, "files" | "compat" | "db" | "systemd") || word.starts_with(['[', '#']);
    sources.is_none_or(|line| line.split('#').next().unwrap_or_default().split_whitespace().all(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_number_counts() {
        let passwd = "root:x:0:0::/root:/bin/sh\ntoor:x:0:0:::\nbroken\nann:x:1000:1000:::\n";
        assert_eq!(name_in(passwd, 0).as_deref(), Some("root"));
        assert_eq!(name_in(passwd, 1000).as_deref(), Some("ann"));
        assert_eq!(name_in(passwd, 7), None);
        assert_eq!(
            (number_in(passwd, "ann"), number_in(passwd, "an"), number_in(passwd, "broken")),
            (Some(1000), None, None)
        );
    }

    #[test]
    fn users_of_a_network_are_not_listed() {
        for (text, all) in [
            ("", true),
            ("passwd: files systemd\n", true),
            ("hosts: files dns\npasswd:\tfiles [NOTFOUND=return] # ldap\n", true),
            ("passwd: files sss\n", false),
            ("  passwd: compat ldap\n", false),
        ] {
            assert_eq!(listed_only(text), all, "{text:?}");
        }
    }
}
