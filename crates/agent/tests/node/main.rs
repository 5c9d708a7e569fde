//! A real node daemon against a front end that this test plays: every scene starts its own. Runs as root.
//!
//! Not cargo's harness: the daemon forks, so it wants a process with one thread, which is this program called with `node`.

mod front;
mod scenes;

use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|word| word == "node") {
        return node(&args[2..]);
    }
    if args.get(1).is_some_and(|word| word == "mute") {
        return scenes::mute::client(&args[2]);
    }
    let wanted = args.iter().skip(1).find(|word| !word.starts_with('-'));
    let scenes = scenes::ALL.iter().filter(|(name, _)| wanted.is_none_or(|part| name.contains(part.as_str())));
    let mut count = 0;
    for (name, scene) in scenes {
        let start = Instant::now();
        scene();
        count += 1;
        println!("test {name} ... ok ({} ms)", start.elapsed().as_millis());
        assert!(start.elapsed() < Duration::from_secs(60), "{name} took too long");
    }
    println!("test result: ok. {count} passed; 0 failed");
}

fn node(args: &[String]) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SHOAL_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let mut config = agent::NodeConfig::new(format!("127.0.0.1:{}", args[0]), front::KEY);
    config.run_dir = (&args[1]).into();
    if let Err(fault) = agent::run(config) {
        eprintln!("node: {fault}");
        std::process::exit(1);
    }
}
