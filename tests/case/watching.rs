//! The cluster to look at: `shoal top` on a terminal (`top.py`), `shoal web` for browsers (`web.py`).

use super::scene::{holds, outside, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};

pub(crate) const SCENES: &[Scene] = &[
    ("top_acts", top_acts),
    ("top_gives_the_terminal_back", top_gives_the_terminal_back),
    ("top_without_a_daemon", top_without_a_daemon),
    ("top_batch", top_batch),
    ("top_outside_the_space", top_outside_the_space),
    ("web_page", web_page),
    ("web_hostile", web_hostile),
    ("web_in_a_browser", web_in_a_browser),
    ("ps_of_a_job", ps_of_a_job),
];

/// A shell command that does what this says.
fn driver(place: &Place, text: &str, what: &str) -> Res<String> {
    let path = place.fresh("driver");
    std::fs::write(&path, text).doing("write a driver")?;
    Ok(format!("python3 {} {what}", path.display()))
}

fn top(place: &Place, what: &str) -> Res<String> {
    driver(place, include_str!("top.py"), what)
}

fn web(place: &Place, what: &str) -> Res<String> {
    driver(place, include_str!("web.py"), what)
}

/// Keys filter, sort, move and signal; any size of the terminal will do.
fn top_acts(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "top_acts", 2)?;
    let (first, other) = (s.start("shoal run -n 0 sleep 1111; echo $?"), s.start("shoal run -n 0 sleep 1112"));
    s.until("test $(shoal ps | grep -c 'sleep 111[12]$') = 2")?;
    s.prints(&top(place, "acts")?, "passed")?;
    same("killed by a key", first.end()?.out.trim(), "137")?;
    s.ok("kill $(shoal ps | awk '/sleep 1112$/ {print $1}')")?;
    other.end()?;
    Ok(End::Passed)
}

/// However it ends, and while it is stopped.
fn top_gives_the_terminal_back(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "top_gives_the_terminal_back", 1)?;
    s.prints(&top(place, "ends")?, "passed")?;
    s.prints(&top(place, "suspends")?, "passed")?;
    s.prints(&top(place, "full")?, "passed")?;
    Ok(End::Passed)
}

/// It says so, and keys are heard.
fn top_without_a_daemon(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "top_without_a_daemon", 1)?;
    s.prints(&top(place, "away")?, "passed")?;
    Ok(End::Passed)
}

fn top_batch(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "top_batch", 2)?;
    let going = s.start("shoal run -n 1 sh -c 'while :; do :; done'");
    s.until("shoal ps | grep -q ' R .*while'")?;
    s.prints("shoal top --batch -n 2 -d 0.5 >/run/looks; grep -c '^NODE ' /run/looks", "2")?;
    s.prints("awk '/while :/ {print $2, ($5 > 5)}' /run/looks", "n1 0\nn1 1")?;
    s.prints("shoal top --batch | grep -c '^n[01] *up '", "2")?;
    s.prints("shoal top --batch -n 100 -d 0.1 | head -1 | cut -c1-4", "NODE")?;
    let said = s.fails("shoal top </dev/null", 1)?;
    holds("it says what to do without a terminal", said.contains("--batch"))?;
    s.fails("shoal top --batch --socket /nonexistent/s", 1)?;
    s.ok("kill $(shoal ps | awk '/while :/ {print $1}')")?;
    going.end()?;
    Ok(End::Passed)
}

/// On the machine of a node processes have other numbers: what has this one there is left alone.
fn top_outside_the_space(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "top_outside_the_space", 1)?;
    let going = s.start("shoal run -n 0 sleep 1119");
    s.until("shoal ps | grep -q 'sleep 1119$'")?;
    let number: i32 = s.ok("shoal ps | awk '/sleep 1119$/ {print $1}'")?.trim().parse().doing("read a number")?;
    let command = format!("PATH=/run/shoal/bin:$PATH {} {number} >/dev/null", top(place, "outside")?);
    let target = s.machine("n0")?.to_string();
    outside(&["nsenter", "-t", &target, "-m", "-p", "-n", "-u", "-i", "--", "bash", "-c", &command])?;
    s.ok(&format!("kill {number}"))?;
    going.end()?;
    Ok(End::Passed)
}

/// What it shows, and who may do what.
fn web_page(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "web_page", 2)?;
    let going = s.start("shoal run -n 0 sleep 1113; echo $?");
    s.until("shoal ps | grep -q 'sleep 1113$'")?;
    s.prints(&web(place, "page")?, "passed")?;
    same("killed from the page", going.end()?.out.trim(), "137")?;
    s.ok("chmod 644 /run/shoal/web-token")?;
    s.fails("shoal web --token", 1)?;
    Ok(End::Passed)
}

/// Whatever is said to it, it serves the others.
fn web_hostile(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "web_hostile", 1)?;
    s.prints(&web(place, "hostile")?, "passed")?;
    Ok(End::Passed)
}

fn web_in_a_browser(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "web_in_a_browser", 2)?;
    if s.sh("command -v chromium")?.code() != Some(0) {
        return Ok(End::Missing("chromium is not installed".into()));
    }
    let hostile = "exec -a '<img src=x onerror=document.title=/spoilt/.source>' sleep 1115";
    let going = s.start(&format!("shoal run -n 1 sleep 1114 & shoal run -n 0 bash -c \"{hostile}\" & wait"));
    s.until("test $(shoal ps | grep -c 'sleep 1114$\\|onerror') = 2")?;
    s.prints(&web(place, "browser")?, "passed")?;
    s.ok("kill $(shoal ps | awk '/1114$|onerror/ {print $1}')")?;
    going.end()?;
    Ok(End::Passed)
}

/// What one `shoal run` has started, wherever that is.
fn ps_of_a_job(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "ps_of_a_job", 2)?;
    let job = s.start("shoal run -n 0 sh -c 'shoal run -n 1 sleep 1116 & sleep 1117; :'");
    let other = s.start("shoal run -n 0 sleep 1118");
    s.until("test $(shoal ps | grep -c 'sleep 111[678]$') = 3")?;
    let of_job =
        "shoal ps --job $(shoal ps | awk '/sh -c shoal run/ {print $1}') | awk 'NR > 1 {print $2, $NF}' | sort";
    let shown = s.ok(of_job)?;
    holds(&format!("both nodes' are its: {shown}"), shown.contains("n1 1116") && shown.contains("n0 1117"))?;
    holds(&format!("no other's are: {shown}"), !shown.contains("1118"))?;
    // Some between them are the front end's own, of which no node tells.
    let script = s.start("sh -c 'sh -c \"sh -c \\\"shoal run -n 1 sleep 1121; :\\\"; :\"; :'; echo over");
    s.until("shoal ps | grep -q 'sleep 1121$'")?;
    s.prints("shoal ps --job $(pgrep -o -f 'sleep 1121; :') | awk 'NR > 1 {print $2, $NF}'", "n1 1121")?;
    s.ok("kill $(shoal ps | awk '/sleep 1121$/ {print $1}')")?;
    script.end()?;
    s.ok("kill $(shoal ps | awk '/sleep 111[678]$/ {print $1}')")?;
    job.end()?;
    other.end()?;
    Ok(End::Passed)
}
