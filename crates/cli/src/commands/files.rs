//! Options of `shoal run` for the files that a program sees: `--view`, `--bind`, `--read-only`, `--tmp`.

use clap::{Args, ValueEnum};
use client::run::Sees;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use vocab::{Fault, Result};
use wire::files::{self, Place};

/// The machine whose files a program sees.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    Node,
    Front,
    /// The node's own, or the front end's where the node has no such program
    Either,
}

impl From<View> for files::View {
    fn from(view: View) -> files::View {
        match view {
            View::Node => files::View::Node,
            View::Front => files::View::Front,
            View::Either => files::View::Either,
        }
    }
}

/// See the module.
#[derive(Args, Debug, Default)]
pub(crate) struct Files {
    /// Whose files the program sees, and all that it starts there: the node's, the front end's, or the front end's if the node has no such program
    #[arg(long, value_name = "KIND", value_enum)]
    view: Option<View>,
    /// What is at FROM is seen at TO too, by the program and all that it starts there; TO exists
    #[arg(long, value_name = "FROM:TO")]
    bind: Vec<OsString>,
    /// Nothing at PATH or below can be changed by them
    #[arg(long, value_name = "PATH")]
    read_only: Vec<PathBuf>,
    /// At PATH they have an empty directory, which goes with the last of them; PATH exists
    #[arg(long, value_name = "PATH")]
    tmp: Vec<PathBuf>,
}

impl Files {
    /// Binds first, then empty directories, then what is read-only.
    ///
    /// # Errors
    /// `Refused` for what is no pair; `Sys` if there is no working directory to which a path is relative.
    pub(crate) fn sees(&self) -> Result<Sees> {
        let binds = self.bind.iter().map(|pair| {
            let wrong = || Fault::refused(format!("--bind {}: wanted: FROM:TO", pair.to_string_lossy()));
            let bytes = pair.as_bytes();
            let at = bytes.iter().position(|byte| *byte == b':').ok_or_else(wrong)?;
            let (from, to) = (&bytes[..at], &bytes[at + 1..]);
            if from.is_empty() || to.is_empty() || to.contains(&b':') {
                return Err(wrong());
            }
            Ok(Place::Bind { from: absolute(from)?, to: absolute(to)? })
        });
        let of = |path: &PathBuf| absolute(path.as_os_str().as_bytes());
        let empty = self.tmp.iter().map(|path| of(path).map(Place::Empty));
        let read_only = self.read_only.iter().map(|path| of(path).map(Place::ReadOnly));
        let places = binds.chain(empty).chain(read_only).collect::<Result<Vec<_>>>()?;
        Ok(Sees { view: self.view.map(Into::into), places })
    }
}

fn absolute(path: &[u8]) -> Result<Vec<u8>> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let failed = |e: std::io::Error| Fault::io(&e, format!("find {} from the working directory", path.display()));
    std::path::absolute(path).map(|path| path.into_os_string().into_vec()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_in_their_order_and_from_the_root() {
        let files = Files {
            bind: vec!["/a:/b".into()],
            read_only: vec!["/c".into()],
            tmp: vec!["/d".into()],
            ..Files::default()
        };
        let bytes = |text: &str| text.as_bytes().to_vec();
        let bind = Place::Bind { from: bytes("/a"), to: bytes("/b") };
        let all = vec![bind, Place::Empty(bytes("/d")), Place::ReadOnly(bytes("/c"))];
        assert_eq!(files.sees().map(|sees| sees.places), Ok(all));
        for bad in ["/a", ":/b", "/a:", "/a:/b:/c", ""] {
            let files = Files { bind: vec![bad.into()], ..Files::default() };
            assert!(files.sees().is_err(), "{bad:?}");
        }
    }
}
