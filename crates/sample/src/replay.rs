//! A trace as a monitor: it says what was so then, as if it were now.

use crate::ask::{Ask, Verb};
use crate::join::Joined;
use crate::layout::{Layout, Sample};
use crate::serve::{Answers, Turn};
use crate::text::{self, Form};
use crate::trace::Reader;
use kern::clock::monotonic_us;
use kern::epoll::{Poller, Ready};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::Arc;
use vocab::Result;

/// Numbers, and what they mean.
type Told = (Arc<Layout>, Vec<u64>);

/// A trace while time passes in it.
pub struct Replay<R: Read> {
    reader: Reader<R>,
    /// How much faster time passes.
    speed: f64,
    /// When it began: by our clock (monotonic), and in the trace.
    began_us: (u64, u64),
    /// The newest of each node.
    now: BTreeMap<String, Sample>,
    next: Option<Sample>,
    /// What clients that ask for changes were told the last time, by node.
    told: HashMap<u32, HashMap<String, Told>>,
}

impl<R: Read> Replay<R> {
    /// Begins now, with the first sample.
    ///
    /// # Errors
    /// As of [`Reader`].
    pub fn new(reader: Reader<R>, speed: f64) -> Result<Replay<R>> {
        let (now, told) = (BTreeMap::new(), HashMap::new());
        let mut replay = Replay { reader, speed, began_us: (monotonic_us(), 0), now, next: None, told };
        replay.next = replay.reader.next_sample()?;
        while replay.next.as_ref().is_some_and(|next| next.silent.is_some()) {
            replay.step()?;
        }
        replay.began_us.1 = replay.next.as_ref().map_or(0, |next| next.time_us);
        Ok(replay)
    }

    /// When the next sample is due (monotonic); `None` after the last.
    pub fn due_us(&self) -> Option<u64> {
        let next = self.next.as_ref()?;
        let passed = next.time_us.saturating_sub(self.began_us.1) as f64 / self.speed;
        Some(if next.silent.is_some() { 0 } else { self.began_us.0.saturating_add(passed as u64) })
    }

    /// Takes the next sample, whenever it is due; it is the newest of its node then.
    ///
    /// # Errors
    /// As of [`Reader`].
    pub fn step(&mut self) -> Result<Option<&Sample>> {
        let Some(sample) = self.next.take() else { return Ok(None) };
        self.next = self.reader.next_sample()?;
        let node = sample.node.clone();
        let place = self.now.entry(node).insert_entry(sample);
        Ok(Some(place.into_mut()))
    }

    /// Takes all that is due.
    fn catch_up(&mut self) -> Result<()> {
        while self.due_us().is_some_and(|due| due <= monotonic_us()) {
            self.step()?;
        }
        Ok(())
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
