//! What the kernel says of its own types (BTF; linux: Documentation/bpf/btf.rst), as far as a name leads to a number.

use vocab::{Fault, Result};

/// All types, as the kernel gives them.
#[derive(Debug)]
pub(crate) struct Types {
    bytes: Vec<u8>,
    /// Where types begin and end, and where their names begin.
    parts: (usize, usize, usize),
}

/// One type: what it is, and what follows it.
#[derive(Clone, Copy)]
struct Type {
    id: u32,
    kind: u32,
    name: u32,
    members: usize,
    /// The upper byte of a member's offset is the size of a bit field.
    fields: bool,
    /// Where the members are.
    at: usize,
}

const STRUCT: u32 = 4;
const FUNCTION: u32 = 12;
/// Bytes of a member: name, type, offset in bits.
const MEMBER: usize = 12;

impl Types {
    /// # Errors
    /// `Sys` of a kernel without.
    pub(crate) fn read() -> Result<Types> {
        let path = "/sys/kernel/btf/vmlinux";
        let bytes = std::fs::read(path).map_err(|e| Fault::io(&e, format!("read {path}")))?;
        let mut types = Types { bytes, parts: (0, 0, 0) };
        let [header, first, length, names] = [4, 8, 12, 16].map(|at| types.word(at) as usize);
        types.parts = (header + first, header + first + length, header + names);
        Ok(types)
    }

    /// The number of a function.
    pub(crate) fn function(&self, name: &str) -> Option<u32> {
        self.all().find(|one| one.kind == FUNCTION && self.is_named(one.name, name)).map(|one| one.id)
    }

    /// Where in the struct the member is, in bits. Those of nameless structs within are not found.
    pub(crate) fn member(&self, of: &str, name: &str) -> Option<u32> {
        let one = self.all().find(|one| one.kind == STRUCT && self.is_named(one.name, of))?;
        let member = (0..one.members).map(|i| one.at + i * MEMBER).find(|at| self.is_named(self.word(*at), name))?;
        let offset = self.word(member + 8);
        Some(if one.fields { offset & 0xff_ffff } else { offset })
    }

    fn all(&self) -> impl Iterator<Item = Type> + '_ {
        let (mut at, end, _) = self.parts;
        (1..).map_while(move |id| {
            if at + 12 > end.min(self.bytes.len()) {
                return None;
            }
            let info = self.word(at + 4);
            let (kind, count) = (info >> 24 & 31, info as usize & 0xffff);
            let one = Type { id, kind, name: self.word(at), members: count, fields: info >> 31 != 0, at: at + 12 };
            at += 12 + following(kind, count);
            Some(one)
        })
    }

    fn is_named(&self, at: u32, name: &str) -> bool {
        let bytes = self.bytes.get(self.parts.2 + at as usize..).unwrap_or_default();
        bytes.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// 0 beyond the end.
    fn word(&self, at: usize) -> u32 {
        self.bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
    }
}

/// How many bytes follow a type of this kind.
fn following(kind: u32, count: usize) -> usize {
    match kind {
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structs, unions, sections, large enumerations.
        4 | 5 | 15 | 19 => count * MEMBER,
        // Enumerations, prototypes.
        6 | 13 => count * 8,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_types_are_found() {
        let kernel = Types::read().expect("this kernel has BTF");
        assert!(kernel.function("bpf_iter_task").is_some() && kernel.function("no_such_function").is_none());
        // list_head { next, prev }, and a bit field of one byte.
        assert_eq!((kernel.member("list_head", "next"), kernel.member("list_head", "prev")), (Some(0), Some(64)));
        assert!(kernel.member("signal_struct", "is_child_subreaper").is_some_and(|bit| bit > 0 && bit < 1 << 16));
        assert_eq!(kernel.member("list_head", "nobody"), None);
    }
}
