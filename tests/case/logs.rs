//! Logs of the daemons, as `shoal log` shows them.

use super::machines::on_machine;
use super::scene::{holds, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[("logs_are_shown", logs_are_shown), ("logs_are_bounded", logs_are_bounded)];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";

/// Of nodes and of the front end, to whom it may be, and on and on.
fn logs_are_shown(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "logs_are_shown", 2)?;
    s.prints("shoal log n0 | grep -c 'agent::birth: joined number=n0'", "1")?;
    s.prints("shoal log 1 | grep -c 'joined number=n1'", "1")?;
    s.prints("shoal log front | grep -c 'joins node=n[01]'", "2")?;
    s.prints("shoal log n0 -n 1 | wc -l", "1")?;
    s.prints("shoal run -n 1 shoal log n0 | grep -c 'joined number=n0'", "1")?;
    s.prints("shoal log front -n 100000 | grep -vcE '^[0-9-]{10}T[0-9:.]*Z +(INFO|WARN|ERROR) [a-z_:]+: '", "0")
        .or_else(|_| {
            // grep exits with 1 where it counts nothing.
            s.prints(
                "shoal log front -n 100000 | grep -vE '^[0-9-]{10}T[0-9:.]*Z +(INFO|WARN|ERROR) [a-z_:]+: ' | wc -l",
                "0",
            )
        })?;
    s.prints("stat -c '%a %U' /run/shoal/log/daemon", "600 root")?;

    // Who may.
    let line = s.fails(&format!("{ANN} shoal log n0"), 1)?;
    holds(&line, line.contains("that is for root, and for who is in group adm or systemd-journal"))?;
    for node in ["n0", "front"] {
        s.ok(&format!("! {ANN} shoal log {node} 2>/dev/null | grep ."))?;
        s.ok(&format!("setpriv --reuid 61001 --regid 61001 --groups 61001,$(getent group adm | cut -d: -f3) shoal log {node} | grep -q jo"))?;
    }
    let setgid =
        "setpriv --reuid 61001 --rgid 61001 --egid $(getent group adm | cut -d: -f3) --clear-groups shoal log n0";
    holds("by a set-group-ID program nobody is of the group", s.fails(setgid, 1)?.contains("that is for root"))?;
    s.fails(&format!("{ANN} cat /run/shoal/log/daemon"), 1)?;
    s.fails(&format!("shoal run -n 0 {ANN} cat /run/shoal/log/daemon"), 1)?;
    let line = s.fails("shoal log n7", 1)?;
    holds(&line, line.contains("node n7 is down"))?;

    // What is added, and what was before a daemon was killed; names in lines are no lines.
    let follows = s.start("timeout 20 shoal log n0 -f -n 0 >/run/followed 2>/run/said; test $? = 124");
    s.until("pgrep -f 'shoal log n0 -f' >/dev/null && sleep 1")?;
    s.sh("shoal run -n 0 \"$(printf 'no\\nsuch')\"")?;
    s.sh("shoal run -n 0 /no/such")?;
    s.until("grep -q 'no/such' /run/followed")?;
    s.prints("grep -c '^such' /run/followed; true", "0")?;
    s.kill(s.daemon("n0")?)?;
    s.until("shoal nodes | grep n0 | grep -qw down")?;
    s.restart("n0")?;
    s.until("grep -q 'joined number=n0' /run/followed")?;
    s.prints("grep -c 'n0' /run/said", "1")?;
    s.prints("shoal log n0 | grep -c 'joined number=n0'", "2")?;
    s.ok("pkill -f 'shoal log n0 -f'")?;
    follows.end()?;

    // Somebody has removed the file: it begins anew.
    on_machine(&s, "n1", "rm -rf /run/shoal/log")?;
    s.prints("shoal log n1 | wc -l", "0")?;
    s.sh("shoal run -n 1 /no/such")?;
    s.until("shoal log n1 | grep -q /no/such")?;
    Ok(End::Passed)
}

/// A user who causes lines without end.
fn logs_are_bounded(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "logs_are_bounded", 1)?;
    let shout = "import socket, struct\nfor n in range(600):\n c = socket.socket(socket.AF_UNIX); c.connect(\"/run/shoal/shoal.sock\"); c.sendall(b\"\\x40\" + b\"x\" * 9)\n try: c.recv(9)\n except OSError: pass\n c.close()";
    s.ok(&format!("{ANN} python3 -c '{shout}'"))?;
    s.ok("sleep 2")?;
    s.ok(&format!("{ANN} python3 -c '{}'", shout.replace("600", "2")))?;
    s.until("shoal log front -n 100000 | grep -qE 'WARN [a-z_:]+: [0-9]+ lines like the next one were left out'")?;
    let count = s.ok("shoal log front -n 100000 | grep -c 'INFO front::links: client: '")?;
    holds(
        &format!("of 600 lines {count} are there"),
        count.parse::<u32>().is_ok_and(|count| (200..250).contains(&count)),
    )?;
    Ok(End::Passed)
}
