//! A user's own program in place of `shoal run`: it opens the hold file, and never holds.

use crate::front::{person, Front};
use kern::clock::monotonic_us;
use std::path::Path;
use vocab::{Exit, NodeId, Pid};
use wire::ask::{Answer, Ask, Copy};
use wire::node::{ToFront, ToNode};
use wire::run::{Program, Stdio, Target};

/// That program.
pub(crate) fn client(socket: &str) {
    let fd = kern::sock::unix_connect(Path::new(socket), 1_000_000).expect("the node listens");
    let mut link = link::Plain::new(fd);
    let (file, argv, env, limits) = (b"x".to_vec(), vec![], vec![], vec![]);
    let (cwd, stdio) = (b"/".to_vec(), Stdio::Pipes);
    let program = Program {
        file,
        argv,
        env,
        cwd,
        umask: 0,
        limits,
        nice: 0,
        ignored: 0,
        stdio,
        blocked: 0,
        capabilities: None,
        personality: None,
        numbers: vec![],
        user: None,
        view: None,
        places: vec![],
    };
    link.send(&Ask::Run { target: Target::Nodes(vec![NodeId(1)]), program: Box::new(program) }).expect("sent");
    link.flush().expect("flushed");
    loop {
        link.receive().expect("an answer");
        if let Some(Answer::Granted { hold, .. }) = link.next().expect("an answer") {
            let _hold = std::fs::File::options().read(true).write(true).open(hold).expect("it is expected");
            loop {
                std::thread::park();
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// It is the only one that could make what a start needs: that waits and fails in time, and others start meanwhile.
pub(crate) fn holds_up_nobody_else() {
    let mut front = Front::new("mute");
    let me = std::env::current_exe().expect("this program").display().to_string();
    let socket = front.dir.join("shoal.sock").display().to_string();
    front.start_as(
        person(5001, 5000, 5001, 5001, b"mute"),
        &[&me, "mute", &socket],
        &[person(5000, 1, 5000, 5000, b"sh")],
    );
    let id = front.hear("Ask", |said| match said {
        ToFront::Ask { id, ask: Ask::Run { .. }, .. } => Some(*id),
        _ => None,
    });
    let copies = vec![Copy { node: NodeId(1), token: vec![1; 16], key: vec![2; 32] }];
    front.send(&ToNode::Answer { id, answer: Answer::Granted { hold: String::new(), copies }, last: false });
    let start = monotonic_us();
    front.start_as(person(6001, 6000, 6001, 5001, b"x"), &["true"], &[person(6000, 1, 6000, 5001, b"sh")]);
    // One whose parent is on its way waits for that, and one that has nothing to do with it does not.
    front.start_as(person(6002, 6001, 6001, 5001, b"x"), &["true"], &[person(6000, 1, 6000, 5001, b"sh")]);
    for pid in 5002..5005 {
        front.shell(pid, "exit 3");
        assert_eq!(front.exit(pid), Exit::Code(3));
    }
    assert!(monotonic_us() < start + 3_000_000, "others had to wait");
    front.hear("NotStarted", |said| matches!(said, ToFront::NotStarted { pid: Pid(6001), .. }).then_some(()));
    front.send(&ToNode::Signal {
        target: Pid(5001),
        info: vocab::SigInfo::kill(vocab::Sig::KILL, Pid(1), 0),
        thread: None,
        turn: None,
    });
}
