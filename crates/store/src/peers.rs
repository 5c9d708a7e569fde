//! Machines that have contents from each other. An end has the cluster's key, and asks by names, which nobody knows who does not know the content: so nobody hears of one by asking.

use crate::content::{Name, PIECE};
use crate::disk::Store;
use crate::object::{Object, Progress, State};
use kern::clock::monotonic_us;
use kern::sock;
use minicbor::{Decode, Encode};
use spread::{Line, Listener, PATIENCE};
use std::net::SocketAddr;
use std::sync::Arc;
use vocab::{Fault, Result};

/// What the key of these connections is derived for (BLAKE3).
const PURPOSE: &str = "shoal 2026-11-30 contents of files between nodes";
/// A machine takes the connection within this, in microseconds.
const CONNECTED_US: u64 = 2_000_000;

/// The question: a content from which byte on.
#[derive(Encode, Decode, PartialEq, Eq, Debug)]
struct Want {
    #[n(0)]
    name: [u8; 32],
    #[n(1)]
    from: u64,
}

/// The answers, one after the other.
#[derive(Encode, Decode, PartialEq, Eq, Debug)]
enum Said {
    /// The next bytes.
    #[n(0)]
    Bytes(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>),
    /// Nothing more yet.
    #[n(1)]
    Alive,
    /// There is nothing more here.
    #[n(2)]
    End,
}

fn key(cluster: &[u8; 32]) -> [u8; 32] {
    blake3::derive_key(PURPOSE, cluster)
}

/// Gives all who have the cluster's key what is there and what comes, as long as the process lives.
///
/// # Errors
/// As [`spread::each`].
pub fn serve(listener: Listener, cluster: &[u8; 32], store: Arc<Store>) -> Result<()> {
    spread::each(listener, key(cluster), move |line| give(line, &store))
}

fn give(line: &mut Line, store: &Store) -> Result<()> {
    let Want { name, from: mut at } = line.hear()?;
    let Some(object) = store.by_name(Name(name)) else { return line.say(&Said::End) };
    loop {
        let Progress { length, state } = object.wait(at, PATIENCE / 4);
        if at < length {
            let bytes = object.read(at, PIECE as usize)?;
            at += bytes.len() as u64;
            line.say(&Said::Bytes(bytes))?;
            continue;
        }
        match state {
            State::Coming => line.say(&Said::Alive)?,
            State::Whole | State::Failed => return line.say(&Said::End),
        }
    }
}

/// Appends what the machine at this address has of a content; `came` hears of each piece.
///
/// # Errors
/// `Gone`, `Sys` when it does not have all of it, or cannot be reached; `Wire` when it says something else.
pub fn fetch(address: SocketAddr, cluster: &[u8; 32], object: &Object, mut came: impl FnMut()) -> Result<()> {
    let mut line = Line::dialled(sock::tcp_connect(address, monotonic_us() + CONNECTED_US)?, &key(cluster))?;
    line.say(&Want { name: object.name().0, from: object.length() })?;
    let mut piece = Vec::new();
    while !object.is_whole() {
        match line.hear()? {
            Said::Bytes(bytes) => piece.extend(bytes),
            Said::Alive => {}
            Said::End => return Err(Fault::gone(format!("{address} has no more of {}", object.name()))),
        }
        while !object.is_whole() {
            let wanted = PIECE.min(object.size() - object.length()) as usize;
            if piece.len() < wanted {
                break;
            }
            object.append(&piece[..wanted])?;
            piece.drain(..wanted);
            came();
        }
    }
    Ok(())
}
