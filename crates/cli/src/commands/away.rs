//! Commands of shoal that are carried out on another node, where the process is that they are about.

use image::{Reader, Record};
use std::io::{BufReader, Read, Write};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use vocab::{Fault, NodeId, Result};

/// Has shoal do this on a node; the exit status is its.
pub(crate) fn ask(node: NodeId, words: &[String]) -> Result<ExitCode> {
    let status = shoal(node, words)?.stdin(Stdio::null()).status();
    status.map(code).map_err(|e| Fault::io(&e, "start shoal run"))
}

/// Has shoal on a node write an image, and keeps it in `to`, which keeps it when it is flushed; then the other one is told so.
///
/// # Errors
/// Of `to`; what the other one has failed of, it has said.
pub(crate) fn take(node: NodeId, words: &[String], to: impl Write) -> Result<ExitCode> {
    let mut command = shoal(node, words)?;
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|e| Fault::io(&e, "start shoal run"))?;
    let (Some(confirm), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Fault::bug("pipes that were asked for are not there"));
    };
    let mut kept = Kept { from: BufReader::new(from), to, failed: None };
    let taken = kept.image();
    let told = taken.and_then(|()| {
        let mut confirm = &confirm;
        confirm.write_all(&[1]).map_err(|e| Fault::io(&e, format!("tell node {node} that the image is kept")))
    });
    drop(confirm);
    let Kept { from, failed, .. } = kept;
    drop(from);
    let status = child.wait().map_err(|e| Fault::io(&e, "wait for shoal run"))?;
    match (failed, told) {
        (Some(fault), _) => Err(fault),
        (None, Err(fault)) if status.success() => Err(fault),
        _ => Ok(code(status)),
    }
}

fn shoal(node: NodeId, words: &[String]) -> Result<Command> {
    let own = std::env::current_exe().map_err(|e| Fault::io(&e, "find the program shoal"))?;
    let mut command = Command::new(crate::imagefile::OWN);
    command.args(["run", "-n", &node.0.to_string(), "--"]).arg(own).args(words);
    Ok(command)
}

fn code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().map_or(1, |code| code as u8))
}

/// Bytes that are kept as they are read.
struct Kept<R, W> {
    from: R,
    to: W,
    failed: Option<Fault>,
}

impl<R: Read, W: Write> Kept<R, W> {
    /// A whole image: only its end says that nothing was lost on the way.
    fn image(&mut self) -> Result<()> {
        let mut reader = Reader::new(&mut *self)?;
        while let Some(record) = reader.next_record()? {
            if let Record::Pages(pages) | Record::Early(pages) = record {
                reader.recycle(pages);
            }
        }
        self.to.flush().map_err(|e| self.fails(&e))
    }

    fn fails(&mut self, error: &std::io::Error) -> Fault {
        let fault = Fault::io(error, "keep the image");
        self.failed = Some(fault.clone());
        fault
    }
}

impl<R: Read, W: Write> Read for Kept<R, W> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(room)?;
        if let Err(error) = self.to.write_all(&room[..count]) {
            self.fails(&error);
            return Err(error);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bytes: &[u8], to: impl Write) -> (Result<()>, Option<Fault>) {
        let mut kept = Kept { from: bytes, to, failed: None };
        let done = kept.image();
        (done, kept.failed)
    }

    #[test]
    fn only_a_whole_image_is_taken_and_byte_for_byte() {
        let mut bytes = Vec::new();
        image::Writer::new(&mut bytes).and_then(|writer| writer.end()).expect("room");
        let mut copy = Vec::new();
        assert_eq!(taken(&bytes, &mut copy), (Ok(()), None));
        assert_eq!(copy, bytes);
        let (done, failed) = taken(&bytes[..bytes.len() - 1], Vec::new());
        assert!(done.is_err() && failed.is_none());
        let (done, failed) = taken(&bytes, &mut [0; 8][..]);
        assert!(done.is_err() && failed.is_some(), "there is no room for it");
    }
}
