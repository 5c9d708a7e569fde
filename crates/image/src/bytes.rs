//! Bytes that are mostly text: paths, names, environment.

use minicbor::{Decode, Encode};
use serde::{Serialize, Serializer};

#[derive(Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Bytes(#[cbor(n(0), with = "minicbor::bytes")] pub Vec<u8>);

impl Bytes {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(bytes)
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&shown(&self.0))
    }
}

/// Text as text, everything else as its beginning in hexadecimal digits.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 64;
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(|c: char| c.is_control()) => text.to_owned(),
        _ => {
            let digits: String = bytes.iter().take(MOST).map(|byte| format!("{byte:02x}")).collect();
            let more = if bytes.len() > MOST { "…" } else { "" };
            format!("{} bytes: {digits}{more}", bytes.len())
        }
    }
}
