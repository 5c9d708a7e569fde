//! The token with which one signs in, in a file that only its user can read; and what one has then, as long as this server lives.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
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

/// The token of this file, which is made if it is not there. `run_dir`: the daemon's, which everybody may enter, also if it is made here.
///
/// # Errors
/// `Refused` for a file that is another user's, or that others can read or write; `Sys` where it can be neither read nor made.
pub fn read(path: &Path, run_dir: &Path) -> Result<String> {
    let folder_mode = if path.parent() == Some(run_dir) { 0o755 } else { 0o700 };
    let failed = |e: std::io::Error| Fault::io(&e, format!("read the token {}", path.display()));
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => make(path, folder_mode)?,
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

fn make(path: &Path, folder_mode: u32) -> Result<()> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("make the token {}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(folder_mode).create(folder).map_err(failed)?;
    }
    let token = secret()?;
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

/// 32 random bytes in hexadecimal.
fn secret() -> Result<String> {
    Ok(link::random::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Those who have signed in, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<VecDeque<String>>);

impl Sessions {
    /// One more, and the oldest is over.
    const MOST: usize = 64;

    /// # Errors
    /// `Sys` where there are no random numbers.
    pub(crate) fn begin(&self) -> Result<String> {
        let session = secret()?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == Sessions::MOST {
            all.pop_front();
        }
        all.push_back(session.clone());
        Ok(session)
    }

    pub(crate) fn has(&self, said: &str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().fold(false, |found, session| found | same(session, said))
    }

    pub(crate) fn end(&self, said: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|session| !same(session, said));
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
        let token = read(&path, &folder).expect("a new one");
        assert_eq!(read(&path, &folder).as_ref(), Ok(&token));
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.join("a"))), (0o600, 0o700));
        let run_dir = folder.join("run");
        read(&run_dir.join("web-token"), &run_dir).expect("a new one");
        assert_eq!(mode(&run_dir), 0o755, "others have to reach the daemon's socket there");
        assert!(same(&token, &token) && !same(&token, &token[1..]) && !same(&token, &"0".repeat(LENGTH)));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("chmod");
        assert_eq!(read(&path, &folder).expect_err("others can read it").kind, vocab::Kind::Refused);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("chmod");
        std::fs::write(&path, "short\n").expect("write");
        assert_eq!(read(&path, &folder).expect_err("no token").kind, vocab::Kind::Refused);
        std::fs::remove_dir_all(&folder).expect("clean up");
    }

    #[test]
    fn a_session_is_of_one_server_and_ends() {
        let (sessions, others) = (Sessions::default(), Sessions::default());
        let first = sessions.begin().expect("random numbers");
        assert!(sessions.has(&first) && !others.has(&first) && !sessions.has("") && !sessions.has(&first[1..]));
        let second = sessions.begin().expect("random numbers");
        sessions.end(&second);
        assert!(sessions.has(&first) && !sessions.has(&second));
        (0..Sessions::MOST).for_each(|_| drop(sessions.begin().expect("random numbers")));
        assert!(!sessions.has(&first));
    }
}
