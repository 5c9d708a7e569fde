//! `shoal shell`: the space in the /proc of a few processes, and all machines as one.

use super::proc::{begin, end, has};
use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("shell_shows_the_space", shell_shows_the_space),
    ("shell_beside_the_machines_own", shell_beside_the_machines_own),
    ("shell_ends_with_its_last_process", shell_ends_with_its_last_process),
    ("shell_when_the_daemon_is_killed", shell_when_the_daemon_is_killed),
    ("shell_when_its_server_is_killed", shell_when_its_server_is_killed),
    ("shell_whole_for_tools", shell_whole_for_tools),
    ("shell_whole_on_a_terminal", shell_whole_on_a_terminal),
    ("shell_for_the_user_of_sudo", shell_for_the_user_of_sudo),
    ("shell_is_for_root", shell_is_for_root),
    ("shell_and_what_it_cannot", shell_and_what_it_cannot),
];

/// One in which the machine's own /proc shows what stands there.
fn private(place: &Place, name: &str, nodes: u32) -> Res<Sandbox> {
    let s = Sandbox::new(place, name, nodes)?;
    s.ok("shoal fault front kill-daemon && sed -i 's/^.front.$/&\\nproc = \"private\"/' /run/shoal/shoal.toml && shoal fault front start-daemon")?;
    s.until(&format!("test $(shoal nodes | grep -cw up) = {nodes} && test -S /run/shoal/views.sock"))?;
    Ok(s)
}

/// A script in a view, kept in a file of this machine's so that nothing in it is quoted twice.
fn view(s: &Sandbox, options: &str, script: &str) -> Res<String> {
    s.ok(&format!("cat >/run/shoal/view.$$ <<'E'\n{script}\nE\nshoal shell {options} -- bash -ex /run/shoal/view.$$"))
}

/// Ends when it is so, within 15 s.
fn until(condition: &str) -> String {
    format!("for i in $(seq 150); do if {condition}; then break; fi; sleep 0.1; done; {condition}")
}

const NOTHING_BOUND: &str = "! grep -q ' /proc/[0-9]' /proc/self/mountinfo";

/// In the view each process is what it is where it runs, also those that come and go while it is there; outside it is what stands there.
fn shell_shows_the_space(place: &Place) -> Res<End> {
    let s = private(place, "shell_shows_the_space", 2)?;
    let going = s.start("shoal run -n 1 sleep 1090");
    s.until("pgrep -f -x 'shoal run -n 1 sleep 1090'")?;
    let p = s.ok("pgrep -f -x 'shoal run -n 1 sleep 1090'")?;
    let seen = view(
        &s,
        "",
        &format!(
            "ps -o args= -p {p}; grep BProcNode /proc/{p}/status
shoal run -n 0 sleep 1091 & {}
kill $(pgrep -f -x 'sleep 1091'); wait $! || true
{}
grep -c ' /proc/[0-9]' /proc/self/mountinfo; kill {p}; {}",
            until("pgrep -f -x 'sleep 1091' >/dev/null"),
            until("! pgrep -f -x 'sleep 1091' >/dev/null"),
            until(&format!("! test -e /proc/{p}")),
        ),
    )?;
    same("what is seen in it", seen.as_str(), "sleep 1090\nBProcNode:\t1\n1")?;
    going.end()?;
    s.ok(NOTHING_BOUND)?;
    let going = s.start("shoal run -n 1 sleep 1092");
    s.until("pgrep -f -x 'shoal run -n 1 sleep 1092'")?;
    s.ok(&format!("{NOTHING_BOUND} && ! pgrep -f -x 'sleep 1092' && pkill -f -x 'shoal run -n 1 sleep 1092'"))?;
    going.end()?;
    Ok(End::Passed)
}

/// Where the machine's own /proc shows the space, too, that stays so, and what is of all machines is in the view alone.
fn shell_beside_the_machines_own(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "shell_beside_the_machines_own", 2)?;
    let (going, p) = begin(&s)?;
    let shows = format!("ps -o comm= -p {p}; grep -c ' /proc/{p} ' /proc/self/mountinfo; grep -c ' /proc/stat ' /proc/self/mountinfo || true");
    same("in the view", view(&s, "--whole", &shows)?.as_str(), "looked-at\n1\n1")?;
    s.prints(&shows, "looked-at\n1\n0")?;
    end(&s, going)?;
    Ok(End::Passed)
}

/// It is kept for what runs in it, not for the program that it was made for; then nothing of it is left.
fn shell_ends_with_its_last_process(place: &Place) -> Res<End> {
    let s = private(place, "shell_ends_with_its_last_process", 1)?;
    let going = s.start("shoal run -n 0 sleep 1093");
    s.until("pgrep -f -x 'shoal run -n 0 sleep 1093'")?;
    let p = s.ok("pgrep -f -x 'shoal run -n 0 sleep 1093'")?;
    // Who starts them and who binds in it are two.
    s.ok(&format!(
        "shoal shell -- sh -c 'setsid sh -c \"sleep 1094; :\" >/dev/null 2>&1 </dev/null &'; shoal shell -- true
{}; pkill -f -x 'sleep 1094'; {}",
        until("test $(pgrep -c -x shoal:binds) = 2"),
        until("test $(pgrep -c -x shoal:binds) = 1"),
    ))?;
    s.ok(&format!("kill {p}"))?;
    going.end()?;
    Ok(End::Passed)
}

/// While there is no daemon the view shows what stands there, and then again what it stands for.
fn shell_when_the_daemon_is_killed(place: &Place) -> Res<End> {
    let s = private(place, "shell_when_the_daemon_is_killed", 1)?;
    let going = s.start("shoal run -n 0 sleep 1095");
    s.until("pgrep -f -x 'shoal run -n 0 sleep 1095'")?;
    let p = s.ok("pgrep -f -x 'shoal run -n 0 sleep 1095'")?;
    let args = format!("test \"$(ps -o args= -p {p} 2>&1)\"");
    view(
        &s,
        "--whole",
        &format!(
            "{args} = 'sleep 1095'; shoal fault front kill-daemon; {}; head -1 /proc/stat >/dev/null; ! grep -q shoal-proc /proc/self/mountinfo
shoal fault front start-daemon; {}; test $(nproc --all) = $(getconf _NPROCESSORS_CONF); {}",
            until(&format!("{args} = 'shoal run -n 0 sleep 1095'")),
            until(&format!("{args} = 'sleep 1095'")),
            until("test $(nproc --all) -gt $(nsenter -t 1 -m nproc --all)"),
        ),
    )?;
    s.ok(&format!("kill {p}"))?;
    going.end()?;
    Ok(End::Passed)
}

fn shell_when_its_server_is_killed(place: &Place) -> Res<End> {
    let s = private(place, "shell_when_its_server_is_killed", 1)?;
    let going = s.start("shoal run -n 0 sleep 1096");
    s.until("pgrep -f -x 'shoal run -n 0 sleep 1096'")?;
    let p = s.ok("pgrep -f -x 'shoal run -n 0 sleep 1096'")?;
    let shown = until(&format!("test \"$(ps -o args= -p {p} 2>/dev/null)\" = 'sleep 1096'"));
    view(
        &s,
        "",
        &format!(
            "for round in 1 2 3; do old=$(pgrep -x shoal:procfs); kill -KILL $old; {}; {shown}; done; test $(grep -c ' /proc/{p} ' /proc/self/mountinfo) = 1",
            until("now=$(pgrep -x shoal:procfs) && test $now != $old"),
        ),
    )?;
    s.until("test $(pgrep -c -x shoal:binds) = 1")?;
    s.ok(&format!("kill {p}"))?;
    going.end()?;
    Ok(End::Passed)
}

/// Each says what there is on all machines, and outside of the view what there is on this one.
fn shell_whole_for_tools(place: &Place) -> Res<End> {
    const NEEDED: [&str; 5] = ["top", "free", "vmstat", "nproc", "lscpu"];
    if let Some(missing) = NEEDED.iter().find(|tool| !has(tool)) {
        return Ok(End::Missing((*missing).into()));
    }
    let s = private(place, "shell_whole_for_tools", 2)?;
    // Three machines that are one, each with what this one has.
    for (tool, per_machine) in [
        ("nproc --all", true),
        ("grep -c ^processor /proc/cpuinfo", true),
        ("grep -c ^cpu[0-9] /proc/stat", true),
        ("ls -d /sys/devices/system/cpu/cpu[0-9]* | wc -l", true),
        ("lscpu -p=cpu | grep -vc '^#'", true),
        ("free -b | awk '/^Mem/ {print $2}'", true),
        ("awk '/^Hugepagesize/ {print $2}' /proc/meminfo", false),
        ("awk '/^btime/ {print $2}' /proc/stat", false),
        ("nproc", false),
    ] {
        let number = |text: String| text.trim().parse::<u64>().map_err(|_| format!("{tool} prints {text:?}"));
        let (own, whole) = (number(s.ok(tool)?)?, number(view(&s, "--whole", tool)?)?);
        same(tool, whole, own * if per_machine { 3 } else { 1 })?;
    }
    // A line's form is the kernel's, whatever its numbers. (Who reads up to the end while the sums change may get a piece of the newer ones behind it.)
    for file in ["stat", "meminfo", "vmstat", "loadavg"] {
        let form = format!("sed 's/cpu[0-9]/cpuN/; s/[0-9][0-9.]*/0/g; s/  *0/ 0/g; /^intr/d; /^softirq/d; /^$/d' /proc/{file} | sort -u | md5sum");
        same(file, view(&s, "--whole", &form)?, s.ok(&form)?)?;
    }
    let ticks = view(&s, "--whole", "head -1 /proc/stat; sleep 1.1; head -1 /proc/stat")?;
    let sum = |line: &str| line.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
    let sums: Vec<u64> = ticks.lines().map(sum).collect();
    holds("time goes on there", sums.len() == 2 && sums[1] > sums[0])?;
    holds("vmstat has its lines", view(&s, "--whole", "vmstat 1 2")?.lines().count() == 4)?;
    let top = view(&s, "--whole", "top -b -n 1 | head -5")?;
    holds("top shows memory and processors", top.contains("Mem :") && top.contains("%Cpu(s):"))?;
    Ok(End::Passed)
}

/// Programs that draw meters, and the library that others ask.
fn shell_whole_on_a_terminal(place: &Place) -> Res<End> {
    if let Some(missing) = ["htop", "script"].iter().find(|tool| !has(tool)) {
        return Ok(End::Missing((*missing).into()));
    }
    let s = private(place, "shell_whole_on_a_terminal", 2)?;
    let all: usize = view(&s, "--whole", "nproc --all")?.parse().map_err(|_| "no number".to_string())?;
    holds("more than one machine has", s.ok("nproc --all")?.parse() == Ok(all / 3) && all >= 3)?;
    // It numbers its meters from 0 or from 1 on.
    let meter = format!("(sleep 0.7; echo q) | TERM=xterm timeout 20 script -qc 'stty rows 60 cols 160; htop' /dev/null | tr -d '\\033' | grep -aEq '({}|{all})[^0-9]*\\['", all - 1);
    view(&s, "--whole", &meter)?;
    if s.sh("/usr/bin/python3 -c 'import psutil'")?.code() != Some(0) {
        return Ok(End::Missing("python3-psutil".into()));
    }
    let asks = "/usr/bin/python3 -c 'import psutil; print(psutil.cpu_count(), len(psutil.cpu_times(percpu=True)), psutil.virtual_memory().total)'";
    let own: u64 = s.ok("awk '/^MemTotal/ {print $2}' /proc/meminfo")?.parse().map_err(|_| "no number".to_string())?;
    same("psutil", view(&s, "--whole", asks)?, format!("{all} {all} {}", 3 * own * 1024))?;
    Ok(End::Passed)
}

/// The shell is that user's, and nobody else's with it; what it cannot tell it does not guess.
fn shell_for_the_user_of_sudo(place: &Place) -> Res<End> {
    let s = private(place, "shell_for_the_user_of_sudo", 1)?;
    let going = s.start("shoal run -n 0 sleep 1097");
    s.until("pgrep -f -x 'shoal run -n 0 sleep 1097'")?;
    let p = s.ok("pgrep -f -x 'shoal run -n 0 sleep 1097'")?;
    let (id, home) =
        (s.ok("id -u daemon; id -g daemon; id -G daemon")?, s.ok("getent passwd daemon | cut -d : -f 6,7")?);
    let sudo = "SUDO_UID=$(id -u daemon) SUDO_GID=$(id -g daemon) SUDO_USER=daemon";
    s.prints(
        &format!("{sudo} shoal shell --user -- sh -c 'id -u; id -g; id -G; echo $HOME:$SHELL; echo $USER; ps -o args= -p {p}; grep Cap /proc/self/status | cut -f 2 | sort -u'"),
        &format!("{id}\n{home}\ndaemon\nsleep 1097\n0000000000000000\n000001ffffffffff").replace("000001ffffffffff", &s.ok("awk '/CapBnd/ {print $2}' /proc/self/status")?),
    )?;
    let line = s.fails("shoal shell --user -- true", 1)?;
    holds(&line, line.contains("SUDO_UID, SUDO_GID and SUDO_USER do not tell who did"))?;
    let line = s.fails("SUDO_UID=61003 SUDO_GID=61003 SUDO_USER=nobody-at-all shoal shell --user -- true", 1)?;
    holds(&line, line.contains("ask who user nobody-at-all is"))?;
    s.ok(&format!("kill {p}"))?;
    going.end()?;
    Ok(End::Passed)
}

/// Who may not have it, and where there is none, is told so in a line.
fn shell_is_for_root(place: &Place) -> Res<End> {
    let s = private(place, "shell_is_for_root", 0)?;
    let line = s.fails("setpriv --reuid 61001 --regid 61001 --clear-groups shoal shell -- true", 1)?;
    holds(&line, line.contains("that is for root (sudo shoal shell --user"))?;
    s.prints("stat -c '%a %u' /run/shoal/views.sock", "600 0")?;
    s.fails("shoal shell -- /no/such/program", 127)?;
    s.ok("! shoal shell -- false && test $(shoal shell -- sh -c 'exit 7'; echo $?) = 7")?;
    s.ok("shoal fault front kill-daemon")?;
    s.until("! pgrep -x shoal:procfs")?;
    let line = s.fails("shoal shell -- true", 1)?;
    holds(&line, line.contains("is a front end's daemon here, and is proc on?"))?;
    Ok(End::Passed)
}

/// What was started in it stays where it is, and killall finds no process that it could signal.
fn shell_and_what_it_cannot(place: &Place) -> Res<End> {
    let s = private(place, "shell_and_what_it_cannot", 1)?;
    let said = view(
        &s,
        "",
        &format!(
            "shoal run -n 0 sleep 1098 & {}
p=$(pgrep -f -x 'sleep 1098'); ! shoal move $p front 2>&1
if command -v killall >/dev/null; then ! killall sleep 2>&1; fi
kill $p; wait $! || true",
            until("pgrep -f -x 'sleep 1098' >/dev/null"),
        ),
    )?;
    holds(&said, said.contains("its stand-in cannot become it: it lives in a mount namespace of its own"))?;
    wait_for("its end", || s.count("sleep 1098") == 0)?;
    if !has("killall") {
        return Ok(End::Missing("killall".into()));
    }
    holds(&said, said.contains(": Bad file descriptor\nsleep: no process found"))?;
    Ok(End::Passed)
}
