//! Memory of huge pages from their pool, which a node may have or not.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::fs;

pub(crate) const SCENES: &[Scene] = &[("huge_pages_of_the_pool", huge_pages_of_the_pool)];

/// How many the kernel may make beyond the pool, if it finds the memory; all machines of a sandbox have the same.
const ALLOWED: &str = "/proc/sys/vm/nr_overcommit_hugepages";
/// More than the program and a second one of it need.
const MANY: &str = "64";

/// Set back when it is dropped.
struct Allowance(String);

impl Allowance {
    fn set(to: &str) -> Res {
        fs::write(ALLOWED, to).doing(format!("write {ALLOWED}"))
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        // Then there are more than before, which nobody has asked for.
        let _kept = Allowance::set(&self.0);
    }
}

/// They go along, private ones and shared ones; where there are none left, nothing is touched and it is said how many are missing.
fn huge_pages_of_the_pool(place: &Place) -> Res<End> {
    let before = fs::read_to_string(ALLOWED).doing(format!("read {ALLOWED}"))?;
    let pool = fs::read_to_string("/proc/sys/vm/nr_hugepages").doing("read the size of the pool")?;
    if pool.trim() != "0" {
        return Ok(End::Missing("a machine whose pool of huge pages is empty, so that it can be short of them".into()));
    }
    let _allowance = Allowance(before);
    Allowance::set(MANY)?;
    let s = Sandbox::new(place, "huge_pages_of_the_pool", 2)?;
    let program = place.program("carry_pool").display().to_string();
    let shared = place.program("carry_pool_shared").display().to_string();
    let start = format!(
        "mkfifo /run/answers; exec 9<>/run/answers; PHASES=1 shoal run -n 0 {program} <&9 >/run/said & echo $! >/run/pid
        until grep -q phase /run/said; do sleep 0.1; done; shoal move $(cat /run/pid) 1; shoal where $(cat /run/pid)
        until test -e /run/over; do sleep 0.1; done; echo >&9; wait $!; cat /run/said
        PHASES=1 shoal run -n 0 {shared} <&9 >/run/said & until grep -q phase /run/said; do sleep 0.1; done; shoal move $! 1; shoal where $!
        awk '/HugePages_Surp/ {{ print ($2 < 8 ? \"small\" : \"huge\") }}' /proc/meminfo; echo >&9; wait $!; cat /run/said"
    );
    let going = s.start(&start);
    s.until("test \"$(shoal where $(cat /run/pid 2>/dev/null) 2>/dev/null)\" = n1")?;
    Allowance::set("0")?;
    let told = s.ok("shoal move --explain $(cat /run/pid) 0 || true")?;
    // Of six pages four are set aside: three and one. Of those without MAP_NORESERVE one is in use.
    let why = "it needs 5 huge pages of 2048 KiB from their pool, which has 0 free there";
    holds(&format!("{told:?} says {why}"), told.contains(why))?;
    let line = s.fails("shoal move $(cat /run/pid) 0", 1)?;
    holds(&format!("{line:?} says {why}"), line.contains(why))?;
    Allowance::set(MANY)?;
    s.ok("shoal move $(cat /run/pid) 0; touch /run/over")?;
    let ended = going.end()?;
    same("what it says", ended.out.trim_end(), "n1\nphase\nok\nn1\nhuge\nphase\nok")?;
    Ok(End::Passed)
}
