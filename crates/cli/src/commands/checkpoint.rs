//! `shoal checkpoint`: a running process into a file.

use super::away;
use super::named::Named;
use super::place::{self, Place};
use super::withheld::Withheld;
use crate::{imagefile, print};
use ckpt::dump::{dump, Then, Told};
use ckpt::ended::{ended, is_over, reason};
use ckpt::rounds::Why;
use ckpt::survey::{survey, Given, Survey};
use clap::Args;
use client::again::again;
use kern::proc::{exists, Proc};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, Stdout, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use vocab::{Fault, Kind, NodeId, Pid, Result, Sig, SigSet};

/// Write a running process into a file, from which `shoal restore` makes it again
#[derive(Args, Debug)]
pub(crate) struct Checkpoint {
    /// A process of the space, or of this machine, that you may trace
    pid: i32,
    /// Where to; `-` for standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// End the process once it is written
    #[arg(long, conflicts_with = "go_on")]
    stop: bool,
    /// Let the process go on (the default)
    #[arg(long = "continue")]
    go_on: bool,
    /// Make the file a program that restores the process when it is run; its arguments are those of `shoal restore`
    #[arg(long)]
    executable: bool,
    /// Say on standard error how the memory was copied, and for how long the process stood still
    #[arg(long)]
    explain: bool,
    /// Only say what of the process would not be carried, one thing on a line; the exit status is 1 if there is any
    #[arg(long)]
    dry_run: bool,
    /// Standard input has a byte as soon as the image that goes to standard output is kept
    #[arg(long, hide = true)]
    confirmed: bool,
    /// The process was stopped before its first instruction for the dump; the restored process is not stopped
    #[arg(long, hide = true)]
    begins: bool,
    /// One that asks for itself cannot hear: that it is written, or why not, is said in this new file
    #[arg(long, hide = true, value_name = "FILE")]
    tell: Option<PathBuf>,
}

impl Checkpoint {
    pub(crate) fn run(mut self) -> Result<ExitCode> {
        let Some(told) = self.tell.take() else { return self.written() };
        let pid = Pid(self.pid);
        match again(|| has_waited(pid)).and_then(|()| self.written()) {
            Ok(code) => local::moves::tell_success(&told).map(|()| code),
            Err(fault) => local::moves::tell(&told, &fault).map(|()| ExitCode::FAILURE),
        }
    }

    fn written(self) -> Result<ExitCode> {
        if self.pid <= 0 {
            return Err(Fault::refused(format!("process {}: numbers of processes are above 0", self.pid)));
        }
        let pid = Pid(self.pid);
        // A file that is to be larger than files may be (RLIMIT_FSIZE) is a failure to be told, and to be tidied up after.
        kern::signal::block(SigSet(Sig::XFSZ.bit()))?;
        match place::of(pid)? {
            Place::Here(given) => {
                let begins = self.begins;
                self.here(pid, Given { begins, ..given })
            }
            Place::Node(node) if self.dry_run => away::ask(node, &self.words("--dry-run")),
            Place::Node(node) => self.away(node),
        }
    }

    fn here(self, pid: Pid, given: Given) -> Result<ExitCode> {
        if !exists(pid) {
            return Err(Fault::gone(format!("there is no process {pid}")));
        }
        is_ours_to_trace(pid)?;
        if self.dry_run {
            let obstacles = again(|| look(pid, given))?.obstacles;
            obstacles.iter().try_for_each(|obstacle| print::out(&format!("{}\n", kern::own::plain(obstacle))))?;
            return Ok(ExitCode::from(u8::from(!obstacles.is_empty())));
        }
        let then = if self.stop { Then::Ends } else { Then::GoesOn };
        let rounds = then == Then::GoesOn;
        let told = match self.target()? {
            Target::File(path) => {
                again(|| into_file(path, self.executable, |file| dump(pid, given, file, then, rounds)))?
            }
            Target::Stream(_) if self.confirmed => {
                into_stream(Confirmed::new(), |out| dump(pid, given, out, then, rounds))?
            }
            Target::Stream(stream) => into_stream(stream, |out| dump(pid, given, out, then, rounds))?,
        };
        if self.explain {
            explain(pid, &told);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn away(self, node: NodeId) -> Result<ExitCode> {
        let words = self.words("--confirmed");
        match self.target()? {
            Target::File(path) => into_file(path, self.executable, |file| away::take(node, &words, file)),
            Target::Stream(stream) => away::take(node, &words, stream),
        }
    }

    fn target(&self) -> Result<Target<'_>> {
        let path = self.output.as_deref().filter(|path| path.as_os_str() != "-");
        // What is there and no file, a pipe or a device, stays what it is.
        let stays = |path: &&Path| std::fs::metadata(path).is_ok_and(|meta| !meta.is_file());
        match (path, path.filter(stays)) {
            (Some(path), None) => Ok(Target::File(path)),
            _ if self.executable => Err(Fault::refused("a program must be a file")),
            (_, Some(path)) => {
                let open = OpenOptions::new().write(true).open(path);
                let file = open.map_err(|e| Fault::io(&e, format!("write {}", path.display())))?;
                Ok(stream(file, path.display().to_string()))
            }
            (None, _) => standard_output(),
        }
    }

    /// What shoal is to be told on the node of the process.
    fn words(&self, how: &str) -> Vec<String> {
        let mut words = vec!["checkpoint".to_owned(), self.pid.to_string(), "-o-".to_owned(), how.to_owned()];
        words.extend(
            [(self.stop, "--stop"), (self.begins, "--begins"), (self.explain, "--explain")]
                .iter()
                .filter(|(wanted, _)| *wanted)
                .map(|(_, word)| (*word).to_owned()),
        );
        words
    }
}

/// A process that is to be written by its own wish has had a child make this one, which has its memory until it ends, and is about to wait for that.
///
/// # Errors
/// `Changed` as long as a child has its memory, or has ended and is yet to be waited for.
fn has_waited(pid: Pid) -> Result<()> {
    let proc = Proc::open("/proc")?;
    let threads = proc.tasks(pid).unwrap_or_default();
    let mut children = threads.into_iter().flat_map(|tid| proc.children(tid).unwrap_or_default());
    let passes = |child: &Pid| {
        proc.status(*child).is_ok_and(|status| status.ended())
            || kern::others::share_memory(pid, *child).is_ok_and(|shares| shares)
    };
    match children.find(passes) {
        None => Ok(()),
        Some(child) => Err(Fault::changed(format!("it has yet to wait for its child {child}"))),
    }
}

/// The kernel lets the links of a process be read by whoever may look into it (ptrace(2)).
///
/// # Errors
/// `Refused` for anybody else's.
pub(super) fn is_ours_to_trace(pid: Pid) -> Result<()> {
    match std::fs::read_link(format!("/proc/{pid}/ns/user")) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Err(Fault::refused(format!(
            "process {pid} is not yours to trace: it is another user's, has more rights, or has forbidden it"
        ))),
        _ => Ok(()),
    }
}

/// All that is in the way; of one that ends that is no more than its end.
fn look(pid: Pid, given: Given) -> Result<Survey> {
    let seen = survey(pid, given).and_then(|mut seen| seen.look_for_all_it_traces(pid).map(|()| seen));
    match seen.map_err(|fault| reason(pid, fault))? {
        seen if !seen.obstacles.is_empty() && is_over(pid) => Err(ended()),
        seen => Ok(seen),
    }
}

/// It is tried again until some of the image has gone, which cannot be taken back.
pub(super) fn into_stream<W: Write + Send>(
    to: W,
    mut fill: impl FnMut(&mut Withheld<W>) -> Result<Told>,
) -> Result<Told> {
    let mut out = Withheld::new(to);
    again(|| match fill(&mut out) {
        Err(fault) if !out.forget() => Err(Fault { kind: Kind::Refused, ..fault }),
        done => done,
    })
}

/// Where an image goes.
enum Target<'a> {
    /// A file that is to be made.
    File(&'a Path),
    /// Standard output, or what is there already and no file.
    Stream(BufWriter<Box<dyn Write + Send>>),
}

fn stream<'a>(to: impl Write + Send + 'static, name: impl Into<String>) -> Target<'a> {
    Target::Stream(BufWriter::new(Box::new(Named::new(to, name))))
}

/// Where it is closed the standard library has opened the null device in its place, for reading too (std, `sanitize_standard_fds`); an image would be lost there, and with `--stop`
/// its process.
///
/// # Errors
/// `Refused` then.
fn standard_output<'a>() -> Result<Target<'a>> {
    let out = std::io::stdout();
    let device = |path: &str| std::fs::metadata(path).map(|found| found.rdev()).ok();
    match device("/proc/self/fd/1") == device("/dev/null") && kern::sys::reads_and_writes(out.as_fd())? {
        true => Err(Fault::refused("standard output is closed, or the null device")),
        false => Ok(stream(out, "standard output")),
    }
}

/// Standard output; whoever reads it says on standard input that it has kept the image. The process must not end before.
struct Confirmed(BufWriter<Stdout>);

impl Confirmed {
    fn new() -> Confirmed {
        Confirmed(BufWriter::new(std::io::stdout()))
    }
}

impl Write for Confirmed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()?;
        let lost = |_| std::io::Error::other("whoever wanted the image has not kept it");
        std::io::stdin().read_exact(&mut [0]).map_err(lost)
    }
}

fn explain(pid: Pid, told: &Told) {
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    if let Some((rounds, why)) = &told.rounds {
        for (round, bytes) in rounds.copied.iter().enumerate() {
            eprintln!("round {}: {} KiB copied while it ran", round + 1, bytes / 1024);
        }
        eprintln!("then it was stopped, because {}", because(*why));
        eprintln!("one thread of process {pid} stood still for {:.2} ms before", ms(told.prepared));
    }
    eprintln!("process {pid} stood still for {:.2} ms", ms(told.frozen));
}

fn because(why: Why) -> &'static str {
    match why {
        Why::LittleIsLeft => "little was left",
        Why::NoLongerShrinks => "it wrote as much as was copied",
        Why::ManyRounds => "there had been many rounds",
    }
}

/// The memory of a process is in it, so nobody else may read it.
const PRIVATE: u32 = 0o600;
const PRIVATE_PROGRAM: u32 = 0o700;

/// The file has its name only when it is whole: an earlier one of that name is not lost to a failure.
fn into_file<T>(path: &Path, executable: bool, fill: impl FnOnce(Named<Whole<'_>>) -> Result<T>) -> Result<T> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let failed = |e: std::io::Error| Fault::io(&e, format!("write {}", path.display()));
    // What an earlier failure has left is in the way; a link or a file of somebody else's must not be written to.
    let _none_left = std::fs::remove_file(&partial);
    let mode = if executable { PRIVATE_PROGRAM } else { PRIVATE };
    let nameless = kern::disk::nameless(folder_of(path), mode).map_err(failed)?;
    let (mut file, named) = match nameless {
        Some(file) => (file, false),
        None => {
            let named = OpenOptions::new().write(true).create_new(true).mode(mode).open(&partial).map_err(failed)?;
            (named, true)
        }
    };
    let trailer = executable.then(|| imagefile::begin_program(&mut file)).transpose().map_err(failed);
    let done = trailer.and_then(|trailer| {
        let begun = file.stream_position().map_err(failed)?;
        let file = BufWriter::new(Steady { file, written: begun, begun });
        fill(Named::new(Whole { file, trailer, named, partial: &partial, path }, path.display().to_string()))
    });
    // Nothing to remove: it has its name.
    let _whole = std::fs::remove_file(&partial);
    done
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that gets its name when it is flushed: that is what the writer of an image does last, before the process may end. It is on the
/// disk then, and its name too.
struct Whole<'a> {
    file: BufWriter<Steady>,
    trailer: Option<[u8; 16]>,
    /// It is there as `partial`, since the file system knows no files without a name; the others are gone with this process, however it ends.
    named: bool,
    partial: &'a Path,
    path: &'a Path,
}

impl Write for Whole<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if let Some(trailer) = self.trailer.take() {
            self.file.write_all(&trailer)?;
        }
        self.file.flush()?;
        self.file.get_ref().file.sync_all()?;
        // A folder may be one to write to and not to read; what fails here leaves nothing.
        let folder = File::open(folder_of(self.path))?;
        if !self.named {
            // A name that is taken already cannot be given: by way of this one it can.
            kern::disk::name(self.file.get_ref().file.as_fd(), self.partial)?;
        }
        std::fs::rename(self.partial, self.path)?;
        folder.sync_all()
    }
}

/// Bytes that begin their way to the disk as they come: waiting for all of them at the end takes as long again.
struct Steady {
    file: File,
    written: u64,
    begun: u64,
}

impl Write for Steady {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        const AT_ONCE: u64 = 8 * 1024 * 1024;
        let count = self.file.write(bytes)?;
        self.written += count as u64;
        if self.written - self.begun >= AT_ONCE {
            kern::disk::begin_writing(self.file.as_fd(), self.begun, self.written - self.begun);
            self.begun = self.written;
        }
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
