//! Machines that join a cluster by a token, and those that would like to.

use super::daemons::{join, Machine};
use super::scene::{holds, same};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("join_by_a_token", join_by_a_token),
    ("join_takes_a_good_token_only", join_takes_a_good_token_only),
    ("join_overwrites_nothing", join_overwrites_nothing),
    ("join_in_the_middle", join_in_the_middle),
];

/// A front end with its daemon, and machines that know nothing yet but what the package brings.
fn machines(place: &Place, names: &[&str]) -> Res<Vec<Machine>> {
    let machines = names.iter().map(|name| Machine::start(place, name)).collect::<Res<Vec<_>>>()?;
    join(&machines)?;
    let example = include_str!("../../dist/shoal.toml");
    for machine in &machines {
        machine.write("/etc/shoal/shoal.toml", example, 0o644)?;
        machine.prints("rm -f /etc/shoal/key", "")?;
    }
    let front = &machines[0];
    front.prints("shoal key && sed -i 's/^front = .*/front = \"10.78.0.1\"/' /etc/shoal/shoal.toml", "")?;
    front.daemon("front")?;
    front.until("shoal nodes 2>/dev/null >&2")?;
    Ok(machines)
}

/// A token with these options.
fn invite(front: &Machine, options: &str) -> Res<String> {
    let (code, token, errors) = front.sh(&format!("shoal key invite {options}"))?;
    holds(&format!("a token is one word: {token:?} {errors:?}"), code == Some(0) && token.split('/').count() == 4)?;
    Ok(token)
}

/// The machine joins, and what it is told.
fn joins(machine: &Machine, token: &str, options: &str) -> Res<String> {
    let (code, out, errors) = machine.sh(&format!("echo '{token}' | shoal node join {options}"))?;
    holds(&format!("it joins: {out:?} {errors:?}"), code == Some(0) && out.is_empty())?;
    Ok(errors)
}

fn refused(machine: &Machine, token: &str, word: &str) -> Res {
    machine.fails(&format!("shoal node join '{token}'"), word)
}

const UNKNOWN: &str = "does not know this token";

/// From the token to a program on the node, by the package's own configuration.
fn join_by_a_token(place: &Place) -> Res<End> {
    let machines = machines(place, &["front", "one", "two"])?;
    let [front, one, two] = &machines[..] else { return Err("three were made".into()) };
    let token = invite(front, "")?;
    holds(&token, token.starts_with("shoal-1/10.78.0.1:7706/-/"))?;
    let told = joins(one, &token, "--start")?;
    holds(&told, told.contains("is a node of 10.78.0.1:7706") && told.contains("has welcomed this node"))?;
    front.until("test $(shoal nodes | grep -cw up) = 1")?;
    front.prints("shoal run -n 0 hostname", "one")?;
    same("the key", one.read("/etc/shoal/key")?, front.read("/etc/shoal/key")?)?;
    one.prints("stat -c '%a %U' /etc/shoal/key /etc/shoal/shoal.toml", "600 root\n644 root")?;
    holds(
        "the rest of the configuration is as it was",
        one.read("/etc/shoal/shoal.toml")?.contains("# channel_ports ="),
    )?;
    holds("it is used up", front.sh("ls /run/shoal | grep join")?.1.is_empty())?;
    refused(two, &token, UNKNOWN)?;

    // Number and name come from the front end; --wait says what becomes of the token, in its status too.
    let begun = "shoal key invite --number 5 --name lab5 --wait >/run/token 2>/run/said & echo $! >/run/waits; until test -s /run/token; do sleep 0.1; done; cat /run/token";
    let token = front.sh(begun)?.1;
    holds(&token, token.contains("/n5=lab5/"))?;
    let told = joins(two, &token, "--no-start")?;
    holds(
        &told,
        told.contains("node n5 (lab5)") && told.contains("start the daemon: shoal node --config /etc/shoal/shoal.toml"),
    )?;
    front.until("! kill -0 $(cat /run/waits) 2>/dev/null")?;
    front.prints("grep -c 'a machine has joined from=10.78.0.12:.*host=\"two\"' /run/said", "1")?;
    two.daemon("node")?;
    front.until("test $(shoal nodes | grep -cw up) = 2")?;
    front.prints("shoal nodes | awk 'NR > 1 {print $1, $2, $NF}'", "n0 up one\nn5 up lab5")?;
    front.prints("shoal run -n lab5,one -p hostname | sort", "n0: one\nn5: two")?;
    one.fails("shoal key invite", "tokens are made on the front end")?;
    front.fails("shoal key invite --number 5", "node n5 has joined already, from 10.78.0.12")?;
    front.fails("shoal key invite --name lab5", "node n5 is called lab5 already")?;
    Ok(End::Passed)
}

/// What is no token, or was one, or is not for this machine or its user.
fn join_takes_a_good_token_only(place: &Place) -> Res<End> {
    let machines = machines(place, &["front", "one"])?;
    let [front, one] = &machines[..] else { return Err("two were made".into()) };
    for none in ["", "x", "shoal-1/10.78.0.1:7706/-/00", "shoal-2/10.78.0.1:7706/-/00"] {
        refused(one, none, "that is no token")?;
    }
    let good = invite(front, "")?;
    // Other digits have another name, at which nobody waits.
    let (head, last) = good.split_at(good.len() - 1);
    refused(one, &format!("{head}{}", if last == "0" { "1" } else { "0" }), UNKNOWN)?;
    refused(one, &good.replace(":7706", ":7799"), "reach the front end")?;
    one.fails(&format!("setpriv --reuid 1000 shoal node join '{good}'"), "is for root")?;

    // Who knows a token's name, which is said in the clear, and not its secret, gets nothing and takes nothing from who has it.
    let name = front.sh("ls /run/shoal | sed -n s/^join.//p")?.1;
    holds("it has a name", name.len() == 32)?;
    holds("the name is no part of the token", !good.contains(&name))?;
    let knock = format!(
        "import socket\nfor n in range(60):\n c = socket.create_connection((\"10.78.0.1\", 7706)); c.settimeout(20)\n c.sendall(b\"J\" + bytes.fromhex(\"{name}\") + (b\"\\0\\x30\" + b\"x\" * 48) * (n % 3))\n if n % 3:\n  try:\n   assert c.recv(9) == b\"\"\n  except ConnectionError: pass"
    );
    one.prints(&format!("python3 -c '{knock}'"), "")?;
    // Twenty attempts in a second are heard.
    let told = "for i in $(seq 30); do shoal node join --no-start \"$TOKEN\" 2>/run/told && break; sleep 0.5; done; cat /run/told";
    let told = one.sh(&format!("TOKEN='{good}'; {told}"))?.1;
    holds(&told, told.contains("this machine is a node of"))?;
    let said = front.read("/run/shoal/log/join")?;
    holds("the log names who was refused, and has no secret", said.contains("10.78.0.11") && said.contains("refused"))?;
    holds(
        "nor the key",
        !said.contains(&good[good.len() - 64..]) && !said.contains(front.read("/etc/shoal/key")?.trim()),
    )?;
    one.prints("rm /etc/shoal/key; sed -i 's/^front = .*/front = \"front.example:7706\"/' /etc/shoal/shoal.toml", "")?;

    // Some time is enough for a token, and so is a word.
    let brief = invite(front, "--for 1s")?;
    front.until("! ls /run/shoal | grep -q join")?;
    refused(one, &brief, UNKNOWN)?;
    let withdrawn = invite(front, "--for 1h")?;
    let (code, _, told) = front.sh("shoal key withdraw")?;
    holds(&told, code == Some(0) && told.contains("withdrawn: 1"))?;
    refused(one, &withdrawn, UNKNOWN)?;
    front.until("! pgrep -x shoal:invite >/dev/null")?;
    // A token for one address is no good from another, and still good from that.
    let of_another = invite(front, "--from 10.78.0.99")?;
    refused(one, &of_another, "is not for 10.78.0.11")?;
    refused(one, &of_another, "is not for 10.78.0.11")?;
    holds("nothing was written", one.sh("ls /etc/shoal")?.1 == "shoal.toml")?;
    front.prints("setpriv --reuid 1000 shoal key invite 2>&1 | grep -c 'Permission denied'", "1")?;
    Ok(End::Passed)
}

/// Configuration and key of another cluster stay, and the token too.
fn join_overwrites_nothing(place: &Place) -> Res<End> {
    let machines = machines(place, &["front", "one"])?;
    let [front, one] = &machines[..] else { return Err("two were made".into()) };
    let token = invite(front, "")?;
    one.write("/etc/shoal/key", "the other's\n", 0o600)?;
    refused(one, &token, "this machine has a cluster key")?;
    one.prints("rm /etc/shoal/key", "")?;
    one.write("/etc/shoal/shoal.toml", "[node]\nfront = \"elsewhere\"\n", 0o644)?;
    refused(one, &token, "is of another front end, elsewhere")?;
    one.write("/etc/shoal/shoal.toml", "[front]\n", 0o644)?;
    refused(one, &token, "names no front end under [node]")?;
    holds("the key has not come", one.sh("ls /etc/shoal")?.1 == "shoal.toml")?;
    one.write("/etc/shoal/key", "the other's\n", 0o600)?;
    joins(one, &token, "--no-start --force")?;
    same("the key", one.read("/etc/shoal/key")?, front.read("/etc/shoal/key")?)?;
    one.prints(
        "cat /etc/shoal/key.before /etc/shoal/shoal.toml.before; stat -c %a /etc/shoal/key.before",
        "the other's\n[front]\n600",
    )?;
    one.daemon("node")?;
    front.until("test $(shoal nodes | grep -cw up) = 1")?;
    Ok(End::Passed)
}

/// Takes connections in place of the front end, passes on what comes, and keeps it; `answer`: or says something itself.
const MIDDLE: &str = r#"
import socket, sys, threading
listener = socket.create_server(("10.78.0.12", 7706)); log = open("/run/seen", "ab")
open("/run/listens", "w").close()
def copy(a, b):
    while True:
        try: data = a.recv(65536)
        except OSError: data = b""
        if not data: break
        log.write(data); log.flush(); b.sendall(data)
    try: b.shutdown(socket.SHUT_WR)
    except OSError: pass
while True:
    c, _ = listener.accept()
    if len(sys.argv) > 1:
        c.recv(65536); c.sendall(b"\0\x30" + b"x" * 48); continue
    f = socket.create_connection(("10.78.0.1", 7706))
    for pair in ((c, f), (f, c)): threading.Thread(target=copy, args=pair, daemon=True).start()
"#;

/// Somebody between machine and front end, without the token.
fn join_in_the_middle(place: &Place) -> Res<End> {
    let machines = machines(place, &["front", "one", "two"])?;
    let [front, one, two] = &machines[..] else { return Err("three were made".into()) };
    two.write("/run/middle.py", MIDDLE, 0o644)?;
    two.sh("setsid python3 /run/middle.py answer >/run/middle.log 2>&1 & echo $! >/run/pid; until test -e /run/listens; do sleep 0.1; done")?;
    let token = invite(front, "")?;
    let by_two = |token: &str| token.replace("10.78.0.1:", "10.78.0.12:");
    // It answers as if it were the front end.
    refused(one, &by_two(&token), "10.78.0.12:7706")?;
    holds("no key of its making is kept", one.sh("ls /etc/shoal")?.1 == "shoal.toml")?;
    two.sh("kill $(cat /run/pid); rm /run/listens; setsid python3 /run/middle.py >/run/middle.log 2>&1 & until test -e /run/listens; do sleep 0.1; done")?;
    // It passes on all: what comes from it is not root's, since it is no front end and has no port of root's here.
    refused(one, &by_two(&token), "is not root's")?;
    front.prints("shoal key withdraw 2>/dev/null", "")?;
    // Where that is allowed it sees nothing.
    let token = invite(front, "--any-port")?;
    joins(one, &by_two(&token), "--no-start")?;
    let key = front.read("/etc/shoal/key")?;
    same("the key", one.read("/etc/shoal/key")?, key.clone())?;
    let look = format!(
        "import sys; seen = open(\"/run/seen\", \"rb\").read(); print(len(seen) > 200, any(word in seen for word in [b\"{0}\", bytes.fromhex(\"{0}\"), b\"{1}\", bytes.fromhex(\"{1}\"), b\"one\"]))",
        key.trim(),
        &token[token.len() - 64..]
    );
    two.prints(&format!("python3 -c '{look}'"), "True False")?;
    Ok(End::Passed)
}
