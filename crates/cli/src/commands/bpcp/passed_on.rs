//! The side of `bpcp` that writes files on one of several nodes, which have the stream from each other.
//!
//! With who has started it the process speaks by lines: it says where it is asked (`at PORT TOKEN`), is told the plan, says when all is written (`done PLACE`, by the place of the
//! tree from which the end came) or that something could not be (`failed`), and ends when its input does: until then others may ask it.

use super::receive;
use super::{tell, Side};
use spread::{fetch, listen, serve, Plan, Spool};
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use vocab::{Fault, Result};

/// The longest line of a plan, in bytes: some 50 for each node.
const LONGEST: u64 = 16 << 20;

/// Receives into `place`, as [`receive::receive`]. Returns when whoever has started it needs it no longer.
///
/// # Errors
/// `Sys` where it cannot listen or keep the stream.
pub(super) fn receive(side: &Side, place: &Path, several: bool) -> Result<bool> {
    let (listener, token) = (listen()?, u64::from_ne_bytes(link::random()?));
    say(&format!("at {} {token:x}", listener.port))?;
    let mut input = std::io::stdin().lock();
    let Some(plan) = plan(&mut input, token)? else { return Ok(false) };
    let spool = Spool::new(&directory(place))?;
    serve(listener, plan.key, spool.clone())?;
    let written = fetch(&plan, token, &spool)
        .and_then(|from| receive::receive(side, place, several, spool.reader()).map(|all| (from, all)));
    let all = match written {
        Ok((from, true)) => say(&format!("done {from}")).map(|()| true)?,
        Ok((_, false)) => say("failed").map(|()| false)?,
        Err(fault) => {
            tell(&fault);
            say("failed").map(|()| false)?
        }
    };
    let _over = std::io::copy(&mut input, &mut std::io::sink());
    Ok(all)
}

/// The first plan that knows this machine; none if the input ends before.
fn plan(input: &mut impl BufRead, token: u64) -> Result<Option<Plan>> {
    loop {
        let mut line = String::new();
        let read = input.by_ref().take(LONGEST).read_line(&mut line);
        if read.map_err(|e| Fault::io(&e, "read the plan"))? == 0 {
            return Ok(None);
        }
        let plan: Plan = line.trim_end().parse()?;
        if plan.hops.iter().any(|hop| hop.token == token) {
            return Ok(Some(plan));
        }
    }
}

/// Where there is room for the files there is room for the stream.
fn directory(place: &Path) -> PathBuf {
    if place.is_dir() {
        return place.to_owned();
    }
    match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let said = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
    said.map_err(|e| Fault::io(&e, "speak to bpcp"))
}
