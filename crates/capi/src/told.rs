//! How a helper tells why it has failed: in a file, which is there only then, and which the caller need not have open meanwhile.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use vocab::{Fault, Result};

/// A number that nobody has, or knows.
fn number() -> Result<u128> {
    let mut number = [0u8; 16];
    // SAFETY: the array is as long as it is said to be.
    match unsafe { libc::getrandom(number.as_mut_ptr().cast(), number.len(), 0) } {
        16 => Ok(u128::from_ne_bytes(number)),
        _ => Err(Fault::io(&std::io::Error::last_os_error(), "get a random number")),
    }
}

/// A byte of /dev/null that nobody else locks: machines that are made of namespaces, and all users, have the same file.
pub(crate) fn new_place() -> Result<i64> {
    number().map(|number| (number as u64 >> 2) as i64)
}

/// A path that nobody has, or knows.
pub(crate) fn new_path() -> Result<String> {
    let path = std::env::temp_dir().join(format!(".shoal-{:032x}", number()?));
    path.into_os_string().into_string().map_err(|_| Fault::refused("a directory for temporary files that is no text"))
}

/// What was told there by who tells of its success too, with no bytes.
pub(crate) fn take_word(path: &str) -> Result<Option<Result<()>>> {
    let word = bytes(path)?;
    let meant = |bytes: Vec<u8>| if bytes.is_empty() { Ok(Ok(())) } else { local::moves::fault_of(&bytes).map(Err) };
    word.map(meant).transpose()
}

/// What was told there, which is taken away; nothing if nothing was.
pub(crate) fn take(path: &str) -> Result<Option<Fault>> {
    bytes(path)?.map(|bytes| local::moves::fault_of(&bytes)).transpose()
}

fn bytes(path: &str) -> Result<Option<Vec<u8>>> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("read {path}"));
    let mut file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    // SAFETY: it takes nothing.
    let own = unsafe { libc::geteuid() };
    if file.metadata().map_err(failed)?.uid() != own {
        return Err(Fault::refused(format!("{path} is another user's")));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    std::fs::remove_file(path).map_err(failed)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_heard_once() {
        let (path, other) = (new_path().expect("a number"), new_path().expect("a number"));
        assert_ne!(path, other);
        assert_eq!(take(&path), Ok(None));
        let fault = Fault::sys(libc::EBUSY, "something").doing("something else");
        local::moves::tell(path.as_ref(), &fault).expect("room");
        assert_eq!(take(&path), Ok(Some(fault)));
        assert_eq!(take(&path), Ok(None));
    }
}
