//! What of a process elsewhere who may see and write in /proc.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("proc_is_guarded", proc_is_guarded),
    ("proc_oom_score_adj", proc_oom_score_adj),
    ("proc_is_guarded_from_its_user", proc_is_guarded_from_its_user),
    ("proc_of_another_program", proc_of_another_program),
    ("proc_that_hides", proc_that_hides),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";

/// What only those may read who may trace the process, only they may read here.
fn proc_is_guarded(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_is_guarded", 2)?;
    let going = s.start(&format!("{ANN} shoal run -n 0 sleep 1072"));
    s.until("pgrep -f -x 'sleep 1072'")?;
    let p = s.ok("pgrep -f -x 'sleep 1072'")?;
    let reads = |name: &str| match name {
        "exe" | "cwd" | "root" | "fd/0" => format!("readlink /proc/{p}/{name}"),
        "fd" | "fdinfo" => format!("ls /proc/{p}/{name}"),
        _ => format!("cat /proc/{p}/{name}"),
    };
    for name in ["environ", "maps", "smaps_rollup", "io", "auxv", "wchan", "fd", "fdinfo", "exe", "cwd", "root", "fd/0"]
    {
        for whose in [ANN, ""] {
            s.ok(&format!("{whose} {}", reads(name)))?;
        }
        // Also what has just been read.
        let said = s.sh(&format!("{BOB} {}", reads(name)))?;
        holds(&format!("{name} is not for others"), said.code() != Some(0) && said.out.is_empty())?;
    }
    for name in ["stat", "status", "statm", "cmdline", "comm", "limits"] {
        s.ok(&format!("{BOB} {}", reads(name)))?;
    }
    s.prints(&format!("stat -c '%u %g' /proc/{p} /proc/{p}/stat /proc/{p}/environ | uniq"), "61001 61001")?;
    s.prints(&format!("ps -o user= -p {p}"), "61001")?;
    // Of where things are in its memory and in the kernel nobody is told.
    s.prints(&format!("sed 's/.*) . //' /proc/{p}/stat | cut -d ' ' -f 23-27,32,42-48"), "1 1 0 0 0 0 0 0 0 0 0 0 0")?;
    s.ok(&format!("! {ANN} cat /proc/{p}/stack 2>/dev/null && cat /proc/{p}/stack >/dev/null"))?;
    // Who may do what is the kernel's matter, as natively: not even who owns it changes that.
    for whose in [ANN, ""] {
        s.ok(&format!(
            "! {whose} chmod 0777 /proc/{p}/environ 2>/dev/null && ! {whose} chmod 0777 /proc/{p} 2>/dev/null"
        ))?;
    }
    s.ok("pkill -x sleep")?;
    going.end()?;
    Ok(End::Passed)
}

/// oom_score_adj is written where the body is, by who may.
fn proc_oom_score_adj(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_oom_score_adj", 2)?;
    let going = s.start(&format!("{ANN} shoal run -n 1 sleep 1081"));
    s.until("pgrep -f -x 'sleep 1081' && grep BProcNode /proc/$(pgrep -f -x 'sleep 1081')/status")?;
    let p = s.ok("pgrep -f -x 'sleep 1081'")?;
    let there = format!("echo $(shoal run -n 1 cat /proc/{p}/oom_score_adj) $(cat /proc/{p}/oom_score_adj)");
    s.ok(&format!("choom -p {p} -n 300 && {ANN} choom -p {p} -n 400"))?;
    s.prints(&there, "400 400")?;
    s.ok(&format!("{ANN} sh -c 'echo 350 >/proc/{p}/task/{p}/oom_score_adj'"))?;
    s.prints(&there, "350 350")?;
    // Below what it began with, by somebody else, and what is no number of those.
    for bad in [
        format!("{ANN} choom -p {p} -n -200"),
        format!("{BOB} choom -p {p} -n 500"),
        format!("echo 1001 >/proc/{p}/oom_score_adj"),
    ] {
        holds(&format!("refused: {bad}"), s.sh(&format!("{bad} 2>/dev/null"))?.code() != Some(0))?;
    }
    s.prints(&there, "350 350")?;
    s.ok("pkill -f -x 'sleep 1081'")?;
    going.end()?;
    Ok(End::Passed)
}

/// Who has rights that its user has not does not show that user what it has.
fn proc_is_guarded_from_its_user(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_is_guarded_from_its_user", 2)?;
    s.ok("install -m 2755 -g 61009 $(command -v sleep) /tmp/of-group.$$ && mv /tmp/of-group.$$ /tmp/of-group")?;
    let quiet = "import ctypes, signal; c = ctypes.CDLL(None); c.prctl(4, 0, 0, 0, 0); c.prctl(15, b\"says-nothing\"); signal.pause()";
    let programs =
        [("says-nothing", format!("/usr/bin/python3 -c '{quiet}'")), ("of-group", "/tmp/of-group 1078".into())];
    for (name, program) in programs {
        let going = s.start(&format!("{ANN} shoal run -n 0 {program}"));
        s.until(&format!("pgrep -x {name}"))?;
        let p = s.ok(&format!("pgrep -x {name}"))?;
        s.prints(&format!("stat -c %u /proc/{p} /proc/{p}/stat /proc/{p}/environ | tr '\n' ' '"), "61001 0 0")?;
        for file in ["environ", "maps", "io", "auxv", "fd", "task/$p/fd", "exe", "cwd"] {
            let file = file.replace("$p", &p);
            let reads = match file.as_str() {
                "exe" | "cwd" => format!("readlink /proc/{p}/{file}"),
                _ if file.ends_with("fd") => format!("ls /proc/{p}/{file}"),
                _ => format!("cat /proc/{p}/{file}"),
            };
            s.ok(&format!("{reads} >/dev/null"))?;
            let said = s.sh(&format!("{ANN} {reads}"))?;
            holds(&format!("{file} of {name} is not for its user"), said.code() != Some(0) && said.out.is_empty())?;
        }
        s.ok(&format!("{ANN} cat /proc/{p}/status /proc/{p}/cmdline >/dev/null"))?;
        s.ok(&format!("pkill -KILL -x {name}"))?;
        going.end()?;
    }
    Ok(End::Passed)
}

const BECOMES_ROOT: &str = "import ctypes, os, signal
signal.signal(10, lambda *_: os.execve('/tmp/of-root', ['of-root', '1079'], {'SECRET': '1'}))
ctypes.CDLL(None).prctl(15, b'before')
while True: signal.pause()";

/// What was open while a process was its user's does not show what it is afterwards.
fn proc_of_another_program(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_of_another_program", 1)?;
    s.ok("install -m 4755 $(command -v sleep) /tmp/of-root.$$ && mv /tmp/of-root.$$ /tmp/of-root")?;
    let going = s.start(&format!(
        "cat >/tmp/before.$$ <<'E'\n{BECOMES_ROOT}\nE\nmv /tmp/before.$$ /tmp/before.py; {ANN} shoal run -n 0 /usr/bin/python3 /tmp/before.py"
    ));
    s.until("pgrep -x before")?;
    let p = s.ok("pgrep -x before")?;
    s.ok(&format!(
        "{ANN} sh -c 'cat /proc/{p}/environ >/dev/null && exec 3</proc/{p}/environ 4</proc/{p}/maps && kill -USR1 {p} && for i in $(seq 100); do cat /proc/{p}/environ >/dev/null 2>&1 || break; sleep 0.1; done; ! cat <&3 2>/dev/null | grep -a SECRET && ! cat <&4 2>/dev/null | grep of-root && ! cat /proc/{p}/environ 2>/dev/null'"
    ))?;
    s.until(&format!("grep -aq SECRET /proc/{p}/environ && test \"$(stat -c %u /proc/{p}/environ)\" = 0"))?;
    s.ok("pkill -KILL -x of-root")?;
    going.end()?;
    Ok(End::Passed)
}

/// Who sees no processes of others in /proc sees none that run elsewhere.
fn proc_that_hides(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_that_hides", 1)?;
    s.ok("mount -o remount,hidepid=2,gid=61009 /proc && pkill -KILL -x shoal:procfs")?;
    let going = s.start(&format!("{ANN} shoal run -n 0 sleep 1082"));
    s.until("p=$(pgrep -f -x 'sleep 1082') && grep BProcNode /proc/$p/status")?;
    let p = s.ok("pgrep -f -x 'sleep 1082'")?;
    for (who, sees) in [(ANN, true), (BOB, false), ("setpriv --reuid 61002 --regid 61009 --clear-groups", true)] {
        let said = s.sh(&format!("{who} cat /proc/{p}/status"))?;
        same(&format!("{who} sees it"), said.code() == Some(0), sees)?;
        same(&format!("{who} is told something"), said.out.is_empty(), !sees)?;
    }
    s.ok("pkill -x sleep")?;
    going.end()?;
    Ok(End::Passed)
}
