//! `shoal shell` on a node: the whole space in /proc, for what is started there.

use super::scene::{holds, Going, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(super) const SCENES: &[Scene] = &[
    ("node_shell_shows_the_space", node_shell_shows_the_space),
    ("node_shell_follows", node_shell_follows),
    ("node_shell_is_for_root", node_shell_is_for_root),
];

/// Begins this on node 1; its number.
fn begin(s: &Sandbox, command: &str) -> Res<(Going, String)> {
    let going = s.start(&format!("shoal run -n 1 {command}"));
    let p = s.ok(&format!(
        "until shoal ps | grep -q '{command}'; do sleep 0.02; done; shoal ps | awk '/{command}/ {{print $1}}'"
    ))?;
    Ok((going, p.trim().to_string()))
}

/// Begins a shell on node 0, in which lines that are written to a pipe are run, one after the other; what each says is in a file of its number.
struct Shell<'a> {
    s: &'a Sandbox,
    going: Going,
    dir: String,
    number: std::cell::Cell<u32>,
}

impl Shell<'_> {
    fn begin<'a>(s: &'a Sandbox, place: &Place, name: &str) -> Res<Shell<'a>> {
        let dir = place.fresh(name).display().to_string();
        s.ok(&format!("mkdir {dir} && mkfifo {dir}/asks"))?;
        let going = s.start(&format!(
            "shoal run -n 0 shoal shell bash -c 'exec <{dir}/asks; while read -r n line; do eval \"$line\" >{dir}/said 2>&1; mv {dir}/said {dir}/$n; done' & exec 9>{dir}/asks; until test -e {dir}/over; do sleep 0.05; done; exec 9>&-; wait"
        ));
        Ok(Shell { s, going, dir, number: std::cell::Cell::new(0) })
    }

    fn says(&self, line: &str) -> Res<String> {
        let (n, dir) = (self.number.get() + 1, &self.dir);
        self.number.set(n);
        self.s.ok(&format!(
            "cat >{dir}/asks <<'E'\n{n} {line}\nE\nuntil test -e {dir}/{n}; do sleep 0.02; done; cat {dir}/{n}"
        ))
    }

    fn prints(&self, line: &str, expected: &str) -> Res {
        let said = self.says(line)?;
        holds(&format!("{line} in the shell says {expected:?}, not {said:?}"), said.trim_end() == expected)
    }

    fn until(&self, line: &str, expected: &str) -> Res {
        self.prints(
            &format!("for i in $(seq 200); do test \"$({line})\" = \"{expected}\" && break; sleep 0.05; done; {line}"),
            expected,
        )
    }

    fn end(self) -> Res {
        self.s.ok(&format!("touch {}/over", self.dir))?;
        self.going.end().map(drop)
    }
}

/// What is on another node has its own directory, what is here is the native one, and nobody else sees that.
fn node_shell_shows_the_space(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "node_shell_shows_the_space", 2)?;
    let (going, p) = begin(&s, "sleep 1081")?;
    let shell = Shell::begin(&s, place, "node-shell")?;
    shell.until(&format!("cat /proc/{p}/comm"), "sleep")?;
    shell.prints(
        &format!("tr '\\0' ' ' </proc/{p}/cmdline; grep BProcNode /proc/{p}/status"),
        "sleep 1081 BProcNode:\t1",
    )?;
    shell.prints(&format!("ps -o pid=,comm=,user= -p {p} | xargs"), &format!("{p} sleep root"))?;
    shell.prints("pgrep -fx 'sleep 1081'", &p)?;
    shell.prints(&format!("readlink /proc/{p}/cwd"), s.ok("pwd")?.trim())?;
    shell.prints("ps -o comm= -p $$; cat /proc/$$/comm", "bash\nbash")?;
    shell.prints("stat -f -c %T /proc/$$/ /proc/self/; head -c 8 /proc/meminfo", "proc\nproc\nMemTotal")?;
    shell.prints("ls -U /proc | grep -x '[0-9]*' | sort -n -c && echo sorted", "sorted")?;
    shell.prints("test -e /proc/nothing || test -e /proc/77777777 || echo none", "none")?;
    s.prints(&format!("shoal run -n 0 sh -c 'test -e /proc/{p} || echo not here'"), "not here")?;
    shell.says(&format!("kill {p}"))?;
    shell.until(&format!("test -e /proc/{p} || echo gone"), "gone")?;
    going.end()?;
    shell.end()?;
    // Who served it ends with it.
    s.until("! shoal ps | grep -q 'shoal shell'")?;
    Ok(End::Passed)
}

/// One that moves here is here, and is elsewhere again when it leaves; and a daemon that comes back tells what there is.
fn node_shell_follows(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "node_shell_follows", 2)?;
    let (going, p) = begin(&s, "sleep 1082")?;
    let shell = Shell::begin(&s, place, "node-shell-follows")?;
    let at = format!("grep -sc BProcNode /proc/{p}/status");
    shell.until(&at, "1")?;
    s.ok(&format!("shoal move {p} 0"))?;
    shell.until(&at, "0")?;
    shell.prints(&format!("cat /proc/{p}/comm"), "sleep")?;
    s.ok(&format!("shoal move {p} 1"))?;
    shell.until(&at, "1")?;
    s.kill(s.daemon("front")?)?;
    s.restart("front")?;
    shell.until(&at, "1")?;
    s.ok(&format!("kill {p}"))?;
    shell.until(&format!("test -e /proc/{p} || echo gone"), "gone")?;
    going.end()?;
    shell.end()?;
    Ok(End::Passed)
}

fn node_shell_is_for_root(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "node_shell_is_for_root", 1)?;
    let refused = s.ok("shoal run -n 0 setpriv --reuid 1234 --clear-groups shoal shell true 2>&1; test $? = 1")?;
    holds("who is not root is told so", refused.contains("that is for root"))?;
    let whole = s.ok("shoal run -n 0 shoal shell --whole true 2>&1; test $? = 1")?;
    holds("all machines as one are the front end's", whole.contains("that is for the front end"))?;
    s.prints("shoal run -n 0 shoal shell sh -c 'exit 7'; echo $?", "7")?;
    Ok(End::Passed)
}
