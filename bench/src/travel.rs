//! Processes that move from one node of a sandbox to the other and back, over its veth.

use crate::moving::warm;
use crate::place::{parse, Place};
use crate::table::{print, print_failed, Bar, Line, Local, Spread};
use std::path::Path;
use std::time::Instant;
use vocab::{Fault, Result};

/// Moves of a small process, and of a large one.
const TIMES: usize = 31;
const TIMES_LARGE: usize = 7;
/// Pairs of before and after.
const PAIRS: usize = 9;
/// Bytes of a file that is read.
pub(crate) const DATA: usize = 16 << 20;
/// MiB.
const LARGE: u32 = 1024;
/// Of the plain connection.
const PORT: u16 = 7799;
/// Of what plain TCP carries.
const LEAST_RATE: f64 = 0.60;
/// After a move everything takes as long as before, but for so much.
const SAME: f64 = 1.03;

/// Prints all lines; false when a bar was missed.
///
/// # Errors
/// Where nothing can be measured at all: no sandbox.
pub(crate) fn measure(fixed: &Path, dynamic: &Path, data: &Path) -> Result<bool> {
    let mut place = Place::open(2)?;
    let (fixed, dynamic) = (fixed.display().to_string(), dynamic.display().to_string());
    let python = format!("python3 {}/prog/moved.py", env!("CARGO_MANIFEST_DIR"));
    let mut met = true;
    for (name, program, bar) in [
        ("static program moves: it stands still", format!("{fixed} small"), 1.0),
        ("dynamic program moves: it stands still", format!("{dynamic} small"), 1.3),
        ("python3 moves: it stands still", python, 6.0),
        ("4 threads move: they stand still", format!("{dynamic} threads"), 2.0),
    ] {
        let gaps = Traveller::start(&mut place, &program).and_then(|mut one| one.gaps(TIMES, || Ok(())));
        met &= told(name, gaps, Bar::Figure(bar));
    }
    let writing = format!("{fixed} memory {LARGE} 10");
    let gaps = Traveller::start(&mut place, &writing).and_then(|mut one| one.gaps(TIMES_LARGE, warm));
    met &= told("1 GiB, 10 MB/s, moves: it stands still", gaps, Bar::Figure(5.0));
    met &= lazily(&mut place, &fixed);
    met &= against_plain(&mut place, &fixed);
    met &= as_fast_as_before(&mut place, &format!("{fixed} speed {}", data.display()));
    place.close()?;
    Ok(met)
}

/// The moves alone that are held against plain TCP; false when the bar was missed.
///
/// # Errors
/// As [`measure`].
pub(crate) fn measure_all_of_it(fixed: &Path) -> Result<bool> {
    let mut place = Place::open(2)?;
    let met = against_plain(&mut place, &fixed.display().to_string());
    place.close()?;
    Ok(met)
}

/// What a program has seen of its move, in milliseconds.
struct Gap {
    /// From its last look at the clock on the old node to its first on the new one.
    still: f64,
    /// The largest between two looks while the command ran: it may have waited for a processor without being moved.
    largest: f64,
}

fn told(name: &str, gaps: Result<Vec<Gap>>, bar: Bar) -> bool {
    let line = |name, figures, bar| print(&Line { name, figure: Spread::of(figures), local: None, unit: "ms", bar });
    match gaps {
        Ok(gaps) => {
            let met = line(name, gaps.iter().map(|gap| gap.still).collect(), bar);
            met & line("  the largest gap while it is moved", gaps.iter().map(|gap| gap.largest).collect(), Bar::None)
        }
        Err(fault) => print_failed(name, &fault.to_string()),
    }
}

/// A program that goes to and fro, as a job of the sandbox's shell; killed when dropped.
struct Traveller<'a> {
    place: &'a mut Place,
    /// Where it goes next.
    to: usize,
    how: &'static str,
}

impl Traveller<'_> {
    fn start<'a>(place: &'a mut Place, program: &str) -> Result<Traveller<'a>> {
        place.say(&format!("shoal run -n 0 {program} </dev/null & pid=$!"))?;
        let traveller = Traveller { place, to: 1, how: "" };
        match traveller.place.line()? {
            there if there == "there" => Ok(traveller),
            other => Err(Fault::refused(format!("{program} says {other}"))),
        }
    }

    /// What it tells.
    fn ask(&mut self) -> Result<String> {
        self.place.say("kill -USR1 $pid || echo gone")?;
        self.place.line()
    }

    /// Moves it; milliseconds that the command takes, as the sandbox's shell sees it.
    fn go(&mut self) -> Result<f64> {
        let begun = Instant::now();
        self.place.say(&format!("shoal move {} $pid {} && echo moved || echo stays", self.how, self.to))?;
        match self.place.line()? {
            moved if moved == "moved" => {}
            other => return Err(Fault::refused(format!("shoal move: {other}"))),
        }
        self.to = 1 - self.to;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    }

    /// What it sees; `before` is done before each move.
    fn gaps(&mut self, times: usize, before: fn() -> Result<()>) -> Result<Vec<Gap>> {
        let mut once = || {
            before()?;
            self.ask()?;
            self.go()?;
            self.gap()
        };
        (0..times).map(|_| once()).collect()
    }

    /// Of the last move.
    fn gap(&mut self) -> Result<Gap> {
        let line = self.ask()?;
        let (still, largest) = line.split_once(' ').unwrap_or_default();
        match (parse(still)?, parse(largest)?) {
            (still, _) if still <= 0.0 => Err(Fault::refused("it has not seen that it was moved")),
            (still, largest) => Ok(Gap { still, largest }),
        }
    }
}

impl Drop for Traveller<'_> {
    fn drop(&mut self) {
        // The next one finds the place empty, or tells that it is not.
        let _said = self.place.say("kill -9 $pid; wait $pid 2>/dev/null; echo over");
        while self.place.line().is_ok_and(|line| line != "over") {}
    }
}

/// What is large comes when the process runs already.
fn lazily(place: &mut Place, program: &str) -> bool {
    let mut all = Vec::new();
    let gaps = Traveller::start(place, &format!("{program} memory {LARGE} 0")).and_then(|mut one| {
        one.how = "--lazy";
        let mut once = || {
            one.ask()?;
            all.push(one.go()?);
            one.gap()
        };
        (0..TIMES_LARGE).map(|_| once()).collect::<Result<Vec<Gap>>>()
    });
    let met = told("1 GiB moves lazily: to its first instruction", gaps, Bar::Figure(1.5));
    if !all.is_empty() {
        let figure = Spread::of(all);
        print(&Line { name: "  until all of it is there", figure, local: None, unit: "ms", bar: Bar::None });
    }
    met
}

/// From the command to its end, beside as many bytes over a connection between the same nodes; of a program that sleeps, and of one that has one of the
/// processors, which all do with the movers or the connection's ends.
fn against_plain(place: &mut Place, program: &str) -> bool {
    let measured = (|| -> Result<[(Vec<f64>, Vec<f64>); 2]> {
        place.say("shoal nodes | awk '$1 == \"n1\" { sub(/:.*/, \"\", $3); print $3 }'")?;
        let host = place.line()?;
        place.say(&format!("shoal run -n 1 {program} sink {PORT} </dev/null & sink=$!"))?;
        place.line()?;
        let plain = format!("shoal run -n 0 {program} source {host} {PORT} {LARGE}");
        let sleeps = against(place, &format!("{program} asleep {LARGE}"), &plain)?;
        let writes = against(place, &format!("{program} memory {LARGE} 1"), &plain)?;
        place.say("kill -9 $sink; wait $sink 2>/dev/null")?;
        Ok([sleeps, writes])
    })();
    let name = "1 GiB moves, in all; local: plain TCP";
    match measured {
        Ok(both) => {
            let line = |name, (moves, plains): &(Vec<f64>, Vec<f64>), bar| {
                let (figure, local) = (Spread::of(moves.clone()), Some(Local::pairs(moves, plains)));
                print(&Line { name, figure, local, unit: "ms", bar })
            };
            let met = line(name, &both[0], Bar::Ratio(1.0 / LEAST_RATE));
            met & line("  of a busy program, 1 MB/s", &both[1], Bar::None)
        }
        Err(fault) => print_failed(name, &fault.to_string()),
    }
}

/// Moves of this program, each behind a run of the `plain` one: milliseconds of both. Neither is to wait for memory of the host's.
fn against(place: &mut Place, program: &str, plain: &str) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut moves, mut plains) = (Vec::new(), Vec::new());
    let mut traveller = Traveller::start(place, program)?;
    for _ in 0..TIMES_LARGE {
        warm()?;
        plains.push(traveller.place.number(plain)?);
        warm()?;
        moves.push(traveller.go()?);
    }
    Ok((moves, plains))
}

/// What it tells after a move, beside what it told before.
fn as_fast_as_before(place: &mut Place, program: &str) -> bool {
    let names = ["a system call after a move", "memory copied after a move", "a file read after a move"];
    let measured = (|| -> Result<[(Vec<f64>, Vec<f64>); 3]> {
        let mut all = [const { (Vec::new(), Vec::new()) }; 3];
        for _ in 0..PAIRS {
            let mut traveller = Traveller::start(place, program)?;
            let before = figures(&traveller.ask()?)?;
            traveller.go()?;
            let after = figures(&traveller.ask()?)?;
            for (one, (before, after)) in all.iter_mut().zip(before.into_iter().zip(after)) {
                one.0.push(after);
                one.1.push(before);
            }
        }
        Ok(all)
    })();
    let mut met = true;
    match measured {
        Ok(all) => {
            for ((name, unit, per), (after, before)) in
                [(names[0], "ns", 1.0), (names[1], "ms", 1e6), (names[2], "ms", 1e6)].into_iter().zip(all)
            {
                let scaled = |all: Vec<f64>| all.into_iter().map(|one| one / per).collect::<Vec<f64>>();
                let (after, before) = (scaled(after), scaled(before));
                let local = Some(Local::pairs(&after, &before));
                met &= print(&Line { name, figure: Spread::of(after), local, unit, bar: Bar::Ratio(SAME) });
            }
        }
        Err(fault) => met &= names.iter().fold(true, |_, name| print_failed(name, &fault.to_string())),
    }
    met
}

fn figures(line: &str) -> Result<[f64; 3]> {
    let all: Vec<f64> = line.split(' ').map(parse).collect::<Result<_>>()?;
    all.try_into().map_err(|_| Fault::refused(format!("measured {line:?}, which are not three numbers")))
}
