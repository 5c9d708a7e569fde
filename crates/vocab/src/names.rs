//! Names of nodes: what a node calls itself beside its number, as users write it in lists of nodes.

use crate::{Fault, NodeId, Result};

/// The most bytes of a name: as of a host name (HOST_NAME_MAX).
const LONGEST: usize = 64;

/// Words that mean something else in a list of nodes.
const RESERVED: [&str; 10] =
    ["all", "allup", "up", "down", "boot", "error", "unavailable", "silent", "master", "front"];

/// Is it a name that a node may have? Letters, digits, `.`, `-` and `_`, a letter or a digit first; no number or range of nodes, and no word of the node language.
pub fn is_name(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    first && rest && text.len() <= LONGEST && !RESERVED.contains(&text) && !is_numbers(text)
}

/// A node number as it is printed or typed, or a range of two, or one without an end.
fn is_numbers(text: &str) -> bool {
    let number = |text: &str| {
        let digits = text.strip_prefix(['n', '.']).unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    match text.split_once('-') {
        Some((from, to)) => number(from) && (to.is_empty() || number(to)),
        None => number(text),
    }
}

/// The node with this name; `None` if no node has it.
///
/// # Errors
/// `Refused` if several nodes have it.
pub fn find(word: &str, names: &[(NodeId, &str)]) -> Result<Option<NodeId>> {
    if !is_name(word) {
        return Ok(None);
    }
    let called: Vec<NodeId> = names.iter().filter(|(_, name)| *name == word).map(|(node, _)| *node).collect();
    match called[..] {
        [] => Ok(None),
        [node] => Ok(Some(node)),
        [first, .., last] => Err(Fault::refused(format!(
            "{} nodes are called {word} ({first} and {last} among them): say their numbers",
            called.len()
        ))),
    }
}

/// A list of nodes with each name replaced by its number. Words that are no node's name stay.
///
/// # Errors
/// `Refused` for a name that several nodes have, or that is the state of a node as well.
pub fn numbers(list: &str, names: &[(NodeId, &str)], states: &[(NodeId, &str)]) -> Result<String> {
    let mut parts = Vec::new();
    for part in list.split(',') {
        let word = part.trim();
        parts.push(match find(word, names)? {
            Some(node) if states.iter().any(|(_, state)| *state == word) => {
                return Err(Fault::refused(format!(
                    "{word} is the name of node {node}, and a state that nodes are in: say its number"
                )))
            }
            Some(node) => node.to_string(),
            None => part.to_owned(),
        });
    }
    Ok(parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &[(NodeId, &str)] = &[
        (NodeId(0), "lab0"),
        (NodeId(1), "lab-1"),
        (NodeId(2), "notebook"),
        (NodeId(3), "twin"),
        (NodeId(4), "twin"),
        (NodeId(5), ""),
    ];

    #[test]
    fn a_name_is_no_number_range_or_word() {
        for name in ["lab3", "lab-3", "node-1", "a.example.org", "3com", "n", "n3x", "x_y", "notup", "1-a"] {
            assert!(is_name(name), "{name:?}");
        }
        let long = "x".repeat(LONGEST + 1);
        for text in [
            "", "3", "n3", ".3", "0-3", "n0-n3", "5-", "all", "up", "front", "-1", "-x", "a b", "a,b", "é", "a:b",
            &long,
        ] {
            assert!(!is_name(text), "{text:?}");
        }
    }

    #[test]
    fn names_become_numbers_and_all_else_stays() {
        let states = [(NodeId(0), "up"), (NodeId(1), "lab0")];
        assert_eq!(numbers("lab-1,0-3, notebook,up,x", NODES, &[]).as_deref(), Ok("n1,0-3,n2,up,x"));
        assert!(numbers("twin", NODES, &[])
            .expect_err("two")
            .to_string()
            .contains("2 nodes are called twin (n3 and n4"));
        assert!(numbers("lab0", NODES, &states).expect_err("a state").to_string().contains("a state"));
        assert_eq!(numbers("", NODES, &states).as_deref(), Ok(""));
    }
}
