//! Files of /proc that are read again and again stay open: of a process that stands still, to open one takes as long as to read it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::Result;
use std::marker::PhantomData;

/// More are opened anew each time: their number is limited.
const MOST: usize = 256;

/// Those that look their task up at each read (linux: `proc_single_show`, `comm_show`, `timers_start`, `proc_coredump_filter_read`, `seq_show` of fdinfo). Those of its memory (auxv, maps, environ)
/// belong to the one that it had when they were opened, and would go on showing that after an exec.
const KEPT: [&str; 8] =
    ["stat", "status", "comm", "limits", "personality", "oom_score_adj", "coredump_filter", "timers"];

thread_local! {
    static FILES: RefCell<Option<HashMap<String, File>>> = const { RefCell::new(None) };
}

/// As long as this is there, what [`super::whole`] reads in this thread stays open. Only for who looks at one process, until it is gone: a file of one that has ended says
/// so for ever, also when there is another of its number.
#[must_use = "dropped, it closes them"]
#[derive(Debug)]
pub struct Kept(PhantomData<*const ()>);

/// From now on.
pub fn keep() -> Kept {
    FILES.set(Some(HashMap::new()));
    Kept(PhantomData)
}

impl Drop for Kept {
    fn drop(&mut self) {
        FILES.set(None);
    }
}

fn is_kept(path: &str) -> bool {
    let mut names = path.rsplit('/');
    let name = names.next().unwrap_or_default();
    KEPT.contains(&name) || names.next() == Some("fdinfo")
}

/// `None`: it is not kept.
pub(super) fn with<T>(path: &str, read: impl FnOnce(&File) -> Result<T>) -> Option<Result<T>> {
    FILES.with_borrow_mut(|files| {
        let files = files.as_mut().filter(|_| is_kept(path))?;
        if let Some(file) = files.get(path) {
            return Some(read(file));
        }
        if files.len() >= MOST {
            return None;
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) => return Some(Err(e)),
        };
        Some(read(files.entry(path.to_owned()).or_insert(file)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{whole, PROC};
    use super::*;

    /// They say what is, not what was; and a number that is used again is not mixed up when nobody keeps them any more.
    #[test]
    fn what_stays_open_is_read_anew() {
        let path = format!("{PROC}/thread-self/comm");
        let path = std::fs::canonicalize(path).expect("this thread").display().to_string();
        let name = |name: &str| std::fs::write(&path, name).expect("own name");
        let kept = keep();
        for now in ["one", "another"] {
            name(now);
            assert_eq!(whole(&path).expect("own"), format!("{now}\n").into_bytes());
        }
        let open = || FILES.with_borrow(|files| files.as_ref().map_or(0, HashMap::len));
        assert_eq!(open(), 1);
        assert!(whole(&path.replace("comm", "auxv")).is_ok());
        assert_eq!(open(), 1);
        drop(kept);
        assert_eq!((open(), whole(&path).expect("own")), (0, b"another\n".to_vec()));
    }
}
