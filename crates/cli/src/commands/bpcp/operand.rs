//! Operands of `bpcp`: files to copy, and the place for them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use vocab::{NodeId, Result};

/// One operand: on a node, on nodes, or on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Operand {
    pub(super) node: Option<NodeId>,
    /// Several, as `vocab::select` reads them: which, and whether there are any, the daemon knows.
    pub(super) nodes: Option<String>,
    pub(super) path: OsString,
}

impl Operand {
    /// A name with a colon is on a node, unless a slash comes before it (`./a:b`).
    pub(super) fn parse(word: &OsStr) -> Result<Operand> {
        let here = || Operand { node: None, nodes: None, path: word.to_os_string() };
        let bytes = word.as_bytes();
        let Some(colon) = bytes.iter().position(|byte| *byte == b':') else { return Ok(here()) };
        let (node, path) = (&bytes[..colon], &bytes[colon + 1..]);
        if node.contains(&b'/') {
            return Ok(here());
        }
        let name = String::from_utf8_lossy(node);
        let (node, nodes) = match &*name {
            "master" | "-1" => (Some(NodeId::FRONT), None),
            name => match name.strip_prefix('.').unwrap_or(name).parse() {
                Ok(node) => (Some(node), None),
                Err(fault) if name.is_empty() => return Err(fault),
                Err(_) => (None, Some(name.to_string())),
            },
        };
        let path = if path.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(path) };
        Ok(Operand { node, nodes, path: path.to_os_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_names_a_node_unless_a_slash_comes_before_it() {
        let parse = |word: &str| Operand::parse(OsStr::new(word)).ok();
        let on = |node: i32, path: &str| Some(Operand { node: Some(NodeId(node)), nodes: None, path: path.into() });
        let here = |path: &str| Some(Operand { node: None, nodes: None, path: path.into() });
        let all = |nodes: &str| Some(Operand { node: None, nodes: Some(nodes.into()), path: "a".into() });
        assert_eq!(parse("3:/a:b"), on(3, "/a:b"));
        assert_eq!(parse("n3:a"), on(3, "a"));
        assert_eq!(parse(".3:"), on(3, "."));
        assert_eq!(parse("master:x"), on(-1, "x"));
        assert_eq!(parse("-1:x"), on(-1, "x"));
        assert_eq!(parse("./a:b"), here("./a:b"));
        assert_eq!(parse("a"), here("a"));
        assert_eq!(parse("0-3,7:a"), all("0-3,7"));
        assert_eq!(parse("up:a"), all("up"));
        assert_eq!(parse(":a"), None);
    }
}
