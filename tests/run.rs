//! All tests that need more than one crate: the programs of `prog/` in every mode, and the scenes of `case/`.
//!
//! `cargo test -p tests -- [--mode MODE]… [--repeat K] [FILTER] [options of cargo test]`. Names are `MODE::PROGRAM` and
//! `case::SCENE`. MODE is one of [`modes::ALL`], `case` or `all`; without any it is those that SHOAL_TEST_MODES
//! names, or [`modes::everyday`] and the scenes.
#![forbid(unsafe_code)]

mod case;
mod docs;
mod lab;
mod modes;

use lab::place::Place;
use lab::{carry, moved, peer, quiet, skip, unsteady, worker, Doing, Res};
use libtest_mimic::{Arguments, Trial};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The options that are ours, and the rest.
struct Options {
    modes: Vec<String>,
    repeat: u32,
    mimic: Arguments,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let inner = match args.first().map(String::as_str) {
        Some("--executor") => worker::executor(&args[1..]),
        Some("--worker") => worker::worker(&args[1..]),
        Some("--leader") => worker::leader(&args[1..]),
        Some("--carry") => carry::carry(&args[1..]),
        Some("--move") => moved::move_about(&args[1..]),
        Some("--burn") => worker::burn(),
        Some("--peer") => peer::peer(&args[1..]),
        _ => match outer(args) {
            Ok(code) => return code,
            Err(fault) => Err(fault),
        },
    };
    match inner {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("tests: {fault}");
            ExitCode::from(126)
        }
    }
}

fn options(args: Vec<String>) -> Res<Options> {
    let (mut modes, mut repeat, mut rest) = (Vec::new(), 1, vec!["run".to_string()]);
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--mode" => modes.push(args.next().ok_or("--mode needs a mode")?),
            "--repeat" => repeat = args.next().unwrap_or_default().parse().doing("--repeat needs a number")?,
            _ => rest.push(arg),
        }
    }
    if modes.is_empty() {
        let named = std::env::var("SHOAL_TEST_MODES").unwrap_or_default();
        modes.extend(named.split_whitespace().map(str::to_string));
    }
    if modes.is_empty() {
        modes.extend(modes::everyday().chain(["case"]).map(str::to_string));
    }
    if modes.iter().any(|mode| mode == "all") {
        modes = modes::names().into_iter().chain(["case"]).map(str::to_string).collect();
    }
    if let Some(mode) = modes.iter().find(|mode| *mode != "case" && modes::find(mode).is_none()) {
        return Err(format!("mode {mode}: it is one of case, {}", modes::names().join(", ")));
    }
    let mut mimic = Arguments::from_iter(rest);
    mimic.test_threads.get_or_insert(quiet::ROOM);
    Ok(Options { modes, repeat, mimic })
}

fn outer(args: Vec<String>) -> Res<ExitCode> {
    let options = options(args)?;
    let wanted = |mode: &str| options.modes.iter().any(|m| m == mode);
    let place = Arc::new(Place::make()?);
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("skip.toml");
    let skips = skip::read(&list, &place.programs, &modes::names(), &case::names().collect::<Vec<_>>())?;
    let mut trials = Vec::new();
    let mut hosts = Vec::new();
    for mode in modes::ALL.iter().filter(|mode| wanted(mode.name)) {
        let host = Arc::new(modes::Host::new(*mode, place.clone(), skips.clone(), options.repeat));
        let programs = place.programs.iter().filter(|program| mode.takes(program));
        let of_mode: Vec<Trial> = programs.map(|program| host.trial(program)).collect();
        host.expect(of_mode.iter().filter(|trial| !options.mimic.is_filtered_out(trial)).count());
        trials.extend(of_mode);
        hosts.push(host);
    }
    if wanted("case") {
        let programs = place.programs.iter().filter(|program| !program.starts_with("odd_"));
        let names: BTreeSet<String> = programs.cloned().chain(case::names()).collect();
        let scenes = names.clone();
        trials.push(Trial::test("docs::semantics", move || docs::semantics(&names).map_err(Into::into)));
        trials.push(Trial::test("docs::security", move || docs::security(&scenes).map_err(Into::into)));
        trials.extend(case::trials(&place, options.repeat, &skips));
    }
    let conclusion = libtest_mimic::run(&options.mimic, trials);
    for line in hosts.iter().flat_map(|host| host.close()).chain(unsteady::found()) {
        println!("{line}");
    }
    Ok(if conclusion.has_failed() { ExitCode::from(101) } else { ExitCode::SUCCESS })
}
