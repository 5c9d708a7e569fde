//! `shoal checkpoint --stop` ends a process only if a restore would bring it back.

use super::scene::{holds, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("checkpoint_of_what_it_could_not_open", checkpoint_of_what_it_could_not_open),
    ("checkpoint_of_what_is_had_once", checkpoint_of_what_is_had_once),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";

/// A process that root has left a file, and that is root no more. It says that it is there, and waits.
const GIVEN_UP: &str = "import mmap, os, sys, time
os.closerange(3, 100)
os.chdir(sys.argv[2])
if sys.argv[1] == 'mapped':
    fd = os.open('roots', os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(fd, 4096)
    kept = mmap.mmap(fd, 4096)
    os.closerange(3, 100)
else:
    kept = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600)
os.chdir('/')
os.setresgid(61001, 61001, 61001)
os.setresuid(61001, 61001, 61001)
print('there', flush=True)
time.sleep(60)";

/// A file that it maps and could not open any more, and a file without a name in a directory of root's.
fn checkpoint_of_what_it_could_not_open(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "checkpoint_of_what_it_could_not_open", 1)?;
    for way in ["mapped", "nameless"] {
        let said = s.ok(&format!(
            "dir=$(mktemp -d); cd $dir; chmod 700 .; echo before >image
            setpriv --clear-groups python3 -S -c \"{GIVEN_UP}\" {way} $dir </dev/null >out & p=$!
            until grep -q there out; do sleep 0.02; done
            shoal checkpoint $p --stop -o image 2>said && exit 3
            kill -0 $p || exit 4
            test \"$(cat image)\" = before || exit 5
            shoal checkpoint $p -o image || exit 6
            kill $p; cat said; rm -rf $dir"
        ))?;
        let told = said.contains("runs on, since it could not be restored here") && said.contains("Permission denied");
        holds(&format!("{way}: {said:?} names the file and why"), told)?;
    }
    Ok(End::Passed)
}

/// Things that cannot be there twice are in nobody's way: a lock on a file, a session and threads of these numbers, more signals than half of those that may wait.
fn checkpoint_of_what_is_had_once(place: &Place) -> Res<End> {
    const LOCKS: &str = "import fcntl, os, signal, threading, time, resource
os.closerange(3, 100)
os.setsid()
kept = open('lock', 'w'); fcntl.flock(kept, fcntl.LOCK_EX)
other = open('other', 'w'); fcntl.lockf(other, fcntl.LOCK_EX)
resource.setrlimit(resource.RLIMIT_SIGPENDING, (100, 100))
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
for n in range(60): os.kill(os.getpid(), 40)
threading.Thread(target=time.sleep, args=(1.5,)).start()
print('there', flush=True)
time.sleep(1.5)
print(sum(1 for n in range(100) if signal.sigtimedwait([40], 0)), flush=True)";
    let s = Sandbox::new(place, "checkpoint_of_what_is_had_once", 1)?;
    s.prints(
        &format!(
            "cd $(mktemp -d)
            python3 -S -c \"{LOCKS}\" </dev/null >out & p=$!
            until grep -q there out; do sleep 0.02; done
            shoal checkpoint $p --stop -o image || exit 3
            wait $p; shoal restore image; cat out"
        ),
        "there\n60",
    )?;
    // Each user has so many inotify instances; and an ordinary user cannot set what a restore by root sets of a socket.
    const COUNTED: &str = "import ctypes, os, time
os.closerange(3, 200)
most = int(open('/proc/sys/fs/inotify/max_user_instances').read())
kept = [ctypes.CDLL(None).inotify_init1(0) for n in range(most * 2 // 3)]
print('there', flush=True)
time.sleep(1)
print(len(kept) == most * 2 // 3, flush=True)";
    const PAIR: &str = r#"socketpair A, B, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die; syswrite A, "x" x 9; syswrite STDOUT, "there\n"; sleep 1; sysread B, $got, 99; print length $got, "\n""#;
    let pair = format!("perl -MSocket -e '{PAIR}'");
    for (user, program, says) in [("", format!("python3 -S -c \"{COUNTED}\""), "True"), (ANN, pair, "9")] {
        s.prints(
            &format!(
                "cd $(mktemp -d); chmod 777 .; : >out; chmod 666 out
                {user} {program} </dev/null >out & p=$!
                until grep -q there out; do sleep 0.02; done
                {user} shoal checkpoint $p --stop -o image || exit 3
                wait $p; shoal restore --trust image; cat out"
            ),
            &format!("there\n{says}"),
        )?;
    }
    Ok(End::Passed)
}
