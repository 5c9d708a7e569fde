//! The side that asks.

use crate::line::{Line, Said, Want};
use crate::plan::Plan;
use crate::spool::Spool;
use kern::clock::monotonic_us;
use kern::poll::poll;
use kern::sock;
use std::net::SocketAddr;
use tracing::debug;
use vocab::{Fault, Kind, Result};

/// A machine that is asked takes the connection within this, in microseconds.
const CONNECTED_US: u64 = 2_000_000;
/// How often the place where the stream begins is asked, which nobody stands in for, and the pause in between in milliseconds.
const TIMES: usize = 5;
const PAUSE_MS: i32 = 200;

/// How an attempt at one place has ended.
enum Come {
    Whole,
    /// Nobody else has more.
    Never(Fault),
}

/// Fills the spool with the whole stream, from the nearest that has it. Returns the place from which the end came: 0 is where the stream begins.
///
/// # Errors
/// `Gone` when no ancestor can be reached, or the stream was cut off; `Wire` when it is damaged. The spool has failed then.
pub fn fetch(plan: &Plan, token: u64, spool: &Spool) -> Result<usize> {
    let done = from_somebody(plan, token, spool);
    done.inspect_err(|fault| spool.fail(fault.clone()))
}

fn from_somebody(plan: &Plan, token: u64, spool: &Spool) -> Result<usize> {
    let mut last = Fault::gone("a machine that the plan does not know");
    for (place, address) in plan.sources(token) {
        let times = if place == 0 { TIMES } else { 1 };
        for time in 0..times {
            if time > 0 {
                let _nothing = poll(&[], PAUSE_MS);
            }
            match from((place, address), &plan.key, spool) {
                Ok(Come::Whole) => return Ok(place),
                Ok(Come::Never(fault)) => return Err(fault),
                // A full disk here is no better with another sender.
                Err(fault) if fault.kind == Kind::Sys && fault.errno == vocab::errno::ENOSPC => return Err(fault),
                Err(fault) => {
                    debug!(%fault, place, %address, had = spool.length(), "another one is asked");
                    last = fault;
                }
            }
        }
    }
    Err(last.doing("fetch the rest: nobody who has it can be reached"))
}

fn from((place, address): (usize, SocketAddr), key: &[u8; 32], spool: &Spool) -> Result<Come> {
    let mut line = Line::dialled(sock::tcp_connect(address, monotonic_us() + CONNECTED_US)?, key)?;
    line.say(&Want { from: spool.length() })?;
    loop {
        match line.hear()? {
            Said::Bytes(bytes) => spool.append(&bytes)?,
            Said::Alive => {}
            Said::End(length, upper, lower) if length == spool.length() => {
                let sum = u128::from(upper) << 64 | u128::from(lower);
                return Ok(spool.finish(Some(sum)).map_or_else(Come::Never, |()| Come::Whole));
            }
            Said::End(length, ..) => {
                return Err(Fault::wire(format!("the end of {length} bytes after {}", spool.length())))
            }
            Said::Cut(why) => {
                let fault = Fault::gone(format!("the stream was cut off: {why}"));
                // Elsewhere than where the stream begins that is one machine's misfortune.
                return if place == 0 { Ok(Come::Never(fault)) } else { Err(fault) };
            }
        }
    }
}
