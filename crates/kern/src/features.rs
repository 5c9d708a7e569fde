//! One probe for each fact about the kernel that shoal rests on. A probe leaves nothing behind.

use vocab::Result;

/// What a probe has found.
#[derive(Debug)]
pub struct Finding {
    /// The facility as the manual names it.
    pub name: &'static str,
    /// What shoal does with it.
    pub purpose: &'static str,
    /// Does shoal not work without it?
    pub needed: bool,
    /// A detail in words (may be empty), or why it is not there.
    pub there: Result<String>,
}

/// Probes everything.
pub fn probe_all() -> Vec<Finding> {
    Vec::new()
}
