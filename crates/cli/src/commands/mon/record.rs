//! `shoal mon record`: samples into a file.

use super::sample::{complain_of_unknown, status, Whom};
use clap::Args;
use kern::clock::monotonic_us;
use kern::init::SignalFd;
use kern::poll::{poll_for, Ready};
use sample::ask::{Ask, Verb};
use sample::text::Form;
use sample::trace::{Reader, Writer};
use sample::words;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use vocab::errno::EINTR;
use vocab::{Fault, Result, Sig};

/// Take samples again and again, into a file (docs/monitor.md tells its format), until the time is over or Ctrl-C
#[derive(Args, Debug)]
pub(crate) struct Record {
    /// What is there already stays: samples are written behind it
    file: PathBuf,
    /// What to sample [default: everything]
    names: Vec<String>,
    /// The time between two samples of a node
    #[arg(long, value_name = "TIME", value_parser = every, default_value = "1s")]
    every: Duration,
    /// How long; without it until a signal comes
    #[arg(long = "for", value_name = "TIME", value_parser = crate::config::span)]
    length: Option<Duration>,
    #[command(flatten)]
    whom: Whom,
}

/// For flags: a number alone is milliseconds.
fn every(text: &str) -> std::result::Result<Duration, String> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => crate::config::span(&format!("{text}ms")),
        false => crate::config::span(text),
    }
}

impl Record {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let ask = Ask { form: Form::Words, verb: Verb::Sample, names: self.names, depth: 0 };
        let line = ask.line();
        Ask::read(line.as_bytes()).map_err(|(_, why)| Fault::refused(why))?;
        let mut gather = self.whom.gather()?;
        let mut trace = append(&self.file)?;
        let signals = SignalFd::new(&[Sig::INT, Sig::TERM])?;
        let every_us = self.every.as_micros() as u64;
        let start = monotonic_us();
        let end_us = self.length.map_or(u64::MAX, |length| start.saturating_add(length.as_micros() as u64));
        let (mut due_us, mut answered, mut unknown) = (start, false, None);
        loop {
            let (mut text, begun) = (Vec::new(), monotonic_us());
            gather.round(line.as_bytes())?;
            gather.join(Form::Words, &mut text);
            let samples = words::samples(&String::from_utf8_lossy(&text))?;
            let silent = samples.iter().filter(|one| one.silent.is_some()).count();
            answered |= silent < samples.len();
            if unknown.is_none() && silent == 0 {
                unknown = Some(complain_of_unknown(&ask.names, &samples));
            }
            trace.write(begun, &samples)?;
            // A round that took longer than the pace leaves some out.
            let now = monotonic_us();
            due_us += every_us * (1 + now.saturating_sub(due_us) / every_us);
            if due_us >= end_us || wait(&signals, due_us)? {
                if !answered {
                    kern::own::complain("nobody has answered");
                }
                return Ok(status(answered && unknown != Some(true)));
            }
        }
    }
}

/// Until that moment (monotonic), or a signal: true.
fn wait(signals: &SignalFd, until_us: u64) -> Result<bool> {
    loop {
        let left = Duration::from_micros(until_us.saturating_sub(monotonic_us()));
        match poll_for(&[(signals.as_fd(), Ready::READ)], Some(left)) {
            Ok(ready) if ready[0].readable => return Ok(true),
            Ok(_) if monotonic_us() >= until_us => return Ok(false),
            Ok(_) | Err(EINTR) => {}
            Err(errno) => return Err(Fault::sys(errno, "wait for the next sample")),
        }
    }
}

/// Opens a trace, or makes one; what was cut off at its end goes.
///
/// # Errors
/// `Refused` where another one records into it; as of [`Reader`] for what is no trace.
fn append(path: &Path) -> Result<Writer<File>> {
    let doing = || format!("open {}", path.display());
    let file = File::options().read(true).append(true).create(true).open(path).map_err(|e| Fault::io(&e, doing()))?;
    // Before it is read: what another one is writing now would look cut off.
    if !kern::lock::lock_open(&file).map_err(|fault| fault.doing(doing()))? {
        return Err(Fault::refused(format!("record into {}: another process does that", path.display())));
    }
    let length = file.metadata().map_err(|e| Fault::io(&e, doing()))?.len();
    let mut whole = 0;
    if length > 0 {
        let mut reader = Reader::new(BufReader::new(&file)).map_err(|fault| fault.doing(doing()))?;
        while reader.next_sample().map_err(|fault| fault.doing(doing()))?.is_some() {}
        whole = reader.whole();
    }
    file.set_len(whole).map_err(|e| Fault::io(&e, doing()))?;
    Writer::new(file, whole == 0)
}
