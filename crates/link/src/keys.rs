//! The cluster key: 32 random bytes that every machine of a cluster has, in a file that only its owner may read.
//!
//! The file is one line of text: `shoal-key-1 ` and 64 hexadecimal digits. Whoever has it can join the cluster and, as
//! the front end, run programs on every node.

use aws_lc_rs::hmac::{Context, Key, HMAC_SHA256};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use vocab::{Fault, Result};

const MARK: &str = "shoal-key-1 ";

/// No key file is longer, in bytes.
const MOST: u64 = 256;

/// The key of a cluster; it does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey([u8; 32]);

impl ClusterKey {
    /// A new one, at random.
    ///
    /// # Errors
    /// `Sys` as getrandom(2).
    pub fn new() -> Result<ClusterKey> {
        random().map(ClusterKey)
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// `Refused` when its group or others may read or write it, or it has no key in it; `Sys` as open(2), read(2).
    pub fn read(path: &Path) -> Result<ClusterKey> {
        let doing = || format!("read the cluster key in {}", path.display());
        let file = File::open(path).map_err(|e| Fault::io(&e, doing()))?;
        let meta = file.metadata().map_err(|e| Fault::io(&e, doing()))?;
        if !meta.is_file() {
            return Err(Fault::refused(format!("{}: it is no regular file", doing())));
        }
        let mode = meta.permissions().mode();
        if mode & 0o077 != 0 {
            let why =
                format!("{}: its mode is {:04o}, others than its owner can use it (chmod 600)", doing(), mode & 0o7777);
            return Err(Fault::refused(why));
        }
        let mut text = Vec::new();
        file.take(MOST + 1).read_to_end(&mut text).map_err(|e| Fault::io(&e, doing()))?;
        let wanted = || Fault::refused(format!("{}: it must be one line, `{MARK}` and 64 hexadecimal digits", doing()));
        parse(&text).ok_or_else(wanted)
    }

    /// Makes a new key and its file, which must not exist yet.
    ///
    /// # Errors
    /// `Sys` as open(2): EEXIST.
    pub fn make(path: &Path) -> Result<ClusterKey> {
        let doing = || format!("make the cluster key {}", path.display());
        let key = ClusterKey::new()?;
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = made.map_err(|e| Fault::io(&e, doing()))?;
        let written = file.write_all(key.text().as_bytes()).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // Half a key would only puzzle the next start; that it cannot be removed either adds nothing to the error.
            let _ = std::fs::remove_file(path);
            return Err(Fault::io(&error, doing()));
        }
        Ok(key)
    }

    fn text(&self) -> String {
        use fmt::Write;
        let mut text = MARK.to_owned();
        for byte in self.0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
        text
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(…)")
    }
}

/// `N` bytes that nobody can guess, for keys and tokens.
///
/// # Errors
/// `Sys` as getrandom(2).
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    kern::sys::random(&mut bytes)?;
    Ok(bytes)
}

/// A number by which who has the key tells these texts from all others; who has it not learns nothing of them. Never 0.
pub fn mark(key: &[u8; 32], texts: &[&[u8]]) -> u64 {
    let mut context = Context::with_key(&Key::new(HMAC_SHA256, key));
    for text in texts {
        context.update(&(text.len() as u64).to_le_bytes());
        context.update(text);
    }
    let sum = context.sign();
    let first = sum.as_ref().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    first.max(1)
}

/// 32 bytes that only who has `key` can make, others for each `purpose`; they tell nothing about the key, nor about those of another purpose.
pub fn derived(key: &[u8; 32], purpose: &[u8]) -> [u8; 32] {
    let mut context = Context::with_key(&Key::new(HMAC_SHA256, key));
    context.update(purpose);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.sign().as_ref());
    bytes
}

fn parse(text: &[u8]) -> Option<ClusterKey> {
    let text = std::str::from_utf8(text).ok()?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let digits = text.strip_prefix(MARK)?.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? * 16 + digit(1)?) as u8;
    }
    Some(ClusterKey(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use vocab::Kind;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("shoal-key-{}-{name}", std::process::id()));
            std::fs::create_dir(&path).expect("a new directory");
            Scratch(path)
        }

        fn file(&self, text: &[u8], mode: u32) -> PathBuf {
            let path = self.0.join("key");
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, text).expect("write");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("chmod");
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_made_key_is_read_back_and_not_overwritten() {
        let scratch = Scratch::new("made");
        let path = scratch.0.join("key");
        let key = ClusterKey::make(&path).expect("make");
        assert_eq!(ClusterKey::read(&path).expect("read"), key);
        assert_ne!(ClusterKey::new().expect("random"), key);
        assert_eq!(ClusterKey::make(&path).expect_err("there").kind, Kind::Sys);
        assert_eq!(ClusterKey::read(&path).expect("unharmed"), key);
        assert!(!format!("{key:?}").contains(&key.text()[12..20]));
    }

    #[test]
    fn a_mark_depends_on_the_key_and_on_each_text() {
        let marks = [
            mark(&[1; 32], &[b"ab", b"c"]),
            mark(&[1; 32], &[b"a", b"bc"]),
            mark(&[1; 32], &[b"abc"]),
            mark(&[2; 32], &[b"ab", b"c"]),
        ];
        assert_eq!(marks.iter().collect::<std::collections::HashSet<_>>().len(), marks.len());
        assert_eq!(mark(&[1; 32], &[b"ab", b"c"]), marks[0]);
    }

    #[test]
    fn keys_that_others_can_read_or_that_are_none_are_refused() {
        let scratch = Scratch::new("bad");
        let good = ClusterKey([0xab; 32]).text();
        assert!(ClusterKey::read(&scratch.file(good.as_bytes(), 0o400)).is_ok());
        assert!(ClusterKey::read(&scratch.file(good.trim_end().as_bytes(), 0o600)).is_ok());
        for mode in [0o640, 0o604, 0o620, 0o602, 0o644] {
            let fault = ClusterKey::read(&scratch.file(good.as_bytes(), mode)).expect_err("open to others");
            assert_eq!(fault.kind, Kind::Refused);
        }
        let long = [good.as_bytes(), &[b'\n'; 300]].concat();
        for bad in [b"".as_slice(), b"shoal-key-1 ", &good.as_bytes()[..74], &long, b"\xff\xfe", &[b'0'; 77]] {
            let fault = ClusterKey::read(&scratch.file(bad, 0o600)).expect_err("no key");
            assert_eq!(fault.kind, Kind::Refused, "{fault}");
        }
        let signs = good.replace("ab", "+b");
        assert!(ClusterKey::read(&scratch.file(signs.as_bytes(), 0o600)).is_err());
        assert_eq!(ClusterKey::read(&scratch.0).expect_err("a directory").kind, Kind::Refused);
        assert_eq!(ClusterKey::read(Path::new("/nonexistent")).expect_err("none").kind, Kind::Sys);
    }
}
