//! `--carry SHOAL PROGRAM`: runs a program and, whenever it says so, puts it into a file and makes it again from there.
//!
//! A program says "phase" on a line of its own and reads a line; in between it does not care where it is (prog.h, `phase`).

use super::{Doing, Res};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

/// How often it is carried in each phase; before that once without ending it.
const TIMES: u32 = 3;

/// What is heard of the program.
enum News {
    Line(String),
    Ended(Res<ExitStatus>),
}

pub(crate) fn carry(args: &[String]) -> Res {
    let [shoal, program, rest @ ..] = args else { return Err("--carry SHOAL PROGRAM".into()) };
    let (input, mut lines_in) = std::io::pipe().doing("make a pipe")?;
    let (output, lines_out) = std::io::pipe().doing("make a pipe")?;
    let ends: [OwnedFd; 2] = [input.into(), lines_out.into()];
    let (tell, news) = std::sync::mpsc::channel();
    // The command goes at once: as long as it is there, so is its end of the pipe.
    let child = with_streams(Command::new(program), &ends)?.args(rest).env("PHASES", "1").spawn();
    let child = child.doing("start the program")?;
    let pid = child.id();
    watch(child, &tell);
    let lines = tell.clone();
    let reader = std::thread::spawn(move || {
        let told = BufReader::new(output).lines().map_while(Result::ok);
        told.into_iter().try_for_each(|line| lines.send(News::Line(line)))
    });
    let image = Image(PathBuf::from(format!("{program}.{pid}.image")));
    loop {
        match news.recv().doing("wait for the program")? {
            News::Line(line) if line != "phase" => println!("{line}"),
            News::Line(_) => {
                checkpoint(shoal, pid, &image.0, "--continue")?;
                for time in 0..TIMES {
                    if time == 0 {
                        // What was written of a process that went on is as good.
                        checkpoint(shoal, pid, &image.0, "--continue")?;
                        kill(pid)?;
                    } else {
                        checkpoint(shoal, pid, &image.0, "--stop")?;
                    }
                    while !matches!(news.recv().doing("wait for the end")?, News::Ended(_)) {}
                    watch(restore(with_streams(by(shoal, time), &ends)?, &image.0)?, &tell);
                }
                lines_in.write_all(b"\n").doing("answer the program")?;
            }
            News::Ended(status) => {
                drop(ends);
                let _all_is_told = reader.join();
                for line in news.try_iter() {
                    if let News::Line(line) = line {
                        println!("{line}");
                    }
                }
                return ended(status?);
            }
        }
    }
}

/// Who makes the process again, the first time as on another machine, then on this one; but with other clocks than the process has had, once as if it had
/// been started long ago and once a moment ago, where the kernel knows of such (time_namespaces(7)).
fn by(shoal: &str, time: u32) -> Command {
    let seconds = match time {
        0 => "1000000",
        1 => "-3",
        _ => return Command::new(shoal),
    };
    if !Path::new("/proc/self/ns/time").exists() {
        return Command::new(shoal);
    }
    let mut command = Command::new("unshare");
    command.args(["--time", "--fork", "--monotonic", seconds, "--boottime", seconds, shoal]);
    if time == 0 {
        command.env("SHOAL_BOOT", "another");
    }
    command
}

/// Tells of its end.
fn watch(mut child: Child, tell: &Sender<News>) {
    let tell = tell.clone();
    // Nobody listens any more if the test has failed before.
    std::thread::spawn(move || tell.send(News::Ended(child.wait().doing("wait for the program"))));
}

/// It goes with the test.
struct Image(PathBuf);

impl Drop for Image {
    fn drop(&mut self) {
        // Not there if the first checkpoint failed.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn with_streams(mut command: Command, [input, output]: &[OwnedFd; 2]) -> Res<Command> {
    let stdin = Stdio::from(input.try_clone().doing("duplicate a pipe")?);
    let stdout = Stdio::from(output.try_clone().doing("duplicate a pipe")?);
    command.stdin(stdin).stdout(stdout);
    Ok(command)
}

/// Runs `shoal restore` with streams that `command` has already, and returns when the process runs.
pub(crate) fn restore(mut command: Command, image: &Path) -> Res<Child> {
    let (ready, told) = std::io::pipe().doing("make a pipe")?;
    rustix::io::fcntl_setfd(&told, rustix::io::FdFlags::empty()).doing("pass a descriptor on")?;
    command.args(["restore", "--ready-fd", &told.as_raw_fd().to_string()]).arg(image);
    let mut child = command.spawn().doing("run shoal restore")?;
    drop(told);
    let mut line = String::new();
    // To the end of the line: others may have that end open for longer.
    match BufReader::new(ready).read_line(&mut line).doing("wait for shoal restore")? {
        0 => Err(format!("shoal restore: {}", child.wait().doing("wait for shoal restore")?)),
        _ => Ok(child),
    }
}

fn checkpoint(shoal: &str, pid: u32, image: &Path, then: &str) -> Res {
    let mut command = Command::new(shoal);
    command.args(["checkpoint", &pid.to_string(), then, "-o"]).arg(image).stdin(Stdio::null());
    let done = command.stdout(Stdio::null()).status().doing("run shoal checkpoint")?;
    match done.success() {
        true => File::open(image).doing("open the image").map(drop),
        false => Err(format!("shoal checkpoint {then}: {done}")),
    }
}

fn kill(pid: u32) -> Res {
    let pid = rustix::process::Pid::from_raw(pid as i32).ok_or("no PID")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).doing("kill the program")
}

fn ended(status: ExitStatus) -> Res {
    match status.success() {
        true => Ok(()),
        false => Err(format!("the program ended with {status}")),
    }
}
