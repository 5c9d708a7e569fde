//! Names of users.

use std::collections::HashMap;

/// Names by number of the users of this machine; none where passwd(5) cannot be read.
pub fn here() -> HashMap<u32, String> {
    names(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
}

/// Names by number from passwd(5). The static program does not use the C library's lookup, which loads plugins.
pub fn names(passwd: &str) -> HashMap<u32, String> {
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_string();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    // Of several names for one number the first counts, as for getpwuid(3).
    passwd.lines().rev().filter_map(entry).collect()
}

/// The name, or the number where there is none.
pub fn name_of(names: &HashMap<u32, String>, uid: u32) -> String {
    names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_number_counts() {
        let users = names("root:x:0:0::/root:/bin/sh\ntoor:x:0:0:::\nbroken\nann:x:1000:1000:::\n");
        assert_eq!(users[&0], "root");
        assert_eq!(users[&1000], "ann");
        assert_eq!(users.len(), 2);
        assert_eq!(name_of(&users, 7), "7");
    }
}
