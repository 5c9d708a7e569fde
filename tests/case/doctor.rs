//! `shoal doctor`: what is amiss in a running cluster.

use super::machines::on_machine;
use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[("doctor_finds_what_differs", doctor_finds_what_differs)];

fn doctor_finds_what_differs(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "doctor_finds_what_differs", 3)?;
    let said = s.ok("cd /; shoal doctor")?;
    holds(&said, said.contains("3 of 3 nodes have answered; wrong: 0") && !said.contains("WRONG"))?;
    // Users of the front end are those of its machine; n0 has others from now on.
    s.ok("cp /etc/passwd /run/passwd; echo 'ann:x:4001:4001::/:/bin/sh' >>/run/passwd; echo 'bob:x:4002:4002::/:/bin/sh' >>/run/passwd; mount --bind /run/passwd /etc/passwd")?;
    on_machine(&s, "n0", "cp /etc/passwd /run/passwd; echo 'ann:x:4009:4009::/:/bin/sh' >>/run/passwd; mount --bind /run/passwd /etc/passwd")?;
    s.ok("shoal cordon 1; shoal fault n2 kill; until shoal nodes | grep -q '^n2 .*down'; do sleep 0.05; done")?;
    let told = s.sh("cd /; shoal doctor; echo \"status $?\"")?;
    for line in [
        "WRONG n0: these users have another number there than on the front end: ann",
        "note  n0: it does not know these users of the front end: bob",
        "note  n1: it is cordoned",
        "note  n1: it does not know these users of the front end: ann, bob",
        "WRONG n2: it is down",
        "2 of 3 nodes have answered; wrong: 2",
        "status 1",
    ] {
        holds(&format!("{line}: {}", told.out), told.out.contains(line))?;
    }
    let json = "cd /; shoal doctor --json | python3 -c 'import json, sys; print(sum(one[\"rank\"] == \"wrong\" for one in json.load(sys.stdin)))'";
    s.prints(json, "2")?;
    // Whoever may not start programs there has no answer.
    let user = s.sh(
        "cd /; shoal node-set 0 --mode 0; setpriv --reuid 1234 --regid 1234 --clear-groups shoal doctor; echo $?",
    )?;
    same(&user.text(), user.out.trim().ends_with('1'), true)?;
    holds(&user.text(), user.out.contains("WRONG n0: it does not answer"))?;
    Ok(End::Passed)
}
