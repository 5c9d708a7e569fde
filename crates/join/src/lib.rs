//! A machine joins a cluster by a token, which the administrator carries from the front end to the machine.
//!
//! | who | does what |
//! |---|---|
//! | [`inviter`], a process of root's on the front end | has the token's secret and the cluster key, and waits for one machine, until the token has expired |
//! | the front end's daemon | hands over a connection that names the token ([`hand_over`]); it knows neither secret nor token |
//! | [`joiner`], root's on the machine | dials the front end's port, shows that it has the secret, and is given the key |
//!
//! The secret is the pre-shared key of `Noise_NNpsk0` ([`link::Secure`]). Both sides prove that they have it before anything else is said, so that a
//! man in the middle without the token learns nothing and gives nobody a key of his own. What was recorded cannot be opened later either,
//! by who finds the token then.
#![forbid(unsafe_code)]

pub mod inviter;
pub mod joiner;
mod token;

pub use token::Token;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use vocab::Result;

/// Bytes of a token's name, which tells the front end's daemon who waits for a connection.
pub const NAME: usize = link::preamble::TOKEN;

/// Sockets of inviters have names with this beginning, in the run directory of the front end's daemon.
const SOCKET: &str = "join.";

/// Milliseconds in which the other side of a connection has to say the next thing.
const PATIENCE_MS: u64 = 10_000;

fn socket(run_dir: &Path, name: &[u8; NAME]) -> PathBuf {
    let digits: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    run_dir.join(format!("{SOCKET}{digits}"))
}

/// Gives a connection that names this token to who waits for it.
///
/// # Errors
/// `Gone` when nobody waits: the token is used, has expired, or there never was one of that name.
pub fn hand_over(run_dir: &Path, name: &[u8; NAME], connection: &OwnedFd) -> Result<()> {
    let to = kern::sock::unix_connect(&socket(run_dir, name), 0)?;
    kern::sock::send_with(to.as_fd(), b"c", &[connection.as_fd()]).map(drop)
}

/// Withdraws all invitations of this run directory; how many there were.
///
/// # Errors
/// `Sys` as readdir(3) and unlink(2).
pub fn withdraw(run_dir: &Path) -> Result<usize> {
    let failed = |e: std::io::Error| vocab::Fault::io(&e, format!("withdraw invitations in {}", run_dir.display()));
    let mut count = 0;
    for entry in std::fs::read_dir(run_dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(SOCKET) {
            std::fs::remove_file(entry.path()).map_err(failed)?;
            count += 1;
        }
    }
    Ok(count)
}
