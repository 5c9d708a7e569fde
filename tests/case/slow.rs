//! A node that is far away: what it and the front end say to each other takes 50 ms, control link and channels alike.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::proto::Step;
use crate::lab::Res;
use std::time::{Duration, Instant};

pub(crate) const SCENES: &[Scene] = &[("slow_link", slow_link)];

/// Longer than the time after which a node is lost.
const LONG: Duration = Duration::from_secs(7);
const FAR: &str = "shoal node --key /run/shoal/key --front 10.77.0.1:7710 --run-dir /run/far --number 1";

fn slow_link(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "slow_link", 1)?;
    let relay = include_str!("slow_link.py");
    let relay = s.start(&format!("python3 - 7710 10.77.0.1 7706 0.05 <<'EOF'\n{relay}\nEOF"));
    s.until("ss -tln | grep -q ':7710 '")?;
    let node = s.start(&format!("{FAR} 2>&1"));
    s.until("shoal nodes | grep -q '^n1 *up'")?;
    let start = Instant::now();
    s.prints("shoal run -n 1 echo well", "well")?;
    holds("it is slow", start.elapsed() > Duration::from_millis(100))?;
    let sums = "seq 200000 | md5sum >/run/sum; seq 200000 | shoal run -n 1 cat | md5sum | cmp - /run/sum && echo same";
    s.prints(sums, "same")?;
    for (end, status) in [("exit 3", "3"), ("kill -TERM \\$\\$", "143"), ("(exit 4) & wait \\$!", "4")] {
        s.prints(&format!("shoal run -n 1 sh -c \"{end}\"; echo $?"), status)?;
    }
    s.prints("shoal run -n 0 shoal run -n 1 sh -c 'echo well'; echo $?", "well\n0")?;
    let going = s.start("shoal run -n 1 sleep 1201; echo $?");
    s.until("shoal ps | grep -q 'sleep 1201$'")?;
    s.ok("kill -STOP $(shoal ps | awk '/sleep 1201$/ {print $1}')")?;
    s.until("shoal ps | grep -q ' T .*sleep 1201$' && ps -eo stat,args | grep -q '^T.*sleep 1201$'")?;
    s.ok("kill -CONT $(shoal ps | awk '/sleep 1201$/ {print $1}')")?;
    s.until("shoal ps | grep -q ' S .*sleep 1201$'")?;
    job_control(&s)?;
    std::thread::sleep(LONG.saturating_sub(start.elapsed()));
    holds("the node was never lost", going.is_going() && !s.logs().contains("node=n1: Silent->Down"))?;
    s.prints("shoal nodes | grep -cw up", "2")?;
    s.ok("kill $(shoal ps | awk '/sleep 1201$/ {print $1}')")?;
    same("its end", going.end()?.out.trim(), "143")?;
    s.ok("pkill -TERM -f '[s]hoal node --key'; pkill -TERM -f 'python3 - [7]710'; true")?;
    node.end()?;
    relay.end()?;
    Ok(End::Passed)
}

/// Ctrl-Z, fg and Ctrl-C, as bash tells of them.
fn job_control(s: &Sandbox) -> Res {
    let key = |text: &str| Step::Type(text.into());
    let see = |text: &str| Step::Await(text.into());
    let steps = vec![
        see("%% "),
        key("shoal run -n 1 perl -e '$SIG{CONT} = sub { print STDERR \"cont\\n\" }; print STDERR \"u\", \"p\\n\"; sleep 1 while 1'\n"),
        see("up\r"),
        key("\x1a"),
        see("Stopped"),
        see("%% "),
        key("fg\n"),
        see("cont\r"),
        key("\x03"),
        see("%% "),
        key("echo st=$?\n"),
        see("st=130\r"),
        key("\nexit 0\n"),
    ];
    s.talk(steps).map(drop)
}
