//! A concentrator: it answers with what many monitors answer, which may be concentrators themselves.
//!
//! The question goes to them as it came, and their answers come out as they are: it knows nothing of what they sample. A client has connections of its own
//! to all of them, since of what has changed each is told what is news to it; when there are too many, the connections of one that asks nothing now are given to
//! another, and it is told everything the next time.

use crate::ask::{Ask, Verb};
use crate::gather::{From, Gather};
use crate::serve::{Answers, Turn, OTHERS};
use crate::text::{self, Form};
use kern::clock::monotonic_us;
use kern::epoll::{Interest, Poller, Ready};
use std::collections::HashMap;
use std::os::fd::AsFd;
use tracing::warn;
use vocab::{Fault, Result};

/// Clients that are served at one time.
const MOST_SETS: usize = 64;
/// Connections kept for clients to come.
const MOST_SPARE: usize = 2;
/// Who is silent is waited for in one round in so many microseconds.
const AGAIN_US: u64 = 1_000_000;

struct Set {
    gather: Gather,
    client: Option<u32>,
    /// In which form it was asked what is under way.
    asked: Option<Form>,
    /// Monitors remember what they have told it.
    remembered: bool,
    /// When it was used the last time (monotonic).
    used_us: u64,
}

/// Answers with what others answer.
pub struct Concentrator {
    from: Vec<From>,
    limit_us: u64,
    sets: HashMap<u64, Set>,
    next: u64,
    /// Of who was silent in the last round of anybody, and has said nothing since: when it is waited for again (monotonic).
    silent: Vec<Option<u64>>,
}

impl Concentrator {
    /// `limit_us`: microseconds after which who has not answered is marked.
    pub fn new(from: Vec<From>, limit_us: u64) -> Concentrator {
        let silent = vec![None; from.len()];
        Concentrator { from, limit_us, sets: HashMap::new(), next: 0, silent }
    }

    fn set_of(&mut self, poller: &Poller, client: u32) -> Result<&mut Set> {
        let of =
            |wanted: Option<u32>| self.sets.iter().find(|(_, set)| set.client == wanted).map(|(number, _)| *number);
        let found = of(Some(client)).or_else(|| of(None));
        let found = match found {
            None if self.sets.len() >= MOST_SETS => self.idle_set()?,
            found => found,
        };
        let number = match found {
            Some(number) => number,
            None => {
                let gather = Gather::new(&self.from, self.limit_us)?;
                let number = self.next;
                poller.add(gather.as_fd(), OTHERS + number, Interest::READ)?;
                self.next += 1;
                let (client, asked, remembered) = (None, None, false);
                self.sets.insert(number, Set { gather, client, asked, remembered, used_us: 0 });
                number
            }
        };
        let set = self.sets.get_mut(&number).ok_or_else(|| Fault::bug("a set that was there a moment ago"))?;
        set.client = Some(client);
        set.used_us = monotonic_us();
        Ok(set)
    }

    /// Of those whose client asks nothing now the one that was used longest ago. What monitors remember of its client is of no use to another: such a set
    /// goes, and `None` is left for a new one.
    fn idle_set(&mut self) -> Result<Option<u64>> {
        let idle = self.sets.iter().filter(|(_, set)| set.asked.is_none());
        let chosen = idle.min_by_key(|(_, set)| (set.remembered, set.used_us)).map(|(number, _)| *number);
        let number = chosen.ok_or_else(|| Fault::refused(format!("{MOST_SETS} clients are served already")))?;
        match self.sets.get(&number).is_some_and(|set| set.remembered) {
            true => {
                self.sets.remove(&number);
                Ok(None)
            }
            false => Ok(Some(number)),
        }
    }

    /// Who is not waited for in a round that begins now.
    fn expected_silent(&mut self) -> Vec<bool> {
        let now = monotonic_us();
        let expected = |again: &mut Option<u64>| match again {
            Some(at) if now < *at => true,
            Some(at) => {
                *at = now + AGAIN_US;
                false
            }
            None => false,
        };
        self.silent.iter_mut().map(expected).collect()
    }
}

/// Who has said something is silent no more.
fn hear(silent: &mut [Option<u64>], heard: &[bool]) {
    silent.iter_mut().zip(heard).filter(|(_, heard)| **heard).for_each(|(again, _)| *again = None);
}

impl Answers for Concentrator {
    fn answer(&mut self, poller: &Poller, client: u32, line: &[u8], out: &mut Vec<u8>) -> Turn {
        let begun = Ask::read(line).and_then(|mut ask| {
            let failed = |why: String| (ask.form, why);
            let depth = ask.deeper().map_err(failed)?;
            let silent = self.expected_silent();
            let set = self.set_of(poller, client).map_err(|fault| failed(fault.to_string()))?;
            ask.depth = depth;
            set.remembered |= ask.verb == Verb::Changed;
            set.asked = Some(ask.form);
            set.gather.expect_silence(&silent);
            set.gather.begin(ask.line().as_bytes());
            Ok(())
        });
        match begun {
            Ok(()) => Turn::Later,
            Err((form, why)) => {
                text::write_error(form, &why, out);
                out.push(b'\n');
                Turn::Answered
            }
        }
    }

    fn gone(&mut self, client: u32) {
        let Some((number, set)) = self.sets.iter_mut().find(|(_, set)| set.client == Some(client)) else { return };
        let number = *number;
        // One whose round is under way would give its answers to the next client.
        let clean = !set.remembered && set.asked.is_none();
        set.client = None;
        let spare = self.sets.values().filter(|set| set.client.is_none()).count();
        if !clean || spare > MOST_SPARE {
            self.sets.remove(&number);
        }
    }

    fn ready(&mut self, _: &Poller, event: Ready) {
        // A round that is over is looked at in `later`, for its time too.
        if let Some(set) = self.sets.get_mut(&(event.token - OTHERS)).filter(|set| set.asked.is_none()) {
            if let Err(fault) = set.gather.turn() {
                warn!(%fault, "monitors cannot be waited for");
            }
            hear(&mut self.silent, &set.gather.heard());
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.sets.values().filter(|set| set.asked.is_some()).map(|set| set.gather.deadline()).min()
    }

    fn later(&mut self, _: &Poller, _: u64, answers: &mut Vec<(u32, Vec<u8>)>) {
        for set in self.sets.values_mut() {
            let (Some(form), Some(client)) = (set.asked, set.client) else { continue };
            match set.gather.turn() {
                Ok(false) => continue,
                Ok(true) => {}
                Err(fault) => warn!(%fault, "monitors cannot be waited for"),
            }
            hear(&mut self.silent, &set.gather.heard());
            let now = monotonic_us();
            for (again, silent) in self.silent.iter_mut().zip(set.gather.silent_ones()) {
                *again = silent.then(|| again.unwrap_or(now + AGAIN_US));
            }
            let mut answer = Vec::new();
            set.gather.join(form, &mut answer);
            answer.push(b'\n');
            set.asked = None;
            answers.push((client, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Address;
    use crate::serve::Server;
    use kern::sock;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;
    use std::time::Duration;

    const WITHIN_US: u64 = 50_000;

    fn path(what: &str) -> PathBuf {
        std::env::temp_dir().join(format!("shoal-gather.{}.{what}", std::process::id()))
    }

    /// A monitor that says its name and what it was asked, and of the first question only after a pause.
    fn monitor(name: &'static str, pause: Duration) -> From {
        let at = path(name);
        let _ = std::fs::remove_file(&at);
        let listener = UnixListener::bind(&at).expect("a socket");
        let first = Arc::new(AtomicBool::new(true));
        let answer = move |stream: UnixStream, first: &AtomicBool| {
            let mut to = stream.try_clone().expect("a copy");
            for line in BufReader::new(stream).lines().map_while(std::result::Result::ok) {
                if first.swap(false, Ordering::Relaxed) {
                    std::thread::sleep(pause);
                }
                let question = line.split_once('(').expect("a list").1;
                let asked: String = question.chars().filter(char::is_ascii_digit).collect();
                if to.write_all(format!("(sample (node {name}) (time {asked}))\n").as_bytes()).is_err() {
                    break;
                }
            }
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let first = first.clone();
                std::thread::spawn(move || answer(stream, &first));
            }
        });
        From { name: None, address: Address::Unix(at) }
    }

    fn concentrator(what: &str, from: Vec<From>) -> PathBuf {
        let at = path(what);
        let mut server = Server::new(Concentrator::new(from, WITHIN_US)).expect("a loop");
        server.listen(sock::unix_listen(&at, 0o600).expect("a socket")).expect("epoll");
        std::thread::spawn(move || {
            let mut ready = Vec::new();
            while server.turn(None, &mut ready).is_ok() {}
        });
        at
    }

    struct Client(BufReader<UnixStream>);

    impl Client {
        fn of(at: &Path) -> Client {
            Client(BufReader::new(UnixStream::connect(at).expect("it listens")))
        }

        fn ask(&mut self, question: &str) -> String {
            self.0.get_mut().write_all(format!("{question}\n").as_bytes()).expect("it reads");
            let mut answer = String::new();
            self.0.read_line(&mut answer).expect("it answers");
            answer.trim_end().into()
        }
    }

    /// What it owes is not taken for the answer to another question, and it is asked and heard again: beside others and alone.
    #[test]
    fn who_was_silent_is_heard_again() {
        let pause = Duration::from_millis(400);
        let alone = concentrator("c1", vec![monitor("slow1", pause)]);
        let beside = concentrator("c2", vec![monitor("slow2", pause), monitor("quick", Duration::ZERO)]);
        for (at, name, others) in [(alone, "slow1", ""), (beside, "slow2", "quick")] {
            let mut clients = [Client::of(&at), Client::of(&at)];
            let first = clients[0].ask("(sample q1)");
            assert!(first.contains("(silent "), "{first}");
            std::thread::sleep(2 * pause);
            for number in 2..8 {
                let said = clients[number % 2].ask(&format!("(sample q{number})"));
                assert!(said.contains(&format!("(sample (node {name}) (time {number}))")), "{name} {number}: {said}");
                assert!(
                    others.is_empty() || said.contains(&format!("(sample (node {others}) (time {number}))")),
                    "{said}"
                );
            }
        }
    }

    #[test]
    fn who_is_silent_is_waited_for_now_and_then_only() {
        let at = concentrator("c3", vec![monitor("dead", Duration::from_secs(600)), monitor("there", Duration::ZERO)]);
        let mut client = Client::of(&at);
        client.ask("(sample q1)");
        let start = monotonic_us();
        let rounds =
            (2..102).filter(|n| client.ask(&format!("(sample q{n})")).contains(&format!("(time {n})"))).count();
        assert_eq!(rounds, 100);
        assert!(monotonic_us() - start < 20 * WITHIN_US, "{} us", monotonic_us() - start);
    }

    #[test]
    fn more_clients_than_connections_are_served_if_they_ask_one_after_the_other() {
        let at = concentrator("c4", vec![monitor("one", Duration::ZERO)]);
        let mut clients: Vec<Client> = (0..MOST_SETS + 5).map(|_| Client::of(&at)).collect();
        for verb in ["sample", "changed", "sample"] {
            for (number, client) in clients.iter_mut().enumerate() {
                let said = client.ask(&format!("({verb} q{number})"));
                assert!(said.contains(&format!("(time {number})")), "{said}");
            }
        }
    }

    #[test]
    fn a_circle_of_concentrators_ends() {
        let at = path("circle");
        let there = concentrator("circle", vec![From { name: None, address: Address::Unix(at.clone()) }]);
        let said = Client::of(&there).ask("S");
        assert!(said.starts_with("(samples"), "{said}");
        assert!(said.contains("silent"), "{said}");
    }
}
