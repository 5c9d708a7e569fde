//! A trace as a monitor: it says what was so then, as if it were now. It goes on at the pace of whoever wrote it, whatever the nodes' clocks say; where another
//! one goes on writing it, or the first one was held up, what lies between is left out.

use crate::ask::{Ask, Verb};
use crate::join::Joined;
use crate::layout::{Layout, Sample};
use crate::serve::{Answers, Turn};
use crate::text::{self, Form};
use crate::trace::{Moment, Reader};
use kern::clock::monotonic_us;
use kern::epoll::{Poller, Ready};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::Arc;
use vocab::{Fault, Result};

/// Numbers, and what they mean.
type Told = (Arc<Layout>, Vec<u64>);

/// So many times the usual pause is waited at most.
const LONGEST_PAUSE: u64 = 10;

/// A trace while time passes in it.
pub struct Replay<R: Read> {
    reader: Reader<R>,
    /// How much faster time passes.
    speed: f64,
    /// When the next sample is due (monotonic), and when it was written.
    due_us: u64,
    moment: Moment,
    /// The shortest pause between two rounds so far, in the trace; 0: none.
    usual_us: u64,
    /// The newest of each node.
    now: BTreeMap<String, Sample>,
    next: Option<Sample>,
    /// Why it cannot go on.
    broken: Option<Fault>,
    /// What clients that ask for changes were told the last time, by node.
    told: HashMap<u32, HashMap<String, Told>>,
}

impl<R: Read> Replay<R> {
    /// Begins now, with the first sample.
    ///
    /// # Errors
    /// As of [`Reader`].
    pub fn new(mut reader: Reader<R>, speed: f64) -> Result<Replay<R>> {
        let (now, told) = (BTreeMap::new(), HashMap::new());
        let next = reader.next_sample()?;
        let (due_us, moment) = (monotonic_us(), reader.moment());
        Ok(Replay { reader, speed, due_us, moment, usual_us: 0, now, next, broken: None, told })
    }

    /// When the next sample is due (monotonic); `None` after the last.
    pub fn due_us(&self) -> Option<u64> {
        self.next.as_ref().map(|_| self.due_us)
    }

    /// Takes the next sample, whenever it is due; it is the newest of its node then.
    ///
    /// # Errors
    /// As of [`Reader`], behind what was whole.
    pub fn step(&mut self) -> Result<Option<&Sample>> {
        let Some(sample) = self.next.take() else {
            return self.broken.clone().map_or(Ok(None), Err);
        };
        match self.reader.next_sample() {
            Ok(next) => self.next = next,
            Err(fault) => self.broken = Some(fault),
        }
        self.pace(self.reader.moment());
        let node = sample.node.clone();
        let place = self.now.entry(node).insert_entry(sample);
        Ok(Some(place.into_mut()))
    }

    /// The next sample was written then.
    fn pace(&mut self, moment: Moment) {
        let before = std::mem::replace(&mut self.moment, moment);
        let pause = match before.writer == moment.writer {
            true => moment.at_us.saturating_sub(before.at_us),
            false => self.usual_us,
        };
        if pause == 0 {
            return;
        }
        if self.usual_us == 0 || pause < self.usual_us {
            self.usual_us = pause;
        }
        let pause = pause.min(self.usual_us.saturating_mul(LONGEST_PAUSE));
        self.due_us = self.due_us.saturating_add((pause as f64 / self.speed) as u64);
    }

    /// Takes all that is due.
    ///
    /// # Errors
    /// As of [`Replay::step`], now and from now on.
    fn catch_up(&mut self) -> Result<()> {
        while self.due_us().is_some_and(|due| due <= monotonic_us()) {
            self.step()?;
        }
        match (&self.next, &self.broken) {
            (None, Some(fault)) => Err(fault.clone()),
            _ => Ok(()),
        }
    }

    fn say(&mut self, client: u32, ask: &Ask, out: &mut Vec<u8>) {
        if ask.verb != Verb::Changed {
            self.told.remove(&client);
        }
        let mut joined = Joined::new(ask.form);
        for (node, sample) in &self.now {
            if let Some(why) = &sample.silent {
                joined.silent(node, why);
                continue;
            }
            let (layout, mut one) = (&*sample.layout, Vec::new());
            let wanted = ask.columns(layout);
            match ask.verb {
                Verb::Schema => text::write_schema(ask.form, layout, node, |at| wanted[at], &mut one),
                Verb::Sample | Verb::Changed => {
                    let told = self.told.get(&client).and_then(|told| told.get(node));
                    let told = told.filter(|told| Arc::ptr_eq(&told.0, &sample.layout)).map(|told| &*told.1);
                    let news = |at: usize| wanted[at] && told.is_none_or(|told| told.get(at) != sample.values.get(at));
                    text::write_some(ask.form, layout, (node, sample.time_us), &sample.values, news, &mut one);
                }
            }
            // One that cannot be taken in is marked.
            let _ = joined.answer(None, node, &one);
            if ask.verb == Verb::Changed {
                let newest = (sample.layout.clone(), sample.values.clone());
                self.told.entry(client).or_default().insert(node.clone(), newest);
            }
        }
        joined.finish(out);
    }
}

impl<R: Read> Answers for Replay<R> {
    fn answer(&mut self, _: &Poller, client: u32, line: &[u8], out: &mut Vec<u8>) -> Turn {
        let ask = Ask::read(line);
        let form = ask.as_ref().map_or(Form::Words, |ask| ask.form);
        let ready = self.catch_up().map_err(|fault| (form, fault.to_string()));
        match ask.and_then(|ask| ready.map(|()| ask)) {
            Ok(ask) => self.say(client, &ask, out),
            Err((form, why)) => text::write_error(form, &why, out),
        }
        out.push(b'\n');
        Turn::Answered
    }

    fn gone(&mut self, client: u32) {
        self.told.remove(&client);
    }

    fn ready(&mut self, _: &Poller, _: Ready) {}

    fn deadline(&self) -> Option<u64> {
        None
    }

    fn later(&mut self, _: &Poller, _: u64, _: &mut Vec<(u32, Vec<u8>)>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Column;
    use crate::trace::Writer;

    fn sample(time_us: u64) -> Sample {
        let layout = Arc::new(Layout { columns: vec![Column::new("load", "", "load1")] });
        Sample { node: "n0".into(), time_us, silent: None, layout, values: vec![time_us] }
    }

    /// Traces of two writers, each with its own clock.
    fn written(first: &[(u64, Sample)], second: &[(u64, Sample)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (new, rounds) in [(true, first), (false, second)] {
            let mut writer = Writer::new(&mut bytes, new).expect("memory");
            rounds.iter().for_each(|(at, one)| writer.write(*at, std::slice::from_ref(one)).expect("memory"));
        }
        bytes
    }

    /// How long after the first each sample is due.
    fn pauses(bytes: &[u8]) -> Vec<u64> {
        let mut replay = Replay::new(Reader::new(bytes).expect("a trace"), 1.0).expect("samples");
        let (start, mut found) = (replay.due_us, Vec::new());
        while let Some(due) = replay.due_us() {
            found.push(due - start);
            replay.step().expect("a sample");
        }
        found
    }

    #[test]
    fn the_writers_own_clock_gives_the_pace_and_gaps_are_left_out() {
        // The node's clock jumps years ahead and back; the recorder is held up; another one goes on an hour later.
        let first =
            [(5_000_000, sample(9)), (5_100_000, sample(u64::MAX)), (5_200_000, sample(3)), (99_000_000, sample(4))];
        let second = [(7, sample(1)), (100_007, sample(2))];
        assert_eq!(pauses(&written(&first, &second)), [0, 100_000, 200_000, 1_200_000, 1_300_000, 1_400_000]);
        // Its clock may be one that began anew.
        assert_eq!(pauses(&written(&first[..1], &second)), [0, 0, 100_000]);
    }

    #[test]
    fn everybody_is_told_that_it_cannot_go_on() {
        let mut bytes = written(&[(1, sample(1)), (2, sample(2))], &[]);
        let last = bytes.len() - 20;
        bytes[last] ^= 1;
        let mut replay = Replay::new(Reader::new(&bytes[..]).expect("a trace"), 1e6).expect("samples");
        replay.due_us = 0;
        let poller = Poller::new().expect("epoll");
        let mut asked = |client: u32| {
            let mut out = Vec::new();
            replay.answer(&poller, client, b"S", &mut out);
            String::from_utf8(out).expect("text")
        };
        for client in [1, 2, 1] {
            let said = asked(client);
            assert!(said.starts_with("(error \"a trace, at byte "), "{said}");
        }
    }
}
