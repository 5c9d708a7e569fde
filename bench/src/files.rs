//! `./x bench files`: the front end's files as a bare node sees them, beside the same on the front end itself.

use crate::place::{Place, Program};
use crate::table::{head, print, print_failed, Bar, Line, Local, Spread};
use std::path::{Path, PathBuf};
use vocab::{Fault, Result};

/// Nodes, on each of which something is done for the first time once.
const NODES: usize = 4;
const PAIRS: usize = 5;
const ON: &str = "</dev/null shoal run -n 0 --";

/// Requests that somebody waits for, from the node whose place in the list is the argument, by operation or all.
const ASKED: &str = r"import json, subprocess, sys
status = json.loads(subprocess.run(['shoal', 'view', '--json'], stdout=subprocess.PIPE, check=True).stdout)
kinds = status['nodes'][int(sys.argv[1])]['by_kind']
silent = {'forget', 'batch_forget', 'release', 'releasedir', 'read'}
print(sum(n for kind, n in kinds.items() if kind not in silent) if len(sys.argv) < 3 else kinds.get(sys.argv[2], 0))
";
/// A file through a connection of the same link, not encrypted: the seconds from the connection on.
const PLAIN: &str = r"import os, socket, sys, time
if sys.argv[1] == 'take':
    l = socket.create_server(('', 7999)); open(sys.argv[2], 'w').close()
    c, _ = l.accept(); room = bytearray(1 << 20); start = time.time()
    while c.recv_into(room): pass
    print((time.time() - start) * 1000)
else:
    c = socket.create_connection((sys.argv[3], 7999))
    c.sendfile(open(sys.argv[2], 'rb'))
";

/// Work that is done often and known already: its name, the words for `bench/prog/files.c`, how often, and the most of it as a multiple of the same on the front end.
const WARM: [(&str, &str, f64); 4] = [
    ("stat, 20,000", "stat small 20000", 1.15),
    ("open, read and close a small file, 2,000", "read small 2000", 1.2),
    ("read 64 MB, 5 times", "read big 5", 1.15),
    ("exec of /bin/true, 100", "exec /bin/true 100", 1.2),
];

/// The files of one run; they go with it.
struct Files(PathBuf);

impl Files {
    fn new() -> Result<Files> {
        // A node's /tmp is its own.
        let files = Files(Path::new("/var/tmp").join(format!("shoal-bench-files.{}", std::process::id())));
        let made = std::fs::create_dir_all(&files.0);
        made.map_err(|e| Fault::io(&e, format!("make {}", files.0.display())))?;
        Ok(files)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        std::fs::write(self.0.join(name), text).map_err(|e| Fault::io(&e, format!("write {name}")))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// False when a bar was missed.
///
/// # Errors
/// Where nothing can be measured at all: no compiler, no sandbox.
pub(crate) fn measure() -> Result<bool> {
    let program = Program::compile("files", "-static")?;
    let files = Files::new()?;
    std::fs::copy(program.path(), files.0.join("files")).map_err(|e| Fault::io(&e, "copy a program"))?;
    files.write("asked.py", ASKED)?;
    files.write("plain.py", PLAIN)?;
    head();
    let mut place = Place::open_bare(NODES)?;
    place.say(&format!("cd {}; echo hello >small; head -c 64M /dev/urandom >big; sleep 1.1", files.0.display()))?;
    let mut met = first_starts(&mut place)?;
    met &= warm(&mut place)?;
    met &= names(&mut place)?;
    met &= cold(&mut place, "100 MB, cold, beside a plain connection", Bar::None)?;
    place.say("dev=$(ip -br link | awk '$1 !~ /^lo/ {sub(/@.*/, \"\", $1); print $1; exit}'); tc qdisc add dev $dev root tbf rate 1gbit burst 512k latency 100ms")?;
    met &= cold(&mut place, "the same on a link of 1 Gbit/s", Bar::Ratio(1.0 / 0.7))?;
    place.say("tc qdisc del dev $dev root")?;
    met &= small_files(&mut place)?;
    met &= local(&mut place)?;
    place.close()?;
    Ok(met)
}

fn warm(place: &mut Place) -> Result<bool> {
    let mut met = true;
    for (name, words, bar) in WARM {
        place.number(&format!("{ON} ./files {words}"))?;
        met &= pairs(place, name, (words, words), ("", ""), bar)?;
    }
    Ok(met)
}

/// A program's words on the node and on the front end, with what is to be done before each.
fn pairs(place: &mut Place, name: &str, words: (&str, &str), before: (&str, &str), bar: f64) -> Result<bool> {
    let (mut figures, mut locals) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        locals.push(place.number(&format!("{} ./files {}", before.1, words.1))?);
        figures.push(place.number(&format!("{} {ON} ./files {}", before.0, words.0))?);
    }
    if figures.iter().any(|took| took.is_nan()) {
        return Ok(print_failed(name, "the program failed"));
    }
    let local = Local::pairs(&figures, &locals);
    let line = Line { name, figure: Spread::of(figures), local: Some(local), unit: "ms", bar: Bar::Ratio(bar) };
    Ok(print(&line))
}

fn timed(command: &str) -> String {
    format!("s=$(date +%s%N); {command} >/dev/null 2>&1; echo $((($(date +%s%N) - s) / 1000)).e-3")
}

/// Programs that are started for the first time on a node, and for the second; and what they ask for.
fn first_starts(place: &mut Place) -> Result<bool> {
    place.say("mkdir inc; for i in $(seq 50); do echo \"int h$i;\" >inc/h$i.h; echo \"#include \\\"h$i.h\\\"\" >>m.c; done; echo 'int main(){return 0;}' >>m.c")?;
    let python = ("python3 -c pass", "python3 -c pass", [Bar::Figure(1500.0), Bar::Ratio(1.1)], Some(40.0));
    let gcc = ("gcc, 50 headers", "gcc -Iinc -c m.c -o", [Bar::Ratio(3.0), Bar::Ratio(1.15)], None);
    let mut met = true;
    for (name, command, bars, most_asked) in [python, gcc] {
        let (mut locals, mut first, mut second, mut asked) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for node in 0..NODES {
            let command = if command.ends_with("-o") { format!("{command} m{node}.o") } else { command.into() };
            place.number(&format!("shoal run -n {node} true </dev/null; echo 0"))?;
            place.number(&timed(&command))?;
            locals.push(place.number(&timed(&command))?);
            let before = place.number(&format!("python3 asked.py {node}"))?;
            first.push(place.number(&timed(&format!("shoal run -n {node} -- {command} </dev/null")))?);
            asked.push(place.number(&format!("python3 asked.py {node}"))? - before);
            second.push(place.number(&timed(&format!("shoal run -n {node} -- {command} </dev/null")))?);
        }
        for (which, figures, bar) in [("first", first, bars[0]), ("second", second, bars[1])] {
            let local = Local::pairs(&figures, &locals);
            let name = format!("{name}, {which} time on a node");
            met &= print(&Line { name: &name, figure: Spread::of(figures), local: Some(local), unit: "ms", bar });
        }
        let bar = most_asked.map_or(Bar::None, Bar::Figure);
        let name = "  round trips on the first node of all";
        let of_all = Spread::of(asked.iter().take(1).copied().collect());
        print(&Line { name, figure: of_all, local: None, unit: "", bar: Bar::None });
        let name = "  round trips of the first, but for reads";
        met &= print(&Line { name, figure: Spread::of(asked), local: None, unit: "", bar });
    }
    Ok(met)
}

/// Looking up: a path of new names, and all names of a directory.
fn names(place: &mut Place) -> Result<bool> {
    let (mut path, mut list) = (Vec::new(), Vec::new());
    for i in 0..PAIRS {
        place.say(&format!(
            "mkdir -p new{i}/a/b/c; echo x >new{i}/a/b/c/d; mkdir many{i}; (cd many{i}; seq 1000 | xargs touch)"
        ))?;
        place.number(&format!("{ON} ./files stat small 1; sleep 0.1"))?;
        let before = place.number("python3 asked.py 0 lookup")?;
        place.number(&format!("{ON} ./files stat new{i}/a/b/c/d 1"))?;
        path.push(place.number("python3 asked.py 0 lookup")? - before);
        let before = place.number("python3 asked.py 0")?;
        place.number(&format!("{ON} ./files list many{i} 1"))?;
        list.push(place.number("python3 asked.py 0")? - before);
    }
    let name = "round trips for a path of five new names";
    let met = print(&Line { name, figure: Spread::of(path), local: None, unit: "", bar: Bar::Figure(1.0) });
    let name = "round trips for 1,000 new names, as ls -l";
    Ok(met & print(&Line { name, figure: Spread::of(list), local: None, unit: "", bar: Bar::Figure(3.0) }))
}

/// A large file that the node does not have, beside a plain connection.
fn cold(place: &mut Place, name: &str, bar: Bar) -> Result<bool> {
    let (mut figures, mut plain) = (Vec::new(), Vec::new());
    for i in 0..PAIRS {
        place.number(&format!(
            "rm -f cold{i} ready{i}; head -c 100M /dev/urandom >cold{i}; cat cold{i} >/dev/null; echo 0"
        ))?;
        let address = "$(shoal nodes | awk '$1 == \"n0\" {print $3}')";
        plain.push(place.number(&format!(
            "{{ {ON} python3 plain.py take ready{i} & until test -e ready{i}; do sleep 0.02; done; python3 plain.py give cold{i} {address}; wait; }}"
        ))?);
        figures.push(place.number(&format!("{ON} ./files read cold{i} 1"))?);
    }
    let local = Local::pairs(&figures, &plain);
    Ok(print(&Line { name, figure: Spread::of(figures), local: Some(local), unit: "ms", bar }))
}

fn small_files(place: &mut Place) -> Result<bool> {
    // Nothing is removed: ext4 passes over what was removed a moment ago, one by one, which takes longer than all else.
    let fresh = ("mkdir -p old r; mv r old/$(date +%N); mkdir r;", "mkdir -p old l; mv l old/$(date +%N); mkdir l;");
    pairs(place, "10,000 small files written and closed", ("make r 10000", "make l 10000"), fresh, 2.0)
}

/// Processes of the front end: what nodes keep costs who only reads nothing, and who writes a round trip.
fn local(place: &mut Place) -> Result<bool> {
    place.say("mkdir unknown; echo hello >unknown/file; echo hello >kept")?;
    let (mut kept, mut unknown, mut writes, mut plain) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        place.number(&format!("{ON} ./files read kept 2"))?;
        unknown.push(place.number("./files read unknown/file 20000")?);
        kept.push(place.number("./files read kept 20000")?);
        plain.push(place.number("./files write unknown/file 1")?);
        writes.push(place.number("./files write kept 1")?);
    }
    let one = Local::pairs(&kept, &unknown);
    let name = "the front end reads what a node keeps, 20,000";
    let met = print(&Line { name, figure: Spread::of(kept), local: Some(one), unit: "ms", bar: Bar::Ratio(1.05) });
    let other = Local::pairs(&writes, &plain);
    let name = "the front end opens that for writing";
    Ok(met & print(&Line { name, figure: Spread::of(writes), local: Some(other), unit: "ms", bar: Bar::Figure(5.0) }))
}
