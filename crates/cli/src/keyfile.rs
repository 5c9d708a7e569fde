//! The cluster key: 32 random bytes that front end and nodes share, in a file as 64 hexadecimal digits.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use vocab::{Fault, Result};

pub(crate) fn default_path() -> PathBuf {
    PathBuf::from("/etc/shoal/key")
}

/// Makes a new key file that only its owner can read.
///
/// # Errors
/// EEXIST for a file that is there already: it is never overwritten.
pub(crate) fn make(path: &Path) -> Result<()> {
    let doing = || format!("make the cluster key {}", path.display());
    let mut key = [0u8; 32];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut key))
        .map_err(|e| Fault::io(&e, "read random bytes"))?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(|e| Fault::io(&e, doing()))?;
    file.write_all(text(&key).as_bytes()).and_then(|()| file.sync_all()).map_err(|e| {
        // Half a key would be in the way of the next attempt.
        let _ = fs::remove_file(path);
        Fault::io(&e, doing())
    })
}

/// A key file's content.
pub(crate) fn text(key: &[u8; 32]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_string()]).collect()
}

/// # Errors
/// `Refused` for what is no key, and for a key that others can read.
pub(crate) fn read(path: &Path) -> Result<[u8; 32]> {
    let doing = || format!("read the cluster key {}", path.display());
    let mut file = fs::File::open(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Fault::io(&e, doing()).doing("no cluster key (`shoal key` makes one)"),
        _ => Fault::io(&e, doing()),
    })?;
    let metadata = file.metadata().map_err(|e| Fault::io(&e, doing()))?;
    if metadata.mode() & 0o077 != 0 {
        return Err(
            Fault::refused(format!("others than its owner can use it (chmod 600 {})", path.display())).doing(doing())
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|e| Fault::io(&e, doing()))?;
    parse(text.trim()).ok_or_else(|| Fault::refused("it does not have 64 hexadecimal digits").doing(doing()))
}

fn parse(text: &str) -> Option<[u8; 32]> {
    let mut key = [0u8; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_read_only_while_it_is_secret() {
        let path = std::env::temp_dir().join(format!("shoal-key.{}", std::process::id()));
        make(&path).expect("a new file");
        let key = read(&path).expect("a fresh key");
        assert_ne!(key, [0; 32]);
        assert!(make(&path).is_err());
        assert_eq!(read(&path), Ok(key));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("my file");
        assert!(read(&path).is_err());
        fs::remove_file(&path).expect("my file");
    }

    #[test]
    fn only_64_digits_are_a_key() {
        assert_eq!(parse(&"0f".repeat(32)), Some([15; 32]));
        assert_eq!(parse(&"0g".repeat(32)), None);
        assert_eq!(parse(&"é".repeat(32)), None);
        assert_eq!(parse("0f"), None);
    }
}
