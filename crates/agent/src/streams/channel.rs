//! The streams of one program and their channel.

use super::dial::{deadline, Line, Next};
use super::ends::{Ends, OurEnds};
use super::held::Held;
use super::input::{Input, Wrote};
use super::leaving::Leaving;
use super::output::{Output, Read};
use super::terminal::Terminal;
use super::watch::{Slot, Watch};
use crate::looking;
use crate::order::Order;
use kern::epoll::{Interest, Poller};
use kern::pty;
use link::Secure;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use vocab::{Fault, Result};
use wire::stream::{Chunk, Stream, CREDIT, PIECE};

/// Input that the program has taken is told to the relay in portions of this size.
const PORTION: u32 = CREDIT / 4;

/// Pieces of one stream that are read before others get their turn.
const TURNS: usize = 8;

/// A process has left: the relay is told when so much has been read of its outputs.
struct Mark {
    branch: u64,
    left: [usize; 2],
}

/// See the module. Every failure of a call means that the channel is over: drop it, and the program gets EOF and EPIPE.
pub(super) struct Channel {
    pub(super) number: u64,
    pub(super) line: Line,
    /// When the handshake must be done, until it is.
    pub(super) deadline: Option<u64>,
    /// Until then it may break, and is dialled again.
    pub(super) waits: bool,
    /// The token of the newest, if it was dialled again.
    pub(super) again: Option<[u8; 16]>,
    pub(super) held: Held,
    input: Input,
    outputs: [Output; 2],
    terminal: Option<Arc<Terminal>>,
    /// Input: how much may still come, and how much of it the program has taken since that was last told.
    due: u32,
    owed: u32,
    /// The program has ended; the relay knows.
    ended: bool,
    told: bool,
    /// In the order in which they have left.
    marks: VecDeque<Mark>,
    /// Ends of output and input that are told behind those.
    ends: [bool; 2],
    broken: bool,
    told_broken: bool,
    /// Input goes back, until the relay sends it anew.
    goes_back: bool,
    pub(super) leaving: Arc<Leaving>,
    /// Input that has come, in bytes.
    received: u64,
    /// The relay wants to hear once when its input is wanted.
    asked: Option<looking::Waits>,
    /// How often it has said whether it does.
    quiets: u64,
    file: Option<looking::Input>,
    pub(super) watches: [Watch; 4],
}

impl Channel {
    pub(super) fn new(number: u64, line: Line, ends: OurEnds, order: Arc<Order>, leaving: Arc<Leaving>) -> Channel {
        let (input, outputs, terminal) = match ends.kind {
            Ends::Pipes { input, outputs: [output, errors] } => {
                let outputs = [output, errors].map(|fd| Output::new(Some(Arc::new(fd)), None));
                (Input::new(Arc::new(input), None), outputs, None)
            }
            Ends::Terminal(terminal) => {
                let master = terminal.master();
                let outputs = [Output::new(Some(master.clone()), Some(terminal.clone())), Output::new(None, None)];
                (Input::new(master, Some(terminal.clone())), outputs, Some(terminal))
            }
        };
        Channel {
            number,
            line,
            deadline: Some(deadline()),
            waits: false,
            again: None,
            held: Held::new(order),
            input,
            outputs,
            terminal,
            due: CREDIT,
            owed: 0,
            ended: false,
            told: false,
            marks: VecDeque::new(),
            ends: [false; 2],
            broken: false,
            told_broken: false,
            goes_back: false,
            leaving,
            received: 0,
            asked: None,
            quiets: 0,
            file: ends.file,
            watches: Default::default(),
        }
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
        let was = std::mem::replace(&mut self.line, Line::Broken);
        match was.go_on() {
            Ok(Next::Same(line)) => self.line = line,
            Ok(Next::Another(line)) => self.is_on(line),
            Err(fault) if self.waits => {
                self.breaks(&fault);
                return Ok(self);
            }
            Err(fault) => return Err(fault),
        }
        if let Line::Open(secure) = &mut self.line {
            let received = secure.receive();
            while let Some(chunk) = self.line.next()? {
                self.take(chunk)?;
            }
            received?;
        }
        if self.line.is_established() && self.deadline.take().is_some() {
            tracing::debug!(streams = self.number, "dialling -> open");
            self.leaving.waits_no_more(self.number);
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
                if self.goes_back {
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
                Some(terminal) => pty::set_window(terminal.master().as_fd(), window.rows, window.columns),
                None => Ok(()),
            },
            Chunk::Recall if self.terminal.is_none() => self.give_back(),
            Chunk::Again if self.goes_back => {
                (self.received, self.due, self.owed) = (0, CREDIT, 0);
                if self.told_broken {
                    // It did not know yet that nobody reads here.
                    return self.queue_last(Chunk::Back { input: 0 });
                }
                self.goes_back = false;
                Ok(())
            }
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
        if self.goes_back {
            return Ok(());
        }
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
            return self.input_broken();
        }
        if self.owed >= PORTION {
            let bytes = std::mem::take(&mut self.owed);
            self.due = self.due.saturating_add(bytes);
            self.tell(&Chunk::Credit { stream: Stream::In, bytes })?;
        }
        Ok(())
    }

    /// Nobody has the program's input open for reading any more, unless it is about to have it elsewhere.
    fn input_broken(&mut self) -> Result<()> {
        if self.leaving.has(self.number) || !matches!(self.line, Line::Open(_)) {
            self.broken = true;
            return Ok(());
        }
        if !std::mem::replace(&mut self.told_broken, true) {
            if self.terminal.is_none() {
                self.give_back()?;
            }
            self.input.close();
            self.watches[Slot::Input as usize] = Watch::default();
            self.queue_last(Chunk::Broken { stream: Stream::In })?;
            self.flush()?;
        }
        Ok(())
    }

    /// What nobody has read of the input goes to the relay again.
    fn give_back(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.goes_back, true) {
            return Ok(());
        }
        self.input.withdraw();
        for bytes in self.input.take_back() {
            for piece in bytes.chunks(PIECE) {
                self.queue_last(Chunk::Data { stream: Stream::In, bytes: piece.to_vec() })?;
            }
        }
        self.queue_last(Chunk::Back { input: self.received })?;
        self.flush()
    }

    fn read_output(&mut self, i: usize) -> Result<()> {
        for _ in 0..TURNS {
            if !self.outputs[i].may_read() {
                break;
            }
            match self.outputs[i].read(Vec::new()) {
                Read::Bytes(bytes) => {
                    self.marks.iter_mut().for_each(|mark| mark.left[i] = mark.left[i].saturating_sub(bytes.len()));
                    self.queue_output(Chunk::Data { stream: STREAMS[i], bytes })?;
                    self.tell_left()?;
                }
                Read::Nothing => break,
                Read::End => {
                    self.close_output(i)?;
                    self.marks.iter_mut().for_each(|mark| mark.left[i] = 0);
                    // Whoever has moved on is told of first.
                    match self.leaving.has(self.number) {
                        true => self.ends[i] = true,
                        false => self.queue_output(Chunk::End { stream: STREAMS[i] })?,
                    }
                    self.tell_left()?;
                }
            }
        }
        self.flush()
    }

    /// The relay's own output has no reader any more: the program gets SIGPIPE, or the hangup of its terminal.
    fn output_unwanted(&mut self, i: usize) -> Result<()> {
        if self.outputs[i].fd().is_some() {
            self.close_output(i)?;
            self.marks.iter_mut().for_each(|mark| mark.left[i] = 0);
            self.queue_output(Chunk::End { stream: STREAMS[i] })?;
            self.tell_left()?;
            self.flush()?;
        }
        Ok(())
    }

    /// A terminal's input goes with its output, and the relay must hear that: it keeps a process for as long as somebody may want input.
    fn close_output(&mut self, i: usize) -> Result<()> {
        self.outputs[i].close();
        self.watches[Slot::Output as usize + i] = Watch::default();
        match self.terminal.take() {
            Some(_) => {
                self.leaving.forget_terminal(self.number);
                self.input_broken()
            }
            None => Ok(()),
        }
    }

    /// This was typed before all that waits.
    pub(super) fn typed(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.input.push_first(bytes);
        self.write_input()
    }

    /// It is not held any more.
    pub(super) fn stays(&mut self) -> Result<()> {
        self.write_input()
    }

    /// A process is on another node; see [`super::Streams::left`].
    pub(super) fn left(&mut self, branch: u64) -> Result<()> {
        let left = self.outputs.each_ref().map(Output::waiting);
        self.marks.push_back(Mark { branch, left });
        self.tell_left()
    }

    /// All that those have written here who have left is on its way: the relay may be told.
    fn tell_left(&mut self) -> Result<()> {
        if !matches!(self.line, Line::Open(_)) {
            return Ok(());
        }
        let before = self.marks.len();
        while self.marks.front().is_some_and(|mark| mark.left == [0; 2]) {
            let Some(mark) = self.marks.pop_front() else { break };
            tracing::debug!(streams = self.number, branch = mark.branch, "one has left");
            self.queue_last(Chunk::Left { branch: mark.branch })?;
            self.leaving.remove(self.number);
        }
        if self.leaving.has(self.number) {
            return self.flush();
        }
        if self.marks.len() < before && self.terminal.is_some() {
            // It was that one's alone, and ends here.
            return self.output_unwanted(0);
        }
        for (stream, ended) in STREAMS.into_iter().zip(std::mem::take(&mut self.ends)) {
            if ended {
                self.queue_output(Chunk::End { stream })?;
            }
        }
        if std::mem::take(&mut self.broken) {
            self.input_broken()?;
        }
        self.flush()
    }

    /// The program has ended.
    pub(super) fn ended(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.terminal.iter().for_each(|terminal| terminal.ended());
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
            if !self.marks.is_empty() {
                (0..2).try_for_each(|i| self.read_output(i))?;
            }
            self.tell_left()?;
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
        if let Some(fd) = self.line.fd() {
            line.set(poller, fd, token(Slot::Line), Some(self.line.interest()))?;
        }
        let held = self.terminal.as_ref().is_some_and(|terminal| terminal.is_held());
        let writing = self.input.has_waiting() && !held;
        let reads = |output: &Output| output.may_read() && matches!(self.line, Line::Open(_));
        if let Some(terminal) = &self.terminal {
            let mut wanted = if reads(&self.outputs[0]) { Interest::READ } else { Interest::empty() };
            wanted.set(Interest::WRITE, writing);
            return output.set(
                poller,
                terminal.master().as_fd(),
                token(Slot::Output),
                (!wanted.is_empty()).then_some(wanted),
            );
        }
        if let Some(fd) = self.input.fd() {
            let wanted = if writing { Interest::WRITE } else { Interest::empty() };
            input.set(poller, fd.as_fd(), token(Slot::Input), (!self.broken).then_some(wanted))?;
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

    /// Does the relay, or the end of a terminal's input, wait for who wants input?
    pub(super) fn is_asked(&self) -> bool {
        (self.asked.is_some() || self.input.ends_when_read()) && self.input.fd().is_some()
    }

    /// Whose readers are to be looked for: which of the relay's wishes it is, for what, and how. `None`: what has been sent is not taken yet.
    pub(super) fn looks_for(&self) -> Option<(u64, looking::Input, looking::Waits)> {
        let waits = if self.input.ends_when_read() { looking::Waits::Any } else { self.asked? };
        let file = self.file?;
        (!self.input.has_waiting()).then_some((self.quiets, file, waits))
    }

    /// Tells the reader that there is no more, or the relay, once, that a process waits for the program's input, as was to be found out for its wish `quiet`.
    pub(super) fn is_awaited(&mut self, quiet: u64) -> Result<()> {
        if self.looks_for().is_none_or(|(now, ..)| now != quiet) {
            return Ok(());
        }
        if self.input.ends_when_read() {
            self.quiets += 1;
            self.input.end_is_read();
            return self.write_input();
        }
        self.asked = None;
        self.tell(&Chunk::Wanted)
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
            Line::Dialling(_) | Line::Shaking(..) | Line::Broken => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match &mut self.line {
            Line::Open(secure) => Secure::flush(secure),
            Line::Dialling(_) | Line::Shaking(..) | Line::Broken => Ok(()),
        }
    }
}

const STREAMS: [Stream; 2] = [Stream::Out, Stream::Err];

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Err)
}

#[cfg(test)]
mod tests {
    use super::super::{ends, StreamsId, To};
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
        let line = Line::begin(To::Connected(here.into()), [7; 32], 1).expect("a socket");
        let mut channel = Channel::new(1, line, ours, order, Arc::default());
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
