//! Streams whose program moves away, as the relay's end of the channel sees them.

use super::*;
use kern::poll::{poll, Ready};
use kern::sys;
use link::Secure;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use wire::stream::{Chunk, Stream, CREDIT};

/// What a pipe holds when nobody has changed that.
const PIPE: usize = 65_536;

/// The relay's end.
struct Far(Secure);

impl Far {
    /// A program's ends of its streams, and the relay of it.
    fn open(streams: &Streams) -> (ChildEnds, Far) {
        let (near, far) = UnixStream::pair().expect("socketpair");
        far.set_nonblocking(true).expect("fcntl");
        let key = [7; 32];
        let ends = streams.open(Open { to: To::Connected(near.into()), key, stdio: Stdio::Pipes, waits: false });
        let far = Far::taken(Secure::channel_taker(far.into(), &key).expect("a channel"));
        (ends.expect("descriptors"), far)
    }

    fn taken(channel: Secure) -> Far {
        let mut far = Far(channel);
        while !far.0.established() {
            far.0.receive().and_then(|_| far.0.flush()).expect("connected");
            if !far.0.established() {
                assert!(poll(&[(far.0.fd(), Ready::READ)], 20_000).expect("poll")[0].readable);
            }
        }
        far
    }

    fn send(&mut self, chunk: &Chunk) {
        self.0.send(chunk).expect("connected");
        self.0.flush().expect("connected");
    }

    fn input(&mut self, bytes: &[u8]) {
        self.send(&Chunk::Data { stream: Stream::In, bytes: bytes.to_vec() });
    }

    fn next(&mut self) -> Chunk {
        self.next_within(20_000).expect("something comes")
    }

    fn next_within(&mut self, ms: i32) -> Option<Chunk> {
        loop {
            let more = self.0.receive().expect("connected");
            self.0.flush().expect("connected");
            if let Some(chunk) = self.0.next().expect("a chunk") {
                return Some(chunk);
            }
            if !more && !poll(&[(self.0.fd(), Ready::READ)], ms).expect("poll")[0].readable {
                return None;
            }
        }
    }

    /// Until the word that the program has moved, and that nobody is left here: its output, its errors, what comes back of its input, and how much of
    /// that had come. `told`: so much of that nobody is left has been told.
    fn until_moved(&mut self, told: u32) -> ([Vec<u8>; 3], u64) {
        let mut got = <[Vec<u8>; 3]>::default();
        let (mut input, mut left, mut told) = (0, false, told);
        while !left || told < 3 {
            match self.next() {
                Chunk::Data { stream: Stream::Out, bytes } => got[0].extend(bytes),
                Chunk::Data { stream: Stream::Err, bytes } => got[1].extend(bytes),
                Chunk::Data { stream: Stream::In, bytes } => got[2].extend(bytes),
                Chunk::Credit { stream: Stream::In, .. } => {}
                Chunk::Left { branch: 7 } => left = true,
                Chunk::Back { input: came } if left => input = came,
                Chunk::End { .. } | Chunk::Broken { .. } if left => told += 1,
                other => panic!("{other:?} before the word that the program has moved"),
            }
        }
        (got, input)
    }
}

/// The program is frozen for good, and then killed.
fn move_away(streams: &Streams, ends: ChildEnds) {
    streams.left(ends.id, 7);
    drop(ends);
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let n = sys::write(fd.as_fd(), bytes).expect("the other end is open");
        bytes = &bytes[n..];
    }
}

fn numbered(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n % 251) as u8).collect()
}

#[test]
fn what_is_in_the_pipes_goes_where_it_belongs_and_no_end_is_told() {
    let streams = Streams::start().expect("a thread");
    // Often, since the end of the process here is a race with the word that it has moved.
    for _ in 0..300 {
        let (ends, mut far) = Far::open(&streams);
        far.input(b"abcdef");
        let mut two = [0; 2];
        assert_eq!(sys::read(ends.stdin.as_fd(), &mut two), Ok(2));
        write_all(&ends.stdout, b"output");
        write_all(&ends.stderr, b"errors");
        move_away(&streams, ends);
        let (got, input) = far.until_moved(0);
        assert_eq!(got, [b"output".to_vec(), b"errors".to_vec(), b"cdef".to_vec()]);
        assert_eq!(input, 6);
    }
}

#[test]
fn the_word_of_a_move_waits_for_the_credit_that_the_output_needs() {
    let streams = Streams::start().expect("a thread");
    let (ends, mut far) = Far::open(&streams);
    let whole = numbered(CREDIT as usize + PIPE);
    // As much as the relay takes unasked, and a full pipe; the channel opens while it is written.
    std::thread::scope(|scope| {
        scope.spawn(|| write_all(&ends.stdout, &whole));
        let mut got = Vec::new();
        while got.len() < CREDIT as usize {
            let Chunk::Data { stream: Stream::Out, bytes } = far.next() else { panic!("only output comes") };
            got.extend(bytes);
        }
        assert!(got == whole[..CREDIT as usize]);
    });
    move_away(&streams, ends);
    far.input(b"more");
    assert_eq!(far.next_within(50), None, "nothing goes without credit");
    far.send(&Chunk::Credit { stream: Stream::Out, bytes: 1_000 });
    let Chunk::Data { stream: Stream::Out, bytes } = far.next() else { panic!("output comes first") };
    assert!(bytes == whole[CREDIT as usize..][..1_000]);
    assert_eq!(far.next_within(50), None, "nothing goes without credit");
    // One byte more than there is, for the end.
    far.send(&Chunk::Credit { stream: Stream::Out, bytes: PIPE as u32 - 1_000 + 1 });
    let ([output, errors, back], input) = far.until_moved(0);
    assert!(output == whole[CREDIT as usize + 1_000..]);
    assert_eq!((errors, back, input), (vec![], b"more".to_vec(), 4));
}

#[test]
fn input_comes_back_whole_also_what_was_under_way() {
    let streams = Streams::start().expect("a thread");
    let (ends, mut far) = Far::open(&streams);
    // More than the pipe takes: some of it is with us. What comes late may come without further credit.
    let whole = numbered(CREDIT as usize - b"late".len());
    whole.chunks(40_000).for_each(|piece| far.input(piece));
    let mut read = vec![0; 70_000];
    let mut begun = 0;
    while begun < read.len() {
        far.0.flush().expect("connected");
        begun += sys::read(ends.stdin.as_fd(), &mut read[begun..]).expect("input comes");
    }
    move_away(&streams, ends);
    let ([output, errors, mut back], input) = far.until_moved(0);
    assert_eq!((output, errors), (vec![], vec![]));
    // The rest was on its way when the word came.
    while read.len() + back.len() < whole.len() {
        let Chunk::Data { stream: Stream::In, bytes } = far.next() else { panic!("only input comes back") };
        back.extend(bytes);
    }
    assert!(input <= whole.len() as u64);
    read.extend(back);
    assert!(read == whole);
    far.input(b"late");
    assert_eq!(far.next(), Chunk::Data { stream: Stream::In, bytes: b"late".to_vec() });
}

#[test]
fn a_program_that_had_closed_its_streams_moves_too() {
    let streams = Streams::start().expect("a thread");
    let (ends, mut far) = Far::open(&streams);
    let ChildEnds { id, stdin, stdout, stderr, .. } = ends;
    drop(stdin);
    assert_eq!(far.next(), Chunk::Back { input: 0 });
    assert_eq!(far.next(), Chunk::Broken { stream: Stream::In });
    drop(stderr);
    assert_eq!(far.next(), Chunk::End { stream: Stream::Err });
    write_all(&stdout, b"last");
    streams.left(id, 7);
    drop(stdout);
    assert_eq!(far.until_moved(2), ([b"last".to_vec(), vec![], vec![]], 0));
}

#[test]
fn who_stays_goes_on_with_what_it_has() {
    let streams = Streams::start().expect("a thread");
    let (ends, mut far) = Far::open(&streams);
    let (input, output) = (ends.stdin.try_clone().expect("dup"), ends.stdout.try_clone().expect("dup"));
    write_all(&output, b"before");
    assert_eq!(far.next(), Chunk::Data { stream: Stream::Out, bytes: b"before".to_vec() });
    move_away(&streams, ends);
    assert_eq!(far.next(), Chunk::Left { branch: 7 });
    assert_eq!(far.next(), Chunk::End { stream: Stream::Err });
    write_all(&output, b"behind");
    assert_eq!(far.next(), Chunk::Data { stream: Stream::Out, bytes: b"behind".to_vec() });
    // What it has not read is had back, and what it is sent anew it gets.
    far.input(b"abcd");
    let mut two = [0; 2];
    assert_eq!(sys::read(input.as_fd(), &mut two), Ok(2));
    far.send(&Chunk::Recall);
    assert_eq!(far.next(), Chunk::Data { stream: Stream::In, bytes: b"cd".to_vec() });
    assert_eq!(far.next(), Chunk::Back { input: 4 });
    far.input(b"late");
    assert_eq!(far.next(), Chunk::Data { stream: Stream::In, bytes: b"late".to_vec() });
    far.send(&Chunk::Again);
    far.input(b"ef");
    assert_eq!((sys::read(input.as_fd(), &mut two), two), (Ok(2), *b"ef"));
    drop((input, output));
    let mut rest: Vec<Chunk> = (0..3).map(|_| far.next()).collect();
    rest.sort_by_key(|chunk| matches!(chunk, Chunk::End { .. }));
    assert_eq!(
        rest,
        [Chunk::Back { input: 2 }, Chunk::Broken { stream: Stream::In }, Chunk::End { stream: Stream::Out }]
    );
}

/// A program whose channel breaks before its handshake is done, and is dialled again.
fn waiting(streams: &Streams) -> ChildEnds {
    let (near, far) = UnixStream::pair().expect("socketpair");
    let open = Open { to: To::Connected(near.into()), key: [7; 32], stdio: Stdio::Pipes, waits: true };
    let ends = streams.open(open).expect("descriptors");
    drop(far);
    ends
}

/// Who is dialled with this token.
fn dialled(listener: &TcpListener, token: [u8; 16]) -> Far {
    let (mut socket, _) = listener.accept().expect("it is dialled");
    let mut preamble = [0; 17];
    socket.read_exact(&mut preamble).expect("a preamble");
    assert_eq!((preamble[0], &preamble[1..]), (b'S', &token[..]));
    socket.set_nonblocking(true).expect("fcntl");
    Far::taken(Secure::channel_taker(socket.into(), &[8; 32]).expect("a channel"))
}

#[test]
fn what_a_program_wrote_goes_over_the_channel_that_is_dialled_again_also_when_it_has_ended() {
    let streams = Streams::start().expect("a thread");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens");
    for has_ended in [false, true] {
        let ends = waiting(&streams);
        let id = ends.id;
        write_all(&ends.stdout, b"output");
        let ends = if has_ended {
            streams.ended(id);
            None
        } else {
            Some(ends)
        };
        assert!(streams.is_waiting(id));
        // Who was told of the first is gone, too.
        streams.redial(id, (address, [1; 16]), [8; 32]).expect("it dials");
        drop(listener.accept().expect("it is dialled"));
        streams.redial(id, (address, [2; 16]), [8; 32]).expect("it dials");
        let mut far = dialled(&listener, [2; 16]);
        assert_eq!(far.next(), Chunk::Data { stream: Stream::Out, bytes: b"output".to_vec() });
        assert!(!streams.is_waiting(id));
        // It has one: this is told twice.
        streams.redial(id, (address, [2; 16]), [8; 32]).expect("it dials");
        drop(listener.accept().expect("it is dialled"));
        if let Some(ends) = ends {
            write_all(&ends.stdout, b"more");
            assert_eq!(far.next(), Chunk::Data { stream: Stream::Out, bytes: b"more".to_vec() });
            streams.ended(id);
        }
        while far.next() != Chunk::Ended {}
    }
}

#[test]
fn what_does_not_come_waits_for_no_channel() {
    let streams = Streams::start().expect("a thread");
    let ends = waiting(&streams);
    streams.in_vain(ends.id);
    assert_eq!(sys::read(ends.stdin.as_fd(), &mut [0; 2]), Ok(0));
    assert!(!streams.is_waiting(ends.id));
}

/// Whoever was there had what was said, and knows the name of the channel no more.
#[test]
fn a_connection_that_somebody_has_had_is_not_dialled_again() {
    let streams = Streams::start().expect("a thread");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = To::Dial { address: listener.local_addr().expect("it listens"), token: [3; 16] };
    let ends = streams.open(Open { to, key: [8; 32], stdio: Stdio::Pipes, waits: false }).expect("descriptors");
    let (mut socket, _) = listener.accept().expect("it is dialled");
    socket.read_exact(&mut [0; 5]).expect("it is said which channel that is");
    // More has come than was read: the connection is reset.
    drop(socket);
    assert_eq!(sys::read(ends.stdin.as_fd(), &mut [0; 2]), Ok(0));
    listener.set_nonblocking(true).expect("fcntl");
    assert!(listener.accept().is_err());
}
