//! The errors that answers carry: errno(3), x86-64.

pub(crate) const EPERM: i32 = 1;
pub(crate) const ESRCH: i32 = 3;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const EINVAL: i32 = 22;
