//! Sets of nodes in C's memory.

use super::nodes::{in_c, nodes_alone};
use super::text::{null, size, text};
use super::types::{NodeInfo, NodeSet};
use super::words;
use crate::said::{called, Done, Failed};
use std::ffi::{c_char, c_int, CStr};
use vocab::{Kind, NodeId};

/// A set has room for this many more at least when it grows.
const STEP: usize = 16;

impl NodeSet {
    /// An empty set with room for so many. What it was before does not count.
    pub(super) fn begin(&mut self, room: usize) -> Done<()> {
        (self.size, self.alloc, self.node) = (0, 0, std::ptr::null_mut());
        self.grow(room)
    }

    fn grow(&mut self, room: usize) -> Done<()> {
        if room <= self.alloc.max(0) as usize {
            return Ok(());
        }
        let none = || Failed::new(libc::ENOMEM, format!("room for a set of {room} nodes"));
        let alloc = c_int::try_from(room).map_err(|_| none())?;
        let bytes = room.checked_mul(size_of::<NodeInfo>()).ok_or_else(none)?;
        // SAFETY: null, or what this function has made.
        let node = unsafe { libc::realloc(self.node.cast(), bytes) };
        if node.is_null() {
            return Err(none());
        }
        (self.alloc, self.node) = (alloc, node.cast());
        Ok(())
    }

    pub(super) fn extend(&mut self, with: &[NodeInfo]) -> Done<()> {
        let size = size(self.size, "a set of nodes")?;
        let whole = size + with.len();
        if whole > self.alloc.max(0) as usize {
            self.grow(whole.max(size + STEP))?;
        }
        // SAFETY: there is room for that many behind the first `size`.
        unsafe { std::ptr::copy_nonoverlapping(with.as_ptr(), self.node.add(size), with.len()) };
        self.size = whole as c_int;
        Ok(())
    }

    fn nodes(&self) -> Vec<NodeInfo> {
        let size = usize::try_from(self.size).unwrap_or(0);
        match self.node.is_null() || size == 0 {
            true => Vec::new(),
            // SAFETY: a set has as many as it says.
            false => unsafe { std::slice::from_raw_parts(self.node, size) }.to_vec(),
        }
    }
}

/// A set of the caller's.
///
/// # Safety
/// Null, or one that nobody else uses meanwhile.
unsafe fn set<'a>(at: *mut NodeSet) -> Done<&'a mut NodeSet> {
    // SAFETY: as is asked for above.
    unsafe { at.as_mut() }.ok_or_else(|| null("a set of nodes"))
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodeset_init(ns: *mut NodeSet, room: c_int) -> c_int {
    // SAFETY: null, or the caller's.
    let done = || unsafe { set(ns) }?.begin(size(room, "bproc_nodeset_init")?).map(|()| 0);
    called(done)
}

/// There is room for `room` nodes in all.
#[no_mangle]
pub(super) extern "C" fn bproc_nodeset_grow(ns: *mut NodeSet, room: c_int) -> c_int {
    // SAFETY: null, or the caller's.
    let done = || unsafe { set(ns) }?.grow(size(room, "bproc_nodeset_grow")?).map(|()| 0);
    called(done)
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodeset_free(ns: *mut NodeSet) {
    // SAFETY: null, or the caller's.
    let Ok(ns) = (unsafe { set(ns) }) else { return };
    // SAFETY: null, or what `grow` has made.
    unsafe { libc::free(ns.node.cast()) };
    (ns.size, ns.alloc, ns.node) = (0, 0, std::ptr::null_mut());
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodeset_add(ns: *mut NodeSet, info: *mut NodeInfo) -> c_int {
    let done = || {
        // SAFETY: null, or the caller's.
        let (ns, info) = unsafe { (set(ns)?, info.as_ref()) };
        ns.extend(&[*info.ok_or_else(|| null("bproc_nodeset_add"))?]).map(|()| 0)
    };
    called(done)
}

/// What `b` has comes behind what `a` has.
#[no_mangle]
pub(super) extern "C" fn bproc_nodeset_append(a: *mut NodeSet, b: *mut NodeSet) -> c_int {
    let done = || {
        // SAFETY: null, or the caller's; the second is read before the first is written, so they may be the same.
        let more = unsafe { set(b) }?.nodes();
        // SAFETY: as above.
        unsafe { set(a) }?.extend(&more).map(|()| 0)
    };
    called(done)
}

/// # Safety
/// `str` is a text, or null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_nodefilter(out: *mut NodeSet, of: *mut NodeSet, spec: *const c_char) -> c_int {
    let done = || {
        // SAFETY: null, or the caller's; it is read before the other is written.
        let of = unsafe { set(of) }?.nodes();
        // SAFETY: null, or the caller's.
        let (out, spec) = unsafe { (set(out)?, text(spec, "bproc_nodefilter")?) };
        select(out, &of, spec)
    };
    called(done)
}

/// # Safety
/// `str` is a text, or null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_nodespec(out: *mut NodeSet, spec: *const c_char) -> c_int {
    let done = || {
        // SAFETY: null, or the caller's.
        let (out, spec) = unsafe { (set(out)?, text(spec, "bproc_nodespec")?) };
        select(out, &nodes_alone()?, spec)
    };
    called(done)
}

fn select(out: &mut NodeSet, of: &[NodeInfo], spec: &str) -> Done<c_int> {
    // SAFETY: each ends with a zero.
    let word = |node: &NodeInfo| unsafe { CStr::from_ptr(node.status.as_ptr()) }.to_string_lossy().into_owned();
    let states: Vec<(NodeId, String)> = of.iter().map(|node| (NodeId(node.node), word(node))).collect();
    let states: Vec<(NodeId, &str)> = states.iter().map(|(node, state)| (*node, state.as_str())).collect();
    let chosen = vocab::select(spec, &states).map_err(|fault| match fault.kind {
        Kind::Gone => Failed::new(words::INVALID_NODE, fault.to_string()),
        _ => Failed::new(libc::EINVAL, fault.to_string()),
    })?;
    let front = chosen.iter().any(|node| node.is_front()).then(super::nodes::all).transpose()?;
    let front = front.as_ref().and_then(|all| all.iter().find(|known| known.node.is_front())).map(in_c);
    let in_set = |node: &NodeId| of.iter().find(|info| info.node == node.0).copied().or(front);
    let chosen: Vec<NodeInfo> = chosen.iter().filter_map(in_set).collect();
    out.begin(chosen.len())?;
    out.extend(&chosen)?;
    Ok(0)
}
