//! Every message comes back from its bytes as it was; the kept samples are read as they were meant; and no bytes
//! whatever make a reader panic or take more memory than agreed.
//!
//! Samples are one frame each, `samples/{valid,older,invalid}/TYPE-what.bin`. They are never changed: bytes that an older
//! shoal wrote must be read for ever. Those of messages that have lost a field since are in `older`.
//! `UPDATE_SAMPLES=1 cargo test -p wire --test frames` writes those that are missing, after a message was added.

mod messages;

use messages::jobs::{job_answers, job_asks};
use messages::join::{join_answers, join_asks};
use messages::view::{view_answers, view_asks};
use messages::{answers, any_of, asks, chunks, to_front, to_node, Variants};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vocab::{Creds, Ids, Kind, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::event::Person;
use wire::frame;
use wire::hello::Hello;
use wire::jobs::{JobAnswer, JobAsk};
use wire::join::{JoinAnswer, JoinAsk};
use wire::node::{ToFront, ToNode};
use wire::stream::Chunk;

/// A message as it comes out of its own frame.
fn round_trip<T>(message: &T) -> T
where
    T: minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()>,
{
    let mut bytes = Vec::new();
    frame::encode(message, &mut bytes).expect("short enough");
    let (body, used) = frame::split(&bytes).expect("a good length").expect("whole");
    assert_eq!(used, bytes.len());
    frame::decode(body).expect("own encoding")
}

proptest! {
    #[test]
    fn asks_come_back(message in any_of(asks())) {
        prop_assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn answers_come_back(message in any_of(answers())) {
        prop_assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn messages_to_the_front_end_come_back(message in any_of(to_front())) {
        prop_assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn messages_to_a_node_come_back(message in any_of(to_node())) {
        prop_assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn requests_for_files_come_back(message in any_of(view_asks())) {
        prop_assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn answers_about_files_come_back(message in any_of(view_answers())) {
        prop_assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn asks_of_the_batch_system_come_back(message in any_of(job_asks())) {
        prop_assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn answers_of_the_batch_system_come_back(message in any_of(job_answers())) {
        prop_assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn asks_of_who_joins_come_back(message in any_of(join_asks())) {
        prop_assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn answers_to_who_joins_come_back(message in any_of(join_answers())) {
        prop_assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn chunks_come_back(message in any_of(chunks())) {
        prop_assert_eq!(round_trip(&message), message);
    }
}

#[test]
fn whatever_a_node_has_to_say_it_says_in_frames() {
    let groups = |n: i32| if n % 5000 == 0 { vec![u32::MAX; 65_536] } else { vec![n as u32] };
    let person = |n: i32| Person {
        pid: Pid(n),
        ppid: Pid(i32::MAX),
        pgid: Pid(i32::MAX),
        sid: Pid(i32::MAX),
        creds: Creds { uid: Ids::all(u32::MAX), gid: Ids::all(u32::MAX), groups: groups(n) },
        name: b"fifteen of them".to_vec(),
    };
    let pids = |count: i32| (0..count).map(Pid).collect::<Vec<_>>();
    for bodies in [0, 1, 60_000] {
        let hello = Hello {
            version: 9,
            number: Some(NodeId(3)),
            bodies: (0..bodies).map(person).collect(),
            stand_ins: pids(2 * bodies),
            subreapers: pids(bodies),
            starting: pids(bodies / 2),
            ..Hello::default()
        };
        let mut whole: Option<Hello> = None;
        for part in hello.clone().parts() {
            assert!(whole.as_ref().is_none_or(|before| before.more), "it goes on after its end");
            assert_eq!((part.version, part.number), (9, Some(NodeId(3))));
            let mut bytes = Vec::new();
            frame::encode(&ToFront::from(part.clone()), &mut bytes).expect("it fits");
            assert!(bytes.len() < 2 * frame::PIECE, "{} bytes", bytes.len());
            match &mut whole {
                Some(before) => before.add(part),
                None => whole = Some(part),
            }
        }
        assert!(whole == Some(hello), "{bodies} bodies");
    }
}

/// Reads one frame as the type of that name, and writes it again.
fn reread(name: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    fn as_a<T>(body: &[u8]) -> Result<Vec<u8>>
    where
        T: minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()>,
    {
        let mut again = Vec::new();
        frame::encode(&frame::decode::<T>(body)?, &mut again)?;
        Ok(again)
    }
    let Some((body, _)) = frame::split(bytes)? else { return Ok(None) };
    match name {
        "Ask" => as_a::<Ask>(body),
        "Answer" => as_a::<Answer>(body),
        "ToFront" => as_a::<ToFront>(body),
        "ToNode" => as_a::<ToNode>(body),
        "Chunk" => as_a::<Chunk>(body),
        "JobAsk" => as_a::<JobAsk>(body),
        "JobAnswer" => as_a::<JobAnswer>(body),
        "JoinAsk" => as_a::<JoinAsk>(body),
        "JoinAnswer" => as_a::<JoinAnswer>(body),
        "ViewAsk" => as_a::<wire::view::ToServer>(body),
        "ViewAnswer" => as_a::<wire::view::ToNode>(body),
        _ => panic!("a sample of an unknown type {name:?}"),
    }
    .map(Some)
}

const TYPES: [&str; 11] = [
    "Ask",
    "Answer",
    "ToFront",
    "ToNode",
    "Chunk",
    "JobAsk",
    "JobAnswer",
    "JoinAsk",
    "JoinAnswer",
    "ViewAsk",
    "ViewAnswer",
];

fn folder(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(of)
}

/// The samples of a folder by file name.
fn samples(of: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder(of)).expect("the folder is in the repository");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("readable").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read(path).expect("readable"))
    };
    entries.map(read).collect()
}

fn type_of(sample: &str) -> &str {
    sample.split('-').next().unwrap_or(sample)
}

#[test]
fn valid_samples_are_read_and_written_again_as_they_are() {
    for (name, bytes) in samples("valid") {
        let again = reread(type_of(&name), &bytes).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(again.as_ref(), Some(&bytes), "{name}");
    }
}

/// Fields that are no more are skipped, and nothing else of the message is lost.
#[test]
fn older_samples_are_read() {
    let all = samples("older");
    assert!(!all.is_empty());
    for (name, bytes) in all {
        let again = reread(type_of(&name), &bytes).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let again = again.expect("a whole frame");
        assert!(again.len() < bytes.len(), "{name}");
        assert_eq!(reread(type_of(&name), &again).expect("own encoding"), Some(again), "{name}");
    }
}

#[test]
fn invalid_samples_are_refused_by_name() {
    let all = samples("invalid");
    assert!(all.len() >= 6);
    for (name, bytes) in all {
        let fault = reread(type_of(&name), &bytes).expect_err(&name);
        assert_eq!(fault.kind, Kind::Wire, "{name}: {fault}");
    }
}

/// One message of each variant, always the same ones.
fn fresh() -> BTreeMap<String, Vec<u8>> {
    fn add<T>(kind: &str, variants: Variants<T>, into: &mut BTreeMap<String, Vec<u8>>)
    where
        T: Debug + minicbor::Encode<()>,
    {
        for (name, strategy) in variants {
            let tree = strategy.new_tree(&mut TestRunner::deterministic()).expect("nothing is filtered");
            let mut bytes = Vec::new();
            frame::encode(&tree.current(), &mut bytes).expect("short enough");
            into.insert(format!("{kind}-{name}"), bytes);
        }
    }
    let mut all = BTreeMap::new();
    add("Ask", asks(), &mut all);
    add("Answer", answers(), &mut all);
    add("ToFront", to_front(), &mut all);
    add("ToNode", to_node(), &mut all);
    add("Chunk", chunks(), &mut all);
    add("JobAsk", job_asks(), &mut all);
    add("JobAnswer", job_answers(), &mut all);
    add("JoinAsk", join_asks(), &mut all);
    add("JoinAnswer", join_answers(), &mut all);
    add("ViewAsk", view_asks(), &mut all);
    add("ViewAnswer", view_answers(), &mut all);
    all
}

#[test]
fn every_variant_has_a_sample() {
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        write_missing_samples();
    }
    let (kept, fresh) = (samples("valid"), fresh());
    for name in fresh.keys() {
        assert!(kept.contains_key(name), "no sample {name}: UPDATE_SAMPLES=1 writes it");
    }
    // The first variant number without a sample must be unknown, else the strategies have forgotten one.
    for kind in TYPES {
        let count = fresh.keys().filter(|name| type_of(name) == kind).count();
        // A number above 23 has a byte of its own (RFC 8949, 3.1).
        let number = if count < 24 { vec![count as u8] } else { vec![0x18, count as u8] };
        let body = [&[0x82], &number[..], &[0x80]].concat();
        let fault = reread(kind, &framed(&body)).expect_err("one more variant than strategies");
        assert!(fault.to_string().contains("unknown enum variant"), "{kind}: {fault}");
    }
}

fn write_missing_samples() {
    let bad = bad().into_iter().map(|(name, bytes)| ("invalid", name.to_owned(), bytes));
    let good = fresh().into_iter().map(|(name, bytes)| ("valid", name, bytes));
    for (of, name, bytes) in good.chain(bad) {
        let path = folder(of).join(name + ".bin");
        if !path.exists() {
            std::fs::write(&path, bytes).expect("write");
        }
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes(), body].concat()
}

/// What must be refused, by name.
fn bad() -> Vec<(&'static str, Vec<u8>)> {
    let causes = [0x85, 0x00, 0x60, 0xf6, 0x00].repeat(100_000);
    vec![
        ("Chunk-gigabyte", vec![0x40, 0, 0, 0, 0x82]),
        ("Chunk-unknown-variant", framed(&[0x82, 0x18, 0x63, 0x80])),
        ("Chunk-empty", framed(&[])),
        ("Chunk-left-over", framed(&[0x82, 0x05, 0x80, 0x00])),
        ("Chunk-cut", framed(&[0x82, 0x00, 0x82])),
        ("Chunk-huge-bytes", framed(&[0x82, 0x00, 0x82, 0x00, 0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
        ("Chunk-field-missing", framed(&[0x82, 0x02, 0x81, 0x00])),
        ("Ask-text-for-number", framed(&[0x82, 0x03, 0x81, 0x61, 0x78])),
        ("Answer-huge-array", framed(&[0x82, 0x02, 0x81, 0x9b, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff])),
        ("ToNode-signal-zero", framed(&[0x82, 0x09, 0x82, 0x01, 0x00])),
        ("ToNode-signal-65", framed(&[0x82, 0x09, 0x82, 0x01, 0x18, 65])),
        ("ToNode-causes-without-end", framed(&[&[0x82, 0x01, 0x81], causes.as_slice()].concat())),
    ]
}

/// How long mutations are tried: seconds in WIRE_FUZZ_SECONDS, three unless set.
fn patience() -> Duration {
    let set = std::env::var("WIRE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(set.unwrap_or(3))
}

/// The address space of this process at its largest, in KiB (VmPeak, proc_pid_status(5)): it counts memory that was
/// asked for, used or not.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).expect("has the line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A few changes at random: what fuzzers do, without their feedback.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut impl FnMut(usize) -> usize) {
    const TEMPTING: [u8; 12] = [0, 1, 0x17, 0x18, 0x1b, 0x5b, 0x7f, 0x80, 0x9b, 0x9f, 0xf6, 0xff];
    for _ in 0..1 + random(4) {
        let at = random(bytes.len().max(1)).min(bytes.len());
        match random(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random(8),
            1 if at < bytes.len() => bytes[at] = TEMPTING[random(TEMPTING.len())],
            2 => bytes.insert(at, TEMPTING[random(TEMPTING.len())]),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            5 => {
                let from = random(other.len().max(1)).min(other.len());
                let piece = &other[from..(from + random(32)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            6 => {
                let piece = bytes[at..(at + random(32)).min(bytes.len())].repeat(1 + random(3));
                bytes.splice(at..at, piece);
            }
            _ => {}
        }
    }
    bytes.truncate(64 * 1024);
}

#[test]
fn no_bytes_make_a_reader_panic_or_take_much_memory() {
    let corpus: Vec<Vec<u8>> = samples("valid").into_values().chain(samples("invalid").into_values()).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below.max(1)
    };
    let (before, end) = (peak_kb(), Instant::now() + patience());
    let mut tried = 0u64;
    while Instant::now() < end {
        for _ in 0..200 {
            let mut bytes = corpus[random(corpus.len())].clone();
            mutate(&mut bytes, &corpus[random(corpus.len())], &mut random);
            // As the reader of a stream would see it: with its length wrong, and right.
            let _ = frame::split(&bytes).map(|whole| whole.map(|(body, used)| (body.len(), used)));
            let whole = framed(bytes.get(frame::HEAD..).unwrap_or_default());
            for kind in TYPES {
                if let Ok(Some(again)) = reread(kind, &whole) {
                    // What was read can be written, and then reads the same for ever.
                    assert_eq!(reread(kind, &again), Ok(Some(again)), "{kind} {bytes:02x?}");
                }
            }
            tried += 1;
        }
    }
    let grown = peak_kb() - before;
    assert!(grown < 128 * 1024, "{grown} KiB for frames of at most 64 KiB");
    assert!(tried > 0);
}
