//! Stand-ins for the daemons, so that the sandbox is tested without them: they only meet over the sandbox's network.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn setting(config: &str, name: &str) -> String {
    let line = config.lines().find_map(|line| line.strip_prefix(&format!("{name} = "))).expect("the setting is there");
    line.trim_matches('"').to_string()
}

/// `front|node --config FILE --ready-fd N`.
pub(crate) fn run(role: &str, arguments: &[String]) -> i32 {
    let value = |flag: &str| {
        let at = arguments.iter().position(|word| word == flag).expect("the flag is there");
        &arguments[at + 1]
    };
    let config = std::fs::read_to_string(value("--config")).expect("a configuration");
    let mut ready = File::from(kern::ns::inherited(value("--ready-fd").parse().expect("a number")).expect("open"));
    if let Some(failure) = std::env::var_os("STANDIN_FAILS").filter(|who| who == role) {
        eprintln!("the stand-in {failure:?} fails as it was asked to");
        return 3;
    }
    println!("stand-in {role} starts");
    if role == "front" {
        let listener = TcpListener::bind(setting(&config, "listen")).expect("the address is this machine's");
        ready.write_all(b"r").expect("somebody waits");
        drop(ready);
        let mut links = Vec::new();
        for link in listener.incoming() {
            let mut link = link.expect("a node");
            link.write_all(b"w").expect("it waits");
            links.push(link);
        }
    } else {
        let mut link = TcpStream::connect(setting(&config, "front")).expect("the front end listens");
        let mut byte = [0u8; 1];
        link.read_exact(&mut byte).expect("a welcome");
        ready.write_all(b"r").expect("somebody waits");
        drop(ready);
        let _ = link.read(&mut byte);
        std::thread::park();
    }
    0
}
