//! Trails of programs: the files that a program looks for when it starts, as nodes have asked for them. The next node that executes the program is sent them at once, as far as who executes it there may have them.
//!
//! A trail is a guess, and nothing depends on it: paths are walked anew, with the rights of who asks.

use super::inodes::Who;
use crate::line::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Trails at most, steps of one, and programs that are watched at a time.
const TRAILS: usize = 512;
const STEPS: usize = 512;
const WATCHED: usize = 1024;
/// A program is watched so long: what it asks for later depends on what it has to do.
const BEGINNING: Duration = Duration::from_secs(3);
/// Bytes of a path that is noted, at most.
const PATH_MOST: usize = 512;

/// A program's file: device and number.
pub(crate) type Program = (u64, u64);

/// The use of a file by a program. Each includes those before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Use {
    Look,
    Read,
    List,
}

#[derive(Debug, Default)]
struct Trail {
    steps: HashMap<Vec<u8>, Use>,
    order: VecDeque<Vec<u8>>,
}

#[derive(Debug, Default)]
struct All {
    trails: HashMap<Program, Trail>,
    order: VecDeque<Program>,
    /// Processes of nodes, what they execute, and since when.
    watched: HashMap<(Who, u32), (Program, Instant)>,
}

#[derive(Debug, Default)]
pub(crate) struct Trails(Mutex<All>);

impl Trails {
    /// A process executes a program: the steps that others have made with it, in their order. Empty: the process has been given them just now.
    pub(crate) fn begin(&self, process: (Who, u32), program: Program) -> Vec<(Vec<u8>, Use)> {
        let mut all = lock(&self.0);
        let now = Instant::now();
        if all.watched.len() >= WATCHED {
            all.watched.retain(|_, (_, since)| now.duration_since(*since) < BEGINNING);
        }
        if all.watched.len() >= WATCHED {
            return Vec::new();
        }
        let before = all.watched.insert(process, (program, now));
        if before.is_some_and(|(before, since)| before == program && now.duration_since(since) < BEGINNING) {
            return Vec::new();
        }
        let Some(trail) = all.trails.get(&program) else { return Vec::new() };
        trail.order.iter().filter_map(|path| Some((path.clone(), *trail.steps.get(path)?))).collect()
    }

    /// Is this process watched?
    pub(crate) fn watches(&self, process: (Who, u32)) -> bool {
        lock(&self.0).watched.get(&process).is_some_and(|(_, since)| since.elapsed() < BEGINNING)
    }

    /// A process that is watched has asked for this.
    pub(crate) fn note(&self, process: (Who, u32), path: Vec<u8>, what: Use) {
        let all = &mut *lock(&self.0);
        let Some((program, _)) = all.watched.get(&process) else { return };
        if path.len() > PATH_MOST || path.first() != Some(&b'/') {
            return;
        }
        if !all.trails.contains_key(program) {
            all.order.push_back(*program);
            if all.order.len() > TRAILS {
                all.order.pop_front().map(|oldest| all.trails.remove(&oldest));
            }
        }
        let trail = all.trails.entry(*program).or_default();
        if let Some(known) = trail.steps.get_mut(&path) {
            *known = what.max(*known);
            return;
        }
        trail.steps.insert(path.clone(), what);
        trail.order.push_back(path);
        if trail.order.len() > STEPS {
            trail.order.pop_front().map(|oldest| trail.steps.remove(&oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_gets_the_steps_of_the_one_before() {
        let trails = Trails::default();
        let (program, path) = ((1, 7), |name: &str| name.as_bytes().to_vec());
        assert!(trails.begin((1, 10), program).is_empty() && trails.watches((1, 10)) && !trails.watches((2, 10)));
        trails.note((1, 10), path("/a"), Use::Look);
        trails.note((1, 10), path("/b"), Use::List);
        trails.note((1, 10), path("/a"), Use::Read);
        trails.note((1, 10), path("/b"), Use::Look);
        trails.note((2, 10), path("/c"), Use::Read);
        trails.note((1, 10), path("relative"), Use::Read);
        let expected = [(path("/a"), Use::Read), (path("/b"), Use::List)];
        assert_eq!(trails.begin((2, 10), program), expected);
        assert!(trails.begin((2, 10), program).is_empty(), "just now");
        assert!(trails.begin((2, 11), (1, 8)).is_empty(), "another program");
        (0..STEPS).for_each(|step| trails.note((2, 10), path(&format!("/{step}")), Use::Look));
        assert_eq!(trails.begin((2, 12), program).len(), STEPS);
        (0..TRAILS as u64).for_each(|other| {
            trails.begin((3, 1), (2, other));
            trails.note((3, 1), path("/a"), Use::Look);
        });
        assert!(trails.begin((4, 1), program).is_empty(), "the oldest has gone");
    }
}
