//! What is said between those who ask and the processes that look: packets of 64-bit numbers, of one program to itself.

use super::{Input, Waits};
use vocab::Pid;

/// The longest packet of an answer, in bytes; a question may be longer.
pub(super) const PACKET: usize = 3 * NUMBER + PIECE;
/// The most bytes of entries in a packet.
pub(super) const PIECE: usize = 128 * 1024;
/// Bytes of a command line that are worth telling.
pub(super) const COMMAND: usize = 1024;
const NUMBER: usize = 8;
/// No user.
const NOBODY: u64 = u64::MAX;

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Question {
    /// The arguments of all processes.
    Commands,
    /// Which of these, each with a number for it, a process waits for.
    Awaited(Vec<(u64, Input, Waits)>),
    /// What /proc shows of these.
    Entries(Vec<Pid>, Of),
}

/// What is looked at in the directory of a process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Of {
    /// What is commonly read.
    pub(crate) common: bool,
    /// There is no end to how long it may be, but that of a frame.
    pub(crate) whole: bool,
    pub(crate) paths: Vec<Vec<u8>>,
}

/// A question as it comes.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) number: u64,
    pub(super) question: Question,
    /// Users whose processes are not looked at.
    pub(super) passed_over: Vec<u32>,
    /// At whose processes whoever asks takes the looker to be, until that says [`Said::At`].
    pub(super) at: Option<u32>,
}

/// A piece of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    /// The processes of this user come now.
    At { uid: u32 },
    /// Its arguments, each ended by a NUL, as far as they are worth telling.
    Command { pid: Pid, words: Vec<u8> },
    /// A process waits for the input of this number.
    Awaited { id: u64 },
    /// A piece of what was found ([`wire::entry`]).
    Entries(Vec<u8>),
    /// The last piece of it, and that was all.
    Last(Vec<u8>),
    /// That was all.
    End,
}

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn numbers(packet: &[u8]) -> impl Iterator<Item = u64> + '_ {
    packet.chunks_exact(NUMBER).filter_map(|chunk| Some(u64::from_le_bytes(chunk.try_into().ok()?)))
}

impl Question {
    pub(super) fn packet(&self, number: u64, passed_over: impl Iterator<Item = u32>, at: Option<u32>) -> Vec<u8> {
        let users: Vec<u64> = passed_over.map(u64::from).collect();
        let at = at.map_or(NOBODY, u64::from);
        let kind = match self {
            Question::Commands => 0,
            Question::Awaited(_) => 1,
            Question::Entries(..) => 2,
        };
        let mut all = vec![number, kind, at, users.len() as u64];
        all.extend(users);
        if let Question::Entries(pids, of) = self {
            all.extend([of.common.into(), of.whole.into(), pids.len() as u64]);
            all.extend(pids.iter().map(|pid| pid.0 as u64));
            return [bytes(&all), of.paths.join(&0)].concat();
        }
        if let Question::Awaited(inputs) = self {
            for (id, input, waits) in inputs {
                let (kind, (major, minor), ino) = match *input {
                    Input::Pipe(dev, ino) => (0, dev, ino),
                    Input::Terminal(dev) => (1, dev, 0),
                };
                all.extend([*id, kind, major.into(), minor.into(), ino, u64::from(*waits == Waits::Any)]);
            }
        }
        bytes(&all)
    }
}

impl Asked {
    pub(super) fn of(packet: &[u8]) -> Option<Asked> {
        let all: Vec<u64> = numbers(packet).collect();
        let (&[number, kind, at, count], rest) = all.split_first_chunk()?;
        let (users, rest) = rest.split_at_checked(usize::try_from(count).ok()?)?;
        let passed_over = users.iter().map(|uid| *uid as u32).collect();
        let question = match kind {
            0 => Question::Commands,
            1 => Question::Awaited(Asked::inputs(rest)),
            _ => {
                let (&[common, whole, count], rest) = rest.split_first_chunk()?;
                let pids = rest.get(..usize::try_from(count).ok()?)?;
                let paths = &packet[NUMBER * (7 + users.len() + pids.len())..];
                let paths = paths.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec);
                let of = Of { common: common != 0, whole: whole != 0, paths: paths.collect() };
                Question::Entries(pids.iter().map(|pid| Pid(*pid as i32)).collect(), of)
            }
        };
        Some(Asked { number, question, passed_over, at: u32::try_from(at).ok() })
    }

    fn inputs(numbers: &[u64]) -> Vec<(u64, Input, Waits)> {
        let input = |one: &[u64]| {
            let &[id, kind, major, minor, ino, any] = one else { return None };
            let dev = (major as u32, minor as u32);
            let input = if kind == 0 { Input::Pipe(dev, ino) } else { Input::Terminal(dev) };
            Some((id, input, if any == 0 { Waits::Read } else { Waits::Any }))
        };
        numbers.chunks_exact(6).filter_map(input).collect()
    }
}

impl Said {
    pub(super) fn packet(&self, number: u64) -> Vec<u8> {
        match self {
            Said::At { uid } => bytes(&[number, 0, (*uid).into()]),
            Said::Command { pid, words } => [&bytes(&[number, 1, pid.0 as u64]), &words[..]].concat(),
            Said::Awaited { id } => bytes(&[number, 2, *id]),
            Said::Entries(found) => [&bytes(&[number, 4, 0]), &found[..]].concat(),
            Said::Last(found) => [&bytes(&[number, 5, 0]), &found[..]].concat(),
            Said::End => bytes(&[number, 3, 0]),
        }
    }

    /// `None`: it is the answer to a question other than `number`.
    pub(super) fn of(packet: &[u8], number: u64) -> Option<Said> {
        let (head, words) = packet.split_at_checked(3 * NUMBER)?;
        let mut head = numbers(head);
        let (of, kind, what) = (head.next()?, head.next()?, head.next()?);
        match kind {
            _ if of != number => None,
            0 => Some(Said::At { uid: what as u32 }),
            1 => Some(Said::Command { pid: Pid(what as i32), words: words.to_vec() }),
            2 => Some(Said::Awaited { id: what }),
            4 => Some(Said::Entries(words.to_vec())),
            5 => Some(Said::Last(words.to_vec())),
            _ => Some(Said::End),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_come_through() {
        let inputs = vec![(7, Input::Pipe((1, 2), 3), Waits::Read), (8, Input::Terminal((136, 5)), Waits::Any)];
        let pids = vec![Pid(7), Pid(4_000_000)];
        let common = Of { common: true, ..Of::default() };
        let one = Of { whole: true, paths: vec![b"task/7/wchan".to_vec()], ..Of::default() };
        let two = Of { common: true, paths: vec![b"io".to_vec(), b"environ".to_vec()], ..Of::default() };
        let entries = [common, one, two].map(|of| Question::Entries(pids.clone(), of));
        for question in [Question::Commands, Question::Awaited(inputs)].into_iter().chain(entries) {
            for at in [None, Some(0), Some(61002)] {
                let asked = Asked::of(&question.packet(9, [61001, 0].into_iter(), at)).expect("a question");
                assert_eq!((asked.number, &asked.question, asked.at), (9, &question, at));
                assert_eq!(asked.passed_over, [61001, 0]);
            }
        }
        let words = b"sleep\x001\0".to_vec();
        let entries = Said::Entries(vec![1, 2, 3]);
        for said in [
            entries,
            Said::Last(vec![4]),
            Said::Last(Vec::new()),
            Said::At { uid: 5 },
            Said::Command { pid: Pid(6), words },
            Said::Awaited { id: u64::MAX },
            Said::End,
        ] {
            assert_eq!(Said::of(&said.packet(4), 4), Some(said.clone()));
            assert_eq!(Said::of(&said.packet(4), 5), None);
        }
    }
}
