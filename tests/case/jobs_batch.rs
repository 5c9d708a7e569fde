//! Batch jobs: `shoal job` and the batch system of the front end.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("jobs_batch_are_their_users", jobs_batch_are_their_users),
    ("jobs_batch_backfill", jobs_batch_backfill),
    ("jobs_batch_outlive_their_system", jobs_batch_outlive_their_system),
    ("jobs_batch_end_in_time", jobs_batch_end_in_time),
    ("jobs_batch_on_a_lost_node", jobs_batch_on_a_lost_node),
    ("jobs_batch_give_nobody_more", jobs_batch_give_nobody_more),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --groups 61001,61005";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";
const RESTART: &str = "shoal fault front kill-daemon && shoal fault front start-daemon";

/// A sandbox with these nodes for jobs, and a directory for what users write, which jobs are submitted from.
fn with_jobs(place: &Place, name: &str, nodes: u32, managed: &str) -> Res<(Sandbox, String)> {
    let s = Sandbox::new(place, name, nodes)?;
    let at = place.fresh("jobs").display().to_string();
    s.ok(&format!("mkdir -m 1777 {at}"))?;
    if !managed.is_empty() {
        s.ok(&format!("echo 'job_nodes = \"{managed}\"' >>/run/shoal/shoal.toml; {RESTART}"))?;
        s.until("shoal job list >/dev/null 2>&1")?;
        s.until(&format!("test \"$(shoal nodes | grep -c ' up ')\" = {nodes}"))?;
    }
    Ok((s, at))
}

/// The fields of jobs, one after the other: number, state, nodes.
fn states(all: &str) -> String {
    let show = "import json, sys; print(*(\"%d:%s:%s\" % (j[\"job\"], j[\"state\"], \"\".join(map(str, j[\"nodes\"]))) for j in json.load(sys.stdin)))";
    format!("shoal job list {all} --json | python3 -c '{show}'")
}

fn until_states(s: &Sandbox, all: &str, states_are: &str) -> Res {
    let states = states(all);
    let last = s.until(&format!("test \"$({states})\" = '{states_are}'"));
    last.map_err(|fault| {
        let list = s.ok("shoal job list --all; shoal nodes; shoal ps").unwrap_or_else(|fault| fault);
        format!("jobs are to be {states_are}\n{list}\n{fault}")
    })
}

/// Owner and mode of all nodes.
const OWNERS: &str = "shoal nodes | awk 'NR > 1 {print $9, $10, $11}' | xargs";

/// Two users' jobs: each has its nodes for itself, runs as its user, with what its user has said, and ends whole.
fn jobs_batch_are_their_users(place: &Place) -> Res<End> {
    let (s, at) = with_jobs(place, "jobs_batch_are_their_users", 2, "0-1")?;
    s.ok("shoal node-set 1 --group 61005 --mode 0 -a rack=7")?;
    let submit = |who: &str, rest: &str| format!("cd {at} && {who} shoal job submit {rest}");
    // Ann has node 0, Bob node 1, and Ann's second job waits.
    s.prints(&submit(ANN, "-t 60 --name first -- sh -c 'echo $SHOAL_JOB $SHOAL_NODES; id -u; id -G; umask; pwd; shoal run -n $SHOAL_NODES uname -n; sleep 1071'"), "1")?;
    s.prints(&submit(BOB, "-o bobs -- sh -c 'echo on $(shoal run -n $SHOAL_NODES uname -n); exec shoal run -n $SHOAL_NODES sleep 1072'"), "2")?;
    s.prints(&submit(ANN, "true"), "3")?;
    until_states(&s, "", "1:running:0 2:running:1 3:waiting:")?;
    s.until(&format!("test \"$(shoal ps | grep -c 'sleep 1072')\" = 1 && test $(wc -l <{at}/shoal-job.1) = 6"))?;
    s.prints(&format!("cat {at}/shoal-job.1"), &format!("1 0\n61001\n61001 61005\n0022\n{at}\nn0"))?;
    s.prints(&format!("cat {at}/bobs; stat -c '%u %a' {at}/bobs"), "on n1\n61002 644")?;
    s.prints(OWNERS, "61001 root 0100 61002 61005 0100")?;
    let line = s.fails(&format!("{BOB} shoal run -n 0 true"), 125)?;
    holds(&format!("it is Ann's: {line}"), line.contains("owner 61001"))?;
    s.prints(&format!("{BOB} shoal run uname -n"), "n1")?;
    s.prints("shoal job list | awk '{print $1, $2, $3, $4, $5, $6}'", "JOB USER NAME STATE NODES TIME\n1 61001 first running n0 00:01:00\n2 61002 sh running n1 01:00:00\n3 61001 true waiting 1 01:00:00")?;
    // What is whose.
    s.fails(&format!("{BOB} shoal job cancel 1"), 1)?;
    s.fails(&format!("{BOB} shoal job cancel 3"), 1)?;
    s.fails("shoal job cancel 9", 1)?;
    s.ok(&format!("{BOB} shoal job cancel 2"))?;
    s.until("! pgrep -f 'sleep 107[2]' >/dev/null")?;
    until_states(&s, "--all", "1:running:0 2:over:1 3:over:1")?;
    s.prints(OWNERS, "61001 root 0100 root 61005 0000")?;
    s.ok("shoal job cancel 1")?;
    until_states(&s, "", "")?;
    s.prints(OWNERS, "root root 0111 root 61005 0000")?;
    holds("nothing is left of it", s.count("sleep 1071") == 0)?;
    let list = s.ok("shoal job list -a")?;
    for end in ["cancelled by root, killed by SIGTERM", "cancelled, killed by SIGTERM", "exit 0"] {
        holds(&format!("{end} in\n{list}"), list.lines().filter(|line| line.ends_with(end)).count() == 1)?;
    }
    let line = s.fails("shoal job cancel 1", 1)?;
    holds(&format!("it is over: {line}"), line.contains("job 1 is over"))?;
    // A front end that manages no nodes says so.
    s.ok(&format!("sed -i /job_nodes/d /run/shoal/shoal.toml; {RESTART}; rm /run/shoal/jobs.sock"))?;
    let line = s.fails("shoal job list", 1)?;
    holds(&format!("why not: {line}"), line.contains("no batch system on this machine: job_nodes of"))?;
    Ok(End::Passed)
}

/// A later job goes before if it ends in time; the first that waits is not delayed by it.
fn jobs_batch_backfill(place: &Place) -> Res<End> {
    let (s, at) = with_jobs(place, "jobs_batch_backfill", 4, "0-2")?;
    let submit = |rest: &str| s.ok(&format!("cd {at} && {ANN} shoal job submit -o /dev/null {rest}"));
    submit("-n 2 -t 600 -- sleep 1073")?;
    until_states(&s, "", "1:running:01")?;
    submit("-n 3 -t 600 -- sleep 1074")?;
    // It would end after the first has: the second would have to wait for it.
    submit("-t 1200 -- sleep 1075")?;
    submit("-t 500 -- sh -c 'sleep 1076'")?;
    until_states(&s, "", "1:running:01 2:waiting: 3:waiting: 4:running:2")?;
    submit("-t 300 -- sleep 1077")?;
    s.ok("shoal job cancel 4")?;
    until_states(&s, "", "1:running:01 2:waiting: 3:waiting: 5:running:2")?;
    s.ok("shoal job cancel 1")?;
    until_states(&s, "", "2:waiting: 3:waiting: 5:running:2")?;
    s.ok("shoal job cancel 3; shoal job cancel 5")?;
    until_states(&s, "", "2:running:012")?;
    s.ok("shoal job cancel 2")?;
    until_states(&s, "", "")?;
    // More than there are is said at once; what is drained is not given to anybody.
    let line = s.fails(&format!("cd {at} && {ANN} shoal job submit -n 4 true"), 1)?;
    holds(&format!("how many there are: {line}"), line.contains("1 to 3 are possible"))?;
    s.ok("shoal node-state 0 drained")?;
    submit("-n 2 -- true")?;
    submit("-n 3 -- true")?;
    until_states(&s, "--all", "1:over:01 2:over:012 3:over: 4:over:2 5:over:2 6:over:12 7:waiting:")?;
    s.ok("shoal node-state 0 up")?;
    until_states(&s, "", "")?;
    Ok(End::Passed)
}

/// Whatever is killed, a job that runs goes on and is known, and one that waits keeps its place.
fn jobs_batch_outlive_their_system(place: &Place) -> Res<End> {
    let (s, at) = with_jobs(place, "jobs_batch_outlive_their_system", 2, "all")?;
    let submit = |rest: &str| s.ok(&format!("cd {at} && {ANN} shoal job submit {rest}"));
    // The oldest: a keeper that begins has its name for a moment.
    let kill = "kill -9 $(pgrep -o -x shoal:jobs) && until shoal job list >/dev/null 2>&1; do sleep 0.05; done";
    submit("-n 2 -- sh -c 'shoal run -n 1 sleep 1078 & echo begun; until test -e go; do sleep 0.1; done; exit 7'")?;
    submit("-n 1 -- sh -c 'echo $SHOAL_NODES; exit 8'")?;
    submit("-n 1 -- sh -c 'sleep 1'")?;
    let three = "1:running:01 2:waiting: 3:waiting:";
    until_states(&s, "", three)?;
    s.until(&format!("test -s {at}/shoal-job.1 && shoal ps | grep -q 'sleep 1078'"))?;
    for what in [kill, RESTART, &format!("kill -9 $(pgrep -o -x shoal:jobs); {RESTART}")] {
        s.ok(what)?;
        until_states(&s, "", three)?;
        s.prints(OWNERS, "61001 root 0100 61001 root 0100")?;
        s.prints("shoal ps | grep -c 'sleep 1078'", "1")?;
        s.until("test \"$(shoal nodes | grep -c ' up ')\" = 2")?;
    }
    // It ends while there is no batch system, and no daemon either.
    s.ok(&format!("shoal fault front kill-daemon; touch {at}/go; sleep 0.5; shoal fault front start-daemon"))?;
    until_states(&s, "", "")?;
    s.prints("shoal job list -a --json | python3 -c 'import json, sys; print(*(j[\"status\"] for j in json.load(sys.stdin)))'", "7 8 0")?;
    s.prints(OWNERS, "root root 0111 root root 0111")?;
    s.until("test \"$(shoal ps --json)\" = '[]'")?;
    holds("no keeper is left", s.all().iter().all(|one| !one.comm.starts_with("shoal:job ")))?;
    // Each number is given once.
    s.ok(RESTART)?;
    s.until("shoal job list >/dev/null 2>&1")?;
    same("the next", submit("-o /dev/null true")?.as_str(), "4")?;
    // A storm: whatever is interrupted goes on, and each job's command runs once.
    s.ok(&format!("cd {at} && for i in $(seq 12); do {ANN} shoal job submit -o /dev/null -- sh -c 'echo $SHOAL_JOB >>ran' || exit 1; test $((i % 3)) = 0 && kill -9 $(pgrep -o -x shoal:jobs) && until shoal job list >/dev/null 2>&1; do sleep 0.01; done; done; :"))?;
    until_states(&s, "", "")?;
    s.prints(&format!("sort -n {at}/ran | xargs"), "5 6 7 8 9 10 11 12 13 14 15 16")?;
    s.prints(OWNERS, "root root 0111 root root 0111")?;
    Ok(End::Passed)
}

/// Past its time a job gets SIGTERM, and SIGKILL if that does not end it: all of it, on all nodes. What outlives the command ends too.
fn jobs_batch_end_in_time(place: &Place) -> Res<End> {
    let (s, at) = with_jobs(place, "jobs_batch_end_in_time", 2, "0-1")?;
    s.ok("shoal node-set 0-1 --mode 0")?;
    let submit = |rest: &str| s.ok(&format!("cd {at} && {ANN} shoal job submit {rest}"));
    submit("-t 1 -- sh -c 'trap \"echo told; exit 3\" TERM; shoal run -n $SHOAL_NODES sleep 1079 & while :; do sleep 0.1; done'")?;
    until_states(&s, "--all", "1:over:0")?;
    s.prints(&format!("grep -c told {at}/shoal-job.1"), "1")?;
    s.prints("shoal job list -a | tail -1 | cut -d' ' -f3- | grep -o 'time limit.*'", "time limit, exit 3")?;
    // Neither the command nor what it has on nodes heeds SIGTERM.
    let deaf = "trap \"\" TERM; while :; do sleep 0.1; done";
    submit(&format!("-n 2 -t 1 -- sh -c 'trap \"\" TERM; echo \"{}\" >deaf; shoal run -n $SHOAL_NODES sh {at}/deaf & setsid sh deaf & while :; do sleep 0.1; done'", deaf.replace('"', "\\\"")))?;
    s.until(&format!("test $(pgrep -fc 'sh {at}/deaf$') -ge 2"))?;
    until_states(&s, "--all", "1:over:0 2:over:01")?;
    // The command ends, and its children in sessions of their own do not.
    submit("-n 2 -- sh -c 'setsid sh -c \"sleep 1080 & sleep 1080\" & setsid shoal run -n $SHOAL_NODES sh -c \"setsid sleep 1080 & sleep 1080\" & until test $(pgrep -fc \"^sleep 1080\") = 6; do sleep 0.1; done; exit 4'")?;
    until_states(&s, "--all", "1:over:0 2:over:01 3:over:01")?;
    // What its user starts there from outside goes when the node does.
    submit("-n 1 -- sleep 1081")?;
    let outside = s.start(&format!(
        "until {ANN} shoal run -n 0 true 2>/dev/null; do sleep 0.1; done; {ANN} shoal run -n 0 sleep 1082; echo $?"
    ));
    s.until("shoal ps | grep -q 'sleep 1082'")?;
    s.ok("shoal job cancel 4")?;
    same("it was killed", outside.end()?.out.trim(), "137")?;
    until_states(&s, "", "")?;
    s.prints(OWNERS, "root root 0000 root root 0000")?;
    s.until("test \"$(shoal ps --json)\" = '[]'")?;
    for left in ["sleep 1079", "sleep 1080", "sleep 1081", "sleep 1082"] {
        holds(left, s.count(left) == 0)?;
    }
    Ok(End::Passed)
}

/// A job whose node is lost ends, with its processes on the others, and the node gets no job until it is back.
fn jobs_batch_on_a_lost_node(place: &Place) -> Res<End> {
    let (s, at) = with_jobs(place, "jobs_batch_on_a_lost_node", 2, "0-1")?;
    let submit = |rest: &str| s.ok(&format!("cd {at} && {ANN} shoal job submit -o /dev/null {rest}"));
    submit("-n 2 -- sh -c 'shoal run -n $SHOAL_NODES sleep 1083; sleep 1083'")?;
    submit("-n 2 -- true")?;
    submit("-n 1 -- sleep 1084")?;
    s.until("test $(shoal ps | grep -c 'sleep 1083') = 2")?;
    s.ok("shoal fault n1 kill-daemon")?;
    until_states(&s, "", "2:waiting: 3:running:0")?;
    s.prints("shoal job list -a | grep -o 'node n1 lost'", "node n1 lost")?;
    holds("nothing of it is left", s.count("sleep 1083") == 0)?;
    s.prints(OWNERS, "61001 root 0100 root root 0111")?;
    s.ok("shoal fault n1 start-daemon")?;
    s.until("test \"$(shoal nodes | grep -c ' up ')\" = 2")?;
    s.ok("shoal job cancel 3")?;
    until_states(&s, "--all", "1:over:01 2:over:01 3:over:0")?;
    s.prints(OWNERS, "root root 0111 root root 0111")?;
    Ok(End::Passed)
}

/// No job does, or leaves behind, what its user might not have done without it.
fn jobs_batch_give_nobody_more(place: &Place) -> Res<End> {
    let (s, at) = with_jobs(place, "jobs_batch_give_nobody_more", 3, "0-1")?;
    s.ok("shoal node-set 2 --mode 0; shoal node-set 0 -a kept=1")?;
    let submit = |who: &str, rest: &str| s.ok(&format!("cd {at} && {who} shoal job submit {rest}"));
    let over = |id: &str| {
        s.until(&format!("shoal job list -a --json | python3 -c 'import json, sys; sys.exit(not any(j[\"job\"] == {id} and j[\"state\"] == \"over\" for j in json.load(sys.stdin)))'"))
    };
    // A node that is not in the pool, another user's file as output, a directory of root's, a link to a secret.
    submit(ANN, "-- shoal run -n 2 true")?;
    over("1")?;
    s.ok(&format!("grep -q 'not yours to use' {at}/shoal-job.1"))?;
    s.ok(&format!("touch {at}/secret; chmod 600 {at}/secret; ln -s {at}/secret {at}/link; mkdir -m 700 {at}/roots"))?;
    for (id, output) in [("2", "secret"), ("3", "link"), ("4", "roots/file"), ("5", "/run/shoal/file")] {
        submit(ANN, &format!("-o {output} -- echo taken"))?;
        over(id)?;
    }
    s.prints(
        &format!("shoal job list -a | grep -c 'open the output'; stat -c '%s %u' {at}/secret; ls {at}/roots"),
        "4\n0 0",
    )?;
    // Limits, niceness, bounding set and no_new_privs are the submitter's at most.
    let confined = "prlimit --nofile=50:60 setpriv --no-new-privs --bounding-set=-all,+checkpoint_restore --inh-caps=-all --reuid 61001 --regid 61001 --clear-groups";
    submit(&format!("nice -n 5 {confined}"), "-- sh -c 'ulimit -Hn; nice; grep -E \"^(CapBnd|NoNewPrivs)\" /proc/self/status; grep -E \"^(CapEff|CapPrm|CapInh|SigIgn|SigBlk)\" /proc/self/status; ls /proc/self/fd | wc -l; cat /proc/self/oom_score_adj'")?;
    over("6")?;
    let (none, bounding) = ("0000000000000000", "0000010000000000");
    let nice = s.ok("nice -n 5 nice")?;
    s.prints(&format!("tr '\\t' ' ' <{at}/shoal-job.6"), &format!("60\n{nice}\nCapBnd: {bounding}\nNoNewPrivs: 1\nSigBlk: {none}\nSigIgn: {none}\nCapInh: {none}\nCapPrm: {none}\nCapEff: {none}\n4\n0"))?;
    let line = s.fails(&format!("cd {at} && {ANN} unshare -Ur shoal job submit true"), 1)?;
    holds(&format!("not from another user namespace: {line}"), line.contains("user namespace"))?;
    // The owner of a node for a while: attributes, group and mode are what they were, afterwards.
    submit(ANN, "-n 2 -- sh -c 'shoal node-set 0 -a kept=2 -a mine=1 --group 61005 --mode 0111; ! shoal node-set 2 --mode 0111; ! shoal node-set 0 --user 61002; ! shoal node-state 0 drained'")?;
    over("7")?;
    s.prints(
        "shoal job list -a --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[-1][\"status\"])'",
        "0",
    )?;
    s.prints(OWNERS, "root root 0111 root root 0111 root root 0000")?;
    s.prints("bpstat -l 0 >/dev/null; grep -c 'attribute 0 kept 31$' /run/shoal/roster; grep -c mine /run/shoal/roster; true", "1\n0")?;
    // Its files are root's alone, and its keeper is not its user's to kill.
    s.prints("stat -c %a /run/shoal/state/jobs", "700")?;
    submit(ANN, "-t 30 -o keeper -- sh -c 'kill -9 $PPID 2>/dev/null || echo refused; sleep 1085'")?;
    s.until(&format!("grep -q refused {at}/keeper"))?;
    // Too much is refused, and holds nobody up.
    s.fails(&format!("cd {at} && {ANN} env X=$(head -c 100000 /dev/zero | tr '\\0' x) Y=$(head -c 100000 /dev/zero | tr '\\0' x) Z=$(head -c 100000 /dev/zero | tr '\\0' x) shoal job submit true"), 1)?;
    for bad in ["-n 0 true", "-t 0 true", "-t x true", "--name 'a b' true"] {
        s.ok(&format!("cd {at} && ! {ANN} shoal job submit {bad} 2>/dev/null"))?;
    }
    s.ok(&format!("timeout 20 {BOB} python3 -c 'import socket; s = [socket.socket(socket.AF_UNIX) for _ in range(300)]; [x.connect(\"/run/shoal/jobs.sock\") or x.send(b\"\\0\\0\\1\\0\") for x in s]; import subprocess; subprocess.run([\"timeout\", \"5\", \"shoal\", \"job\", \"list\"], check=True); [x.send(b\"junk\" * 99) for x in s]'"))?;
    s.ok(&format!("timeout 5 {ANN} shoal job cancel 8"))?;
    over("8")?;
    Ok(End::Passed)
}
