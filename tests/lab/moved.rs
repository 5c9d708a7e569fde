//! `--move SHOAL [--lazy] PROGRAM`, on the front end of a sandbox: runs a program on a node and moves it about whenever it says that it does not care;
//! or those processes that it names. Several are a step apart, so that they part and meet.

use super::{Doing, Res};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Where to in each phase; a sandbox of these modes has four nodes.
const WAY: [&str; 5] = ["1", "2", "3", "0", "1"];

pub(crate) fn move_about(args: &[String]) -> Res {
    let (shoal, how, program, rest) = match args {
        [shoal, how, program, rest @ ..] if how == "--lazy" => (shoal, &[how.as_str()][..], program, rest),
        [shoal, program, rest @ ..] => (shoal, &[][..], program, rest),
        _ => return Err("--move SHOAL [--lazy] PROGRAM".into()),
    };
    let mut command = Command::new(shoal);
    command.args(["run", "-n", "0", "--", program]).args(rest).env("PHASES", "1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().doing("run the program")?;
    let pid = child.id().to_string();
    let mut answers = child.stdin.take().ok_or("no pipe to the program")?;
    let output = child.stdout.take().ok_or("no pipe from the program")?;
    let mut first = 0;
    for line in BufReader::new(output).lines() {
        let line = line.doing("read from the program")?;
        let Some(named) = line.strip_prefix("phase") else {
            println!("{line}");
            continue;
        };
        let named: Vec<&str> = if named.is_empty() { vec![&pid] } else { named.split_whitespace().collect() };
        for step in first..first + WAY.len() {
            for (ahead, pid) in named.iter().enumerate() {
                move_to(shoal, how, pid, WAY[(step + ahead) % WAY.len()])?;
            }
        }
        // The last one of this phase is where the program is now: the next phase begins elsewhere.
        first = (first + 2) % WAY.len();
        answers.write_all(b"\n").doing("answer the program")?;
    }
    let status = child.wait().doing("wait for the program")?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the program ended with {status}")),
    }
}

fn move_to(shoal: &str, how: &[&str], pid: &str, node: &str) -> Res {
    let mut command = Command::new(shoal);
    let moved =
        command.arg("move").args(how).args([pid, node]).stdin(Stdio::null()).output().doing("run shoal move")?;
    match moved.status.success() {
        true => Ok(()),
        false => Err(format!("shoal move {pid} {node}: {}", String::from_utf8_lossy(&moved.stderr).trim())),
    }
}
