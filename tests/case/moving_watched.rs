//! A process that watches files moves between nodes of one machine.

use super::scene::Sandbox;
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};

pub(crate) const SCENES: &[Scene] = &[("move_of_who_watches", move_of_who_watches)];

/// Watches a directory and its files, which it has open and mapped; when it has read a line it says how many bytes of events wait.
const WATCHES: &str = r#"
import ctypes, fcntl, mmap, os, struct, sys, termios
libc = ctypes.CDLL(None)
os.mkdir(sys.argv[1])
os.chdir(sys.argv[1])
os.mkdir("below")
names = ["plain", "mapped"]
for name in names:
    open(name, "w").write("x" * 4096)
kept = [os.open("plain", os.O_RDWR), os.open("plain", os.O_RDONLY), os.open("below", os.O_RDONLY)]
fd = os.open("mapped", os.O_RDWR)
kept.append(mmap.mmap(fd, 4096))
os.close(fd)
watch = libc.inotify_init1(os.O_NONBLOCK)
for name in names + [".", "below"]:
    assert libc.inotify_add_watch(watch, name.encode(), 0xfff) > 0
print("watches", flush=True)
sys.stdin.readline()
print(struct.unpack("i", fcntl.ioctl(watch, termios.FIONREAD, bytes(4)))[0], flush=True)
os.close(kept[0])
print(struct.unpack("i", fcntl.ioctl(watch, termios.FIONREAD, bytes(4)))[0] > 0, flush=True)
"#;

/// Files that its movers open, and its old node closes, make no event: with one the next move would be refused.
fn move_of_who_watches(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_who_watches", 2)?;
    let program = place.fresh("watches.py");
    std::fs::write(&program, WATCHES).doing("write a program")?;
    let moves = format!(
        "mkfifo /run/words; exec 3<>/run/words; shoal run -n 0 python3 -S {} {} </run/words >/run/said 2>&1 3>&- & p=$!
        until grep -q watches /run/said; do sleep 0.05; done
        for to in 1 0 1 0 1; do shoal move $p $to || echo refused; done
        echo >&3; wait $p; cat /run/said",
        program.display(),
        place.fresh("watched").display()
    );
    s.prints(&moves, "watches\n0\nTrue")?;
    Ok(End::Passed)
}
