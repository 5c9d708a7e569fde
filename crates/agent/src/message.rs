//! What the agent says to the outer process at each beat that came back.

use vocab::NodeId;

/// What the agent says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    /// Boot time, microseconds.
    pub(crate) expires_us: u64,
    pub(crate) number: NodeId,
}

/// Bytes of it.
pub(crate) const MESSAGE: usize = 12;

impl Message {
    pub(crate) fn bytes(&self) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        bytes[..8].copy_from_slice(&self.expires_us.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.0.to_le_bytes());
        bytes
    }

    pub(crate) fn from(bytes: &[u8; MESSAGE]) -> Message {
        let (expires, number) = bytes.split_at(8);
        let expires_us = expires.try_into().map_or(0, u64::from_le_bytes);
        Message { expires_us, number: NodeId(number.try_into().map_or(0, i32::from_le_bytes)) }
    }
}
