//! A node that is to be worked on: nothing new starts there, and what runs there goes elsewhere.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[("drain_empties_a_node", drain_empties_a_node)];

const STATE: &str = "shoal nodes | awk '$1 == \"n1\" {print $2}'";
const USER: &str = "setpriv --reuid 1234 --regid 1234 --clear-groups shoal run -n 1 --";

/// What can move does, what cannot is named and waited for, and the state outlives the front end's daemon.
fn drain_empties_a_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "drain_empties_a_node", 3)?;
    let goes = s.start("cd /; shoal run -n 1 -- sleep 1300; echo $?");
    // A connection to another process stays where it is.
    let stays = s.start(
        "cd /; shoal run -n 1 -- python3 -c 'import socket, time; a = socket.create_server((\"127.0.0.1\", 0)); b = socket.create_connection(a.getsockname()); c = a.accept(); time.sleep(1301)'; echo $?",
    );
    s.until("shoal ps | grep -q 'sleep 1300' && shoal ps | grep -q 'time.sleep(1301)'")?;
    s.ok("sleep 0.3; shoal cordon 1")?;
    s.prints(STATE, "cordoned")?;
    let said = s.sh(&format!("cd /; {USER} true"))?;
    holds(&said.text(), said.text().contains("cordoned"))?;
    s.prints("shoal ps | grep -c 'sleep 1300'", "1")?;
    let said = s.sh("shoal drain 1; echo $?")?;
    same(&said.text(), said.out.trim(), "1")?;
    holds(&said.text(), said.text().contains("processes stay on n1"))?;
    s.prints("shoal ps | awk '/sleep 1300/ {print $2 != \"n1\"}'", "1")?;
    s.prints(STATE, "draining")?;
    s.ok("shoal fault front kill-daemon && shoal fault front start-daemon; until shoal nodes | grep -q '^n1 .*draining'; do sleep 0.05; done")?;
    let waits = s.start("shoal drain 1 --wait=20");
    s.ok("sleep 0.5; kill $(shoal ps | awk '/time.sleep\\(1301/ {print $1; exit}')")?;
    let waited = waits.end()?;
    same(&waited.text(), waited.out.trim(), "n1 is empty: it may be switched off")?;
    s.prints(STATE, "drained")?;
    stays.end()?;
    s.ok("shoal uncordon 1")?;
    s.prints(&format!("cd /; {USER} uname -n"), "n1")?;
    s.ok("pkill -fx 'sleep 1300'")?;
    same("the one that has moved", goes.end()?.out.trim(), "143")?;
    for (words, why) in [("drain 9", "9"), ("drain 1 --wait=-1", "wanted are seconds"), ("cordon", "required")] {
        let said = s.sh(&format!("shoal {words}"))?;
        holds(&said.text(), said.text().contains(why))?;
    }
    Ok(End::Passed)
}
