//! Launchers of parallel programs as Debian has them, with `shoal rsh` in the place of rsh: MPICH's hydra, Open MPI, PVM.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::proto::Step;
use crate::lab::{Doing, Res};
use std::path::Path;
use std::process::Command;

pub(crate) const SCENES: &[Scene] = &[
    ("mpich_over_nodes", |place| over_nodes(place, "mpich_over_nodes", &MPICH)),
    ("mpich_ends_whole", |place| ends_whole(place, "mpich_ends_whole", &MPICH)),
    ("openmpi_over_nodes", |place| over_nodes(place, "openmpi_over_nodes", &OPEN_MPI)),
    ("openmpi_ends_whole", |place| ends_whole(place, "openmpi_ends_whole", &OPEN_MPI)),
    ("pvm_over_nodes", pvm_over_nodes),
    ("pvm_ends_with_its_job", pvm_ends_with_its_job),
];

/// A launcher of MPI programs. Debian has several beside each other, by their full names.
struct Launcher {
    compiler: &'static str,
    command: &'static str,
    /// Before a command that ends by itself.
    patiently: &'static str,
    /// What it is called in ps.
    comm: &'static str,
    package: &'static str,
}

const MPICH: Launcher = Launcher {
    compiler: "mpicc.mpich",
    command: "mpiexec.hydra -launcher rsh -launcher-exec /run/shoal/bin/shoal-rsh -hosts n0,n1,n2,n3 -n 8",
    patiently: AGAIN,
    comm: "mpiexec.hydra",
    package: "mpich",
};

/// Debian's MPICH (4.0.2, with UCX over TCP) hangs in MPI_Finalize now and then, on a single machine without shoal too: half of the ranks wait for others
/// that do not answer any more. What hangs is killed, which leaves nothing, and tried again.
const AGAIN: &str =
    "again() { for i in $(seq 11); do out=$(timeout -s KILL 5 \"$@\" </dev/null); e=$?; [ $e = 137 ] || break; done; \
                     echo \"$out\"; return $e; }; again ";

/// Options: root, more ranks than processors, and the network of the sandbox.
const OPEN_MPI: Launcher = Launcher {
    compiler: "mpicc.openmpi",
    command: "mpirun.openmpi --allow-run-as-root --oversubscribe --mca btl tcp,self --mca btl_tcp_if_include eth0 \
              --mca plm_rsh_agent 'shoal rsh' --host n0:2,n1:2,n2:2,n3:2 -n 8",
    patiently: "",
    comm: "mpirun.openmpi",
    package: "openmpi-bin",
};

fn has(tool: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().is_ok_and(|done| done.status.success())
}

/// The program, by the launcher's own compiler; nothing where it is not installed.
fn compiled(place: &Place, compiler: &str, source: &str, libraries: &[&str]) -> Res<Option<String>> {
    if !has(compiler) {
        return Ok(None);
    }
    let program = place.fresh("ranks");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("case/mpi").join(source);
    let done = Command::new(compiler).arg("-O1").arg(source).args(libraries).arg("-o").arg(&program).output();
    let done = done.doing("run the compiler")?;
    match done.status.success() {
        true => Ok(Some(program.display().to_string())),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

/// Ranks say where they are, pass something round, and sum up; the status of one that fails arrives; all show in ps.
fn over_nodes(place: &Place, name: &str, launcher: &Launcher) -> Res<End> {
    let Some(program) = compiled(place, launcher.compiler, "ranks.c", &[])? else {
        return Ok(End::Missing(format!("{} is not installed", launcher.package)));
    };
    let s = Sandbox::new(place, name, 4)?;
    let command = format!("{}{}", launcher.patiently, launcher.command);
    s.prints(&format!("{command} {program} hello | sort -n | cut -d' ' -f1-3 | xargs"), &all_ranks())?;
    let hosts = format!("{command} {program} hello | awk '{{print $5}}' | sort | uniq -c | xargs");
    s.prints(&hosts, "2 n0 2 n1 2 n2 2 n3")?;
    s.prints(&format!("{command} {program} ring"), "ring 8")?;
    s.prints(&format!("{command} {program} sum"), "sum 1")?;
    for way in ["fails", "aborts"] {
        s.prints(&format!("{command} {program} {way} >/dev/null 2>&1; echo $?"), "7")?;
    }
    // From a node, over others.
    s.prints(&format!("{}shoal run -n 2 -- {} {program} ring", launcher.patiently, launcher.command), "ring 8")?;
    s.until("test \"$(shoal ps --json)\" = '[]'")?;
    Ok(End::Passed)
}

fn all_ranks() -> String {
    (0..8).map(|rank| format!("{rank} of 8")).collect::<Vec<_>>().join(" ")
}

/// However the launcher ends, by Ctrl-C or by SIGKILL, nothing of the job is left on any node.
fn ends_whole(place: &Place, name: &str, launcher: &Launcher) -> Res<End> {
    let Some(program) = compiled(place, launcher.compiler, "ranks.c", &[])? else {
        return Ok(End::Missing(format!("{} is not installed", launcher.package)));
    };
    let s = Sandbox::new(place, name, 4)?;
    let command = format!("{} {program} stay", launcher.command);
    let shown = |how: &str| format!("{how} | grep -v mpi | grep -c '{program} stay$'");
    // Where the launcher runs on a node, that is killed there.
    for caller in ["", "shoal run -n 1 -- "] {
        let going = s.start(&format!("{caller}{command}; echo $?"));
        s.until(&format!("test $({}) = 8", shown("shoal ps")))?;
        s.until(&format!("test $({}) = 8", shown("ps -eo args")))?;
        let kill = format!("kill -9 $(ps -eo pid,comm | awk '$2 == \"{}\" {{print $1}}' | head -1)", launcher.comm);
        s.ok(&format!(
            "{kill}; for i in $(seq 20); do if test \"$(shoal ps --json)\" = '[]'; then exit 0; fi; sleep 0.1; done; \
             shoal ps; exit 1"
        ))?;
        same("killed", going.end()?.out.trim_end().ends_with("137"), true)?;
        holds("no process of the job is on any machine", s.count(&format!("{program} stay")) == 0)?;
    }
    let see = |text: &str| Step::Await(text.into());
    let key = |text: &str| Step::Type(text.into());
    s.talk(vec![
        see("%% "),
        key(&format!("{command}\n")),
        see("ready\r"),
        key("\x03"),
        see("%% "),
        key("test $? -ne 0 && echo en''ded\n"),
        see("ended\r"),
        see("%% "),
        key("exit 0\n"),
    ])?;
    s.ok("for i in $(seq 50); do if test \"$(shoal ps --json)\" = '[]'; then exit 0; fi; sleep 0.1; done; shoal ps; exit 1")?;
    Ok(End::Passed)
}

/// The files of PVM's daemons are each machine's own here, as they are on real machines: sandboxes share /tmp. PVM refuses root, and
/// looks for its server of groups below the user's home.
const PVM: &str =
    "D=$(mktemp -d) && chmod 755 $D && mkdir -p $D/pvm3/bin/LINUX64 && ln -s /usr/bin/pvmgs $D/pvm3/bin/LINUX64; \
                   export HOME=$D PVM_ROOT=/usr/lib/pvm3 PVM_RSH=/run/shoal/bin/shoal-rsh PVM_TMP=/dev/shm PVM_ARCH=LINUX64; \
                   as() { setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"; }";

fn pvm_over_nodes(place: &Place) -> Res<End> {
    if !has("pvm") {
        return Ok(End::Missing("pvm is not installed".into()));
    }
    let Some(program) = compiled(place, "cc", "tasks.c", &["-lgpvm3", "-lpvm3"])? else {
        return Ok(End::Missing("pvm-dev is not installed".into()));
    };
    let s = Sandbox::new(place, "pvm_over_nodes", 4)?;
    // All in one script: whatever a script leaves is a fault. A daemon of PVM forks for a moment now and then.
    let text = s.ok(&format!(
        "{PVM}; printf 'add n0 n1 n2 n3\\nconf\\nquit\\n' | as pvm; as {program}; \
         for i in $(seq 100); do n=$(shoal ps | grep -c '  pvmd -s'); test $n = 4 && break; sleep 0.1; done; \
         echo shown $n; printf 'halt\\n' | as pvm; rm -r $D; true"
    ))?;
    let has = |line: &str| text.lines().filter(|one| one.starts_with(line)).count();
    for (line, times) in [("5 hosts", 1), ("ring 8", 1), ("sum 28", 1), ("task on ", 8), ("shown 4", 1)] {
        same(&format!("{line:?} in {text}"), has(line), times)?;
    }
    s.until("test \"$(shoal ps --json)\" = '[]'")?;
    Ok(End::Passed)
}

/// The console may end in whatever way: PVM goes on, by design. In a batch job all of PVM ends with its first daemon, which would otherwise leave the others to their
/// time-outs, and by `shoal job cancel`.
fn pvm_ends_with_its_job(place: &Place) -> Res<End> {
    if !has("pvm") {
        return Ok(End::Missing("pvm is not installed".into()));
    }
    let Some(program) = compiled(place, "cc", "tasks.c", &["-lgpvm3", "-lpvm3"])? else {
        return Ok(End::Missing("pvm-dev is not installed".into()));
    };
    let s = Sandbox::new(place, "pvm_ends_with_its_job", 4)?;
    s.ok("echo 'job_nodes = \"all\"' >>/run/shoal/shoal.toml; shoal fault front kill-daemon && shoal fault front start-daemon")?;
    s.until("shoal job list >/dev/null 2>&1 && test \"$(shoal nodes | grep -c ' up ')\" = 4")?;
    let script = place.fresh("job");
    let text = format!(
        "printf 'n0\\nn1\\nn2\\nn3\\n' >$HOME/hosts; pvmd $HOME/hosts >$HOME/pvmd.out 2>&1 & echo $! >$HOME/master
        until test -s $PVM_TMP/pvmd.65534; do sleep 0.1; done
        until echo conf | pvm 2>/dev/null | grep -q '5 hosts'; do sleep 0.2; done
        {program} hold & wait $(cat $HOME/master)"
    );
    std::fs::write(&script, text).doing("write a script")?;
    let nothing = "test \"$(shoal ps --json)\" = '[]' && ! pgrep -x pvmd3 && ! pgrep -x ranks";
    let two_seconds =
        format!("for i in $(seq 20); do if {nothing}; then exit 0; fi; sleep 0.1; done; shoal ps; ps -ef; exit 1");
    for (end, gone) in [
        ("kill -9 $(cat $D/master)", two_seconds),
        ("shoal job cancel 2", format!("until {nothing}; do sleep 0.1; done")),
    ] {
        let text = s.ok(&format!(
            "{PVM}; chown 65534 $D; cd $D; as shoal job submit -n 4 -t 10m -o $D/out -- sh {script}
            for i in $(seq 300); do grep -q ready $D/out 2>/dev/null && break; sleep 0.1; done; cat $D/out
            kill -9 $(as sh -c '(sleep 100 | pvm) >/dev/null 2>&1 & until pgrep -x pvm; do sleep 0.1; done') $(pgrep -fx 'sleep 100')
            echo conf | as pvm | grep hosts; shoal ps | grep -c ' {program} stays$'
            ({end}; {gone}) || exit 1; rm -f /dev/shm/pvm*; shoal run -a sh -c 'rm -f /dev/shm/pvm*'; rm -r $D; echo gone",
            script = script.display()
        ))?;
        let has = |line: &str| text.lines().any(|one| one.trim() == line);
        holds(
            &format!("all is there, and then nothing: {text}"),
            has("ready") && text.contains("5 hosts") && has("gone"),
        )?;
        s.until("test \"$(shoal job list --json)\" = '[]'")?;
    }
    Ok(End::Passed)
}
