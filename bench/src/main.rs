//! Measures shoal against bare Linux, in the same run: `./x bench NAME`; bench/NAME.md says how to read it.
#![forbid(unsafe_code)]

mod cpu;
mod crowd;
mod files;
mod floods;
mod inside;
mod memory;
mod mon;
mod moving;
mod numbers;
mod place;
mod proc;
mod ps;
mod space;
mod spawn;
mod storm;
mod table;
mod travel;

use std::process::ExitCode;
use vocab::{Fault, Result};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match measure(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("bench: {fault}");
            ExitCode::from(2)
        }
    }
}

/// `Ok(false)` when a bar was missed.
fn measure(words: &[&str]) -> Result<bool> {
    match words {
        ["ps"] => ps::measure(),
        ["files"] => files::measure(),
        ["floods"] => floods::measure(""),
        ["floods", which] => floods::measure(which),
        ["space"] => space::measure(),
        ["spawn"] => spawn::measure(),
        ["spawn", "programs", nodes] => spawn::programs(number(nodes)?),
        ["spawn", "python"] => spawn::python(),
        ["spawn", "processes", nodes] => spawn::processes(number(nodes)?),
        ["mon"] => mon::measure(),
        ["proc"] => proc::measure(proc::NODES, proc::EACH),
        ["proc", "entries"] => proc::measure_entries(),
        ["proc", "lists", nodes, each] => proc::measure_lists(number(nodes)?, number(each)?),
        ["proc", nodes, each] => proc::measure(number(nodes)?, number(each)?),
        ["move"] => moving::measure(),
        ["move", "between"] => moving::between(),
        ["move", "checkpoints"] => moving::checkpoints(),
        ["move", "plain"] => moving::plain(),
        ["inside", "run", count] => inside::run_many_times(number(count)?),
        ["inside", "storm", nodes, forks, program] => storm::storm(number(nodes)?, number(forks)?, program),
        ["inside", "list"] => storm::print_list(),
        ["inside", "cpu", root] => cpu::print(number(root)? as u32),
        _ => Err(Fault::refused("which? there are: files, floods, mon, move, proc, ps, space, spawn")),
    }
}

fn number(word: &str) -> Result<usize> {
    word.parse().map_err(|_| Fault::refused(format!("{word} is no number")))
}
