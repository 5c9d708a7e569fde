//! The sandbox on this kernel, as root. This program is also the daemons' stand-in and the caller of the sandbox.

mod standin;

use sandbox::Plan;
use std::ffi::OsString;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(role @ ("front" | "node")) => std::process::exit(standin::run(role, &arguments)),
        Some("sandbox") => std::process::exit(call(&arguments[2..])),
        _ => {}
    }
}

/// `sandbox N COMMAND…` as `shoal sandbox -n N -- COMMAND…`.
fn call(arguments: &[String]) -> i32 {
    let nodes = arguments[0].parse().expect("a number of nodes");
    let command = arguments[1..].iter().map(OsString::from).collect();
    match sandbox::run(Plan { nodes, command, lost_after: None, logs: None }) {
        Ok(exit) => {
            if let vocab::Exit::Killed { sig, .. } = exit {
                kern::signal::suffer(sig).expect("a signal can be raised");
            }
            exit.shell_number()
        }
        Err(fault) => {
            eprintln!("shoal: {fault}");
            1
        }
    }
}
