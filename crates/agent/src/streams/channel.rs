//! The streams of one program and their channel.

use super::dial::{deadline, Line};
use super::ends::{Ends, OurEnds};
use super::held::Held;
use super::input::{Input, Wrote};
use super::leaving::Leaving;
use super::output::{Output, Read};
use super::watch::Watch;
use super::To;
use crate::looking;
use crate::order::Order;
use kern::epoll::{Interest, Poller};
use kern::pty;
use link::Secure;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use vocab::{Fault, Result};
use wire::stream::{Chunk, Stream, CREDIT};

/// Input that the program has taken is told to the relay in portions of this size.
const PORTION: u32 = CREDIT / 4;

/// Pieces of one stream that are read before others get their turn.
const TURNS: usize = 8;

/// Which of a channel's descriptors is meant: the low bits of the poller's token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    Line = 0,
    Input = 1,
    /// Also a terminal's master, both ways.
    Output = 2,
    Errors = 3,
}

impl Slot {
    pub(super) fn of(token: u64) -> (u64, Slot) {
        let slot = match token & 3 {
            0 => Slot::Line,
            1 => Slot::Input,
            2 => Slot::Output,
            _ => Slot::Errors,
        };
        (token >> 2, slot)
    }
}

/// Whether the program is still here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moving {
    No,
    /// It is elsewhere, and not all has been sent that it had written.
    Draining,
    /// The relay knows, as soon as it hears: input that still comes goes back. The relay closes the channel.
    Told,
}

/// See the module. Every failure of a call means that the channel is over: drop it, and the program gets EOF and EPIPE.
pub(super) struct Channel {
    number: u64,
    line: Line,
    /// When the handshake must be done, until it is.
    pub(super) deadline: Option<u64>,
    pub(super) held: Held,
    input: Input,
    outputs: [Output; 2],
    terminal: Option<Arc<OwnedFd>>,
    /// The terminal's other side, until the program's end: one that has closed all of it and is about to exit, as cat(1), may neither be hung up, as it would be
    /// when we take that for the end and close the master, nor be unable to open /dev/tty again.
    peer: Option<OwnedFd>,
    /// Input: how much may still come, and how much of it the program has taken since that was last told.
    due: u32,
    owed: u32,
    /// The program has ended; the relay knows.
    ended: bool,
    told: bool,
    moving: Moving,
    leaving: Arc<Leaving>,
    /// Input that has come, in bytes.
    received: u64,
    /// The relay wants to hear once when its input is wanted.
    asked: Option<looking::Waits>,
    /// How often it has said whether it does.
    quiets: u64,
    file: Option<looking::Input>,
    watches: [Watch; 4],
}

impl Channel {
    pub(super) fn new(
        number: u64,
        (to, key): (To, [u8; 32]),
        ends: OurEnds,
        order: Arc<Order>,
        leaving: Arc<Leaving>,
    ) -> Result<Channel> {
        let (input, outputs, terminal, peer) = match ends.kind {
            Ends::Pipes { input, outputs: [output, errors] } => {
                let outputs = [output, errors].map(|fd| Output::new(Some(Arc::new(fd)), false));
                (Input::new(Arc::new(input), None), outputs, None, None)
            }
            Ends::Terminal { master, peer, end_of_file } => {
                let master = Arc::new(master);
                let outputs = [Output::new(Some(master.clone()), true), Output::new(None, false)];
                (Input::new(master.clone(), Some(end_of_file)), outputs, Some(master), Some(peer))
            }
        };
        Ok(Channel {
            number,
            line: Line::begin(to, key)?,
            deadline: Some(deadline()),
            held: Held::new(order),
            input,
            outputs,
            terminal,
            peer,
            due: CREDIT,
            owed: 0,
            ended: false,
            told: false,
            moving: Moving::No,
            leaving,
            received: 0,
            asked: None,
            quiets: 0,
            file: ends.file,
            watches: Default::default(),
        })
    }

    /// Does what can be done now that `slot` is ready.
    pub(super) fn ready(mut self, slot: Slot, hangup: bool) -> Result<Channel> {
        match slot {
            Slot::Line => return self.line_ready(),
            Slot::Input if hangup => self.input_broken()?,
            Slot::Input => self.write_input()?,
            Slot::Output => {
                self.write_input()?;
                self.read_output(0)?;
            }
            Slot::Errors => self.read_output(1)?,
        }
        Ok(self)
    }

    fn line_ready(mut self) -> Result<Channel> {
        self.line = self.line.go_on()?;
        if let Line::Open(secure) = &mut self.line {
            let received = secure.receive();
            while let Some(chunk) = self.line.next()? {
                self.take(chunk)?;
            }
            received?;
        }
        if self.line.is_established() && self.deadline.take().is_some() {
            tracing::debug!(streams = self.number, "dialling -> open");
            // The terminal itself may have ended meanwhile.
            if self.outputs[0].is_terminal() {
                self.tell(&Chunk::End { stream: Stream::Err })?;
            }
        }
        Ok(self)
    }

    fn take(&mut self, chunk: Chunk) -> Result<()> {
        match chunk {
            Chunk::Data { stream: Stream::In, bytes } => {
                let left = self.due.checked_sub(bytes.len() as u32);
                self.due = left.ok_or_else(|| Fault::wire("the relay sent more input than it may"))?;
                if self.moving == Moving::Told {
                    return self.queue_last(Chunk::Data { stream: Stream::In, bytes });
                }
                self.received += bytes.len() as u64;
                self.input.push(bytes);
                self.write_input()
            }
            Chunk::End { stream: Stream::In } => {
                self.input.end();
                self.write_input()
            }
            Chunk::Credit { stream, bytes } if stream != Stream::In => {
                self.outputs[index(stream)].allow(bytes);
                Ok(())
            }
            Chunk::Broken { stream } if stream != Stream::In => self.output_unwanted(index(stream)),
            Chunk::Window(window) => match &self.terminal {
                Some(master) => pty::set_window(master.as_fd(), window.rows, window.columns),
                None => Ok(()),
            },
            Chunk::Quiet { on, polls } => {
                let waits = if polls { looking::Waits::Any } else { looking::Waits::Read };
                self.quiets += 1;
                self.asked = on.then_some(waits);
                Ok(())
            }
            other => Err(Fault::wire(format!("{other:?} has no business on its way to a node"))),
        }
    }

    fn write_input(&mut self) -> Result<()> {
        let before = self.input.fd().is_some();
        let (bytes, broken) = match self.input.write() {
            Wrote::Bytes(n) => (n, false),
            Wrote::Broken(n) => (n, true),
        };
        // What closes here leaves the poller by itself: nobody else has this end.
        if before && self.input.fd().is_none() && self.terminal.is_none() {
            self.watches[Slot::Input as usize] = Watch::default();
        }
        self.owed += bytes;
        if broken {
            return self.tell(&Chunk::Broken { stream: Stream::In });
        }
        if self.owed >= PORTION {
            let bytes = std::mem::take(&mut self.owed);
            self.due = self.due.saturating_add(bytes);
            self.tell(&Chunk::Credit { stream: Stream::In, bytes })?;
        }
        Ok(())
    }

    /// Nobody has the program's input open for reading any more.
    fn input_broken(&mut self) -> Result<()> {
        if self.input.fd().is_some() {
            self.input.close();
            self.watches[Slot::Input as usize] = Watch::default();
            self.tell(&Chunk::Broken { stream: Stream::In })?;
        }
        Ok(())
    }

    fn read_output(&mut self, i: usize) -> Result<()> {
        for _ in 0..TURNS {
            if !self.outputs[i].may_read() {
                break;
            }
            match self.outputs[i].read(Vec::new()) {
                Read::Bytes(bytes) => self.queue_output(Chunk::Data { stream: STREAMS[i], bytes })?,
                Read::Nothing => break,
                Read::End => {
                    self.close_output(i)?;
                    // The end of a process that has moved on is not the end of what it writes.
                    if self.moving == Moving::No && !self.leaving.has(self.number) {
                        self.queue_output(Chunk::End { stream: STREAMS[i] })?;
                    }
                }
            }
        }
        self.flush()
    }

    /// The relay's own output has no reader any more: the program gets SIGPIPE, or the hangup of its terminal.
    fn output_unwanted(&mut self, i: usize) -> Result<()> {
        if self.outputs[i].fd().is_some() {
            self.close_output(i)?;
            self.queue_output(Chunk::End { stream: STREAMS[i] })?;
            self.flush()?;
        }
        Ok(())
    }

    /// A terminal's input goes with its output, and the relay must hear that: it keeps a process for as long as somebody may want input.
    fn close_output(&mut self, i: usize) -> Result<()> {
        self.outputs[i].close();
        self.watches[Slot::Output as usize + i] = Watch::default();
        match self.terminal.take() {
            Some(_) => self.input_broken(),
            None => Ok(()),
        }
    }

    /// The program is on another node; see [`super::Streams::moved`].
    pub(super) fn moved(&mut self, input: Option<OwnedFd>) -> Result<()> {
        if self.terminal.is_some() || self.ended || self.moving != Moving::No {
            return Err(Fault::bug("streams that cannot follow their program to another node"));
        }
        self.moving = Moving::Draining;
        // What it has as descriptor 0 by now may be another pipe, of which nothing is the relay's.
        self.input.withdraw(input.filter(|pipe| looking::Input::of_pipe(pipe) == self.file));
        self.watches[Slot::Input as usize] = Watch::default();
        self.outputs.iter_mut().for_each(Output::moved);
        Ok(())
    }

    /// All that the program has written here is on its way: what it has not read follows, and the word that it has moved.
    fn tell_moved(&mut self) -> Result<()> {
        self.moving = Moving::Told;
        (0..2).try_for_each(|i| self.close_output(i))?;
        for bytes in self.input.take_back() {
            self.queue_last(Chunk::Data { stream: Stream::In, bytes })?;
        }
        tracing::debug!(streams = self.number, "open -> moved");
        self.queue_last(Chunk::Moved { input: self.received })
    }

    /// The program has ended.
    pub(super) fn ended(&mut self) {
        if self.moving == Moving::No && !std::mem::replace(&mut self.ended, true) {
            self.peer = None;
            self.outputs.iter_mut().for_each(Output::ended);
        }
    }

    /// What follows from whatever has happened: the program's end is told when it is due, and the poller waits for the right things.
    pub(super) fn settle(&mut self, poller: &Poller) -> Result<()> {
        if matches!(self.line, Line::Open(_)) {
            for i in 0..2 {
                if self.outputs[i].must_look() {
                    self.read_output(i)?;
                }
            }
            if self.ended && !self.told && self.outputs.iter().all(Output::is_drained) {
                self.told = true;
                // Nobody may have been told yet that the program's input has no reader left.
                if self.terminal.is_none() && self.input.is_unread() {
                    self.input_broken()?;
                }
                tracing::debug!(streams = self.number, "open -> ended");
                self.queue_output(Chunk::Ended)?;
            }
            if self.moving == Moving::Draining && self.outputs.iter().all(Output::is_drained) {
                self.tell_moved()?;
            }
            while let Some(chunk) = self.held.take() {
                self.queue(&chunk)?;
            }
        }
        self.flush()?;
        self.watch(poller)
    }

    fn watch(&mut self, poller: &Poller) -> Result<()> {
        let token = |slot: Slot| self.number << 2 | slot as u64;
        let [line, input, output, errors] = &mut self.watches;
        line.set(poller, self.line.fd(), token(Slot::Line), Some(self.line.interest()))?;
        let writing = self.input.has_waiting();
        let reads = |output: &Output| output.may_read() && matches!(self.line, Line::Open(_));
        if let Some(master) = &self.terminal {
            let mut wanted = if reads(&self.outputs[0]) { Interest::READ } else { Interest::empty() };
            wanted.set(Interest::WRITE, writing);
            return output.set(poller, master.as_fd(), token(Slot::Output), (!wanted.is_empty()).then_some(wanted));
        }
        if let Some(fd) = self.input.fd() {
            let wanted = if writing { Interest::WRITE } else { Interest::empty() };
            input.set(poller, fd.as_fd(), token(Slot::Input), Some(wanted))?;
        }
        for (watch, slot, stream) in
            [(output, Slot::Output, &self.outputs[0]), (errors, Slot::Errors, &self.outputs[1])]
        {
            if let Some(fd) = stream.fd() {
                watch.set(poller, fd.as_fd(), token(slot), reads(stream).then_some(Interest::READ))?;
            }
        }
        Ok(())
    }

    /// Does the relay wait to hear that input is wanted?
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some() && self.input.fd().is_some()
    }

    /// Whose readers are to be looked for: which of the relay's wishes it is, for what, and how. `None`: what has been sent is not taken yet.
    pub(super) fn looks_for(&self) -> Option<(u64, looking::Input, looking::Waits)> {
        let (waits, file) = (self.asked?, self.file?);
        (!self.input.has_waiting()).then_some((self.quiets, file, waits))
    }

    /// Tells the relay, once, that a process waits for the program's input, as was to be found out for its wish `quiet`.
    pub(super) fn is_awaited(&mut self, quiet: u64) -> Result<()> {
        if self.looks_for().is_some_and(|(now, ..)| now == quiet) {
            self.asked = None;
            self.tell(&Chunk::Wanted)?;
        }
        Ok(())
    }

    fn tell(&mut self, chunk: &Chunk) -> Result<()> {
        self.queue(chunk)?;
        self.flush()
    }

    /// What comes from the program waits until all that it did before is shown.
    fn queue_output(&mut self, chunk: Chunk) -> Result<()> {
        self.held.pass(chunk).map_or(Ok(()), |chunk| self.queue(&chunk))
    }

    /// What is of no consequence for whoever reads the program's output goes behind the output, and waits for nothing else.
    fn queue_last(&mut self, chunk: Chunk) -> Result<()> {
        self.held.behind(chunk).map_or(Ok(()), |chunk| self.queue(&chunk))
    }

    fn queue(&mut self, chunk: &Chunk) -> Result<()> {
        match &mut self.line {
            Line::Open(secure) => secure.send(chunk),
            Line::Dialling(_) => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match &mut self.line {
            Line::Open(secure) => Secure::flush(secure),
            Line::Dialling(_) => Ok(()),
        }
    }
}

const STREAMS: [Stream; 2] = [Stream::Out, Stream::Err];

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Err)
}

#[cfg(test)]
mod tests {
    use super::super::{ends, StreamsId};
    use super::*;
    use kern::perf::Unread;
    use std::os::unix::net::UnixStream;
    use wire::run::{Stdio, Window};

    #[test]
    fn of_a_terminal_that_ends_before_the_handshake_every_end_is_told() {
        let (here, there) = UnixStream::pair().expect("sockets");
        there.set_nonblocking(true).expect("fcntl");
        let stdio = Stdio::Terminal { window: Window { rows: 24, columns: 80 }, term: Vec::new() };
        let (program, ours) = ends::make(StreamsId(1), &stdio).expect("a terminal");
        drop(program);
        let order = Arc::new(Order::new(Unread::none()).expect("eventfd"));
        let poller = Poller::new().expect("epoll");
        let mut channel =
            Channel::new(1, (To::Connected(here.into()), [7; 32]), ours, order, Arc::default()).expect("a channel");
        channel.ended();
        channel.settle(&poller).expect("open");
        let mut relay = Secure::channel_taker(there.into(), &[7; 32]).expect("the other end");
        let mut told = Vec::new();
        for _ in 0..10 {
            relay.receive().expect("open");
            relay.flush().expect("open");
            told.extend(std::iter::from_fn(|| relay.next::<Chunk>().expect("a chunk")));
            channel = channel.ready(Slot::Line, false).expect("open");
            channel.settle(&poller).expect("open");
        }
        for end in [
            Chunk::End { stream: Stream::Out },
            Chunk::End { stream: Stream::Err },
            Chunk::Broken { stream: Stream::In },
            Chunk::Ended,
        ] {
            assert!(told.contains(&end), "{end:?} is not among {told:?}");
        }
    }
}
