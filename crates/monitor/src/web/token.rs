//! The token with which one signs in: in a file that only its user can read.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use vocab::{Fault, Result};

/// Characters of a token: 32 bytes in hexadecimal.
const LENGTH: usize = 64;

/// Where it is unless something else is said: in the daemon's directory for root, in the user's own for others (XDG base directories).
pub fn default_path(run_dir: &Path) -> PathBuf {
    if kern::own::is_root() {
        return run_dir.join("web-token");
    }
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || of("HOME").map(|home| home.join(".config"));
    of("XDG_RUNTIME_DIR").or_else(home).unwrap_or_else(|| run_dir.into()).join("shoal/web-token")
}

/// The token of this file, which is made if it is not there.
///
/// # Errors
/// `Refused` for a file that is another user's, or that others can read or write; `Sys` where it can be neither read nor made.
pub fn read(path: &Path) -> Result<String> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("read the token {}", path.display()));
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => make(path)?,
        Err(e) => return Err(failed(e)),
        Ok(_) => {}
    }
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let (known, own) = (file.metadata().map_err(failed)?, std::fs::metadata("/proc/self").map_err(failed)?.uid());
    if !known.is_file() || known.uid() != own || known.mode() & 0o077 != 0 {
        return Err(Fault::refused(format!("{} is to be a file that only its user can read", path.display())));
    }
    let mut text = String::new();
    Read::by_ref(&mut file).take(LENGTH as u64 + 2).read_to_string(&mut text).map_err(failed)?;
    match text.trim_end() {
        token if token.len() == LENGTH && token.bytes().all(|b| b.is_ascii_hexdigit()) => Ok(token.into()),
        _ => Err(Fault::refused(format!("there is no token in {}: take it away for a new one", path.display()))),
    }
}

fn make(path: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("make the token {}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    let token: String = link::random::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    // It has its name when it is whole: another one may read it at the same time.
    let draft = path.with_extension(format!("new.{}", std::process::id()));
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    let named = file.and_then(|mut file| writeln!(file, "{token}")).and_then(|()| std::fs::hard_link(&draft, path));
    let _ = std::fs::remove_file(&draft);
    match named {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(failed(e)),
        _ => Ok(()),
    }
}

/// Is it this one? It takes as long whatever is wrong.
pub(crate) fn same(token: &str, said: &str) -> bool {
    token.len() == said.len() && token.bytes().zip(said.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_made_once_and_nobody_else_can_read_it() {
        let folder = std::env::temp_dir().join(format!("shoal-token.{}", std::process::id()));
        let path = folder.join("a/web-token");
        let token = read(&path).expect("a new one");
        assert_eq!(read(&path).as_ref(), Ok(&token));
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert!(same(&token, &token) && !same(&token, &token[1..]) && !same(&token, &"0".repeat(LENGTH)));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("chmod");
        assert_eq!(read(&path).expect_err("others can read it").kind, vocab::Kind::Refused);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("chmod");
        std::fs::write(&path, "short\n").expect("write");
        assert_eq!(read(&path).expect_err("no token").kind, vocab::Kind::Refused);
        std::fs::remove_dir_all(&folder).expect("clean up");
    }
}
