//! Which waiting jobs start now, and on which nodes. Pure: time and nodes are arguments.

use vocab::NodeId;

/// A job in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: u64,
    /// How many nodes it needs, 1 or more.
    pub(crate) count: usize,
    /// The requested time, in seconds.
    pub(crate) seconds: u64,
}

/// A job that has nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Running {
    /// How many of its nodes other jobs could have after it: those that are up and managed.
    pub(crate) count: usize,
    /// When its requested time is over, in seconds since 1970.
    pub(crate) until: i64,
}

/// All that a decision depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// Seconds since 1970.
    pub(crate) now: i64,
    /// Nodes that are up, managed, and no job's.
    pub(crate) free: Vec<NodeId>,
    /// In the order in which they were submitted.
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) running: Vec<Running>,
    /// How many nodes are managed, up or not. A job that needs more waits, and nobody waits for it.
    pub(crate) managed: usize,
}

/// A job that starts now, on these nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    pub(crate) id: u64,
    pub(crate) nodes: Vec<NodeId>,
}

/// A way to decide.
pub(crate) trait Policy {
    /// Jobs of `view.waiting`, each once, on nodes of `view.free`, each once.
    fn starts(&self, view: &View) -> Vec<Start>;
}

/// First come, first served, with EASY backfill: a later job may start before the first one that must wait if it does not delay that one, all requested
/// times being true.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Easy;

impl Policy for Easy {
    fn starts(&self, view: &View) -> Vec<Start> {
        let mut free = view.free.clone();
        free.sort_unstable();
        let (mut starts, mut running, mut room) = (Vec::new(), view.running.clone(), None);
        for job in view.waiting.iter().filter(|job| job.count <= view.managed) {
            let until = end(view.now, job.seconds);
            let fits = match &mut room {
                None => job.count <= free.len(),
                Some(room) => job.count <= free.len() && backfills(job, until, room),
            };
            if fits {
                let nodes = free.drain(..job.count).collect();
                starts.push(Start { id: job.id, nodes });
                running.push(Running { count: job.count, until });
            } else if room.is_none() {
                room = Some(Room::beside(job, free.len(), &running));
            }
        }
        starts
    }
}

/// Room that the first waiting job leaves to the jobs behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Room {
    /// When it starts at the latest. `None`: nobody knows, since nodes are missing that no job has.
    from: Option<i64>,
    /// So many of the nodes that are free then it does not need.
    spare: usize,
}

impl Room {
    fn beside(head: &Waiting, free: usize, running: &[Running]) -> Room {
        let mut ends = running.to_vec();
        ends.sort_unstable_by_key(|one| one.until);
        let mut there = free;
        for one in &ends {
            there += one.count;
            if there >= head.count {
                // Jobs that end at the same time leave their nodes too.
                let also = ends.iter().filter(|other| other.until <= one.until).map(|other| other.count);
                return Room { from: Some(one.until), spare: free + also.sum::<usize>() - head.count };
            }
        }
        Room { from: None, spare: 0 }
    }
}

/// May this job start beside the first one? The spare nodes that it takes beyond that one's start are taken off.
fn backfills(job: &Waiting, until: i64, room: &mut Room) -> bool {
    match room.from {
        Some(from) if until > from => {
            let fits = job.count <= room.spare;
            room.spare -= if fits { job.count } else { 0 };
            fits
        }
        _ => true,
    }
}

fn end(now: i64, seconds: u64) -> i64 {
    now.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn waiting(jobs: &[(u64, usize, u64)]) -> Vec<Waiting> {
        jobs.iter().map(|&(id, count, seconds)| Waiting { id, count, seconds }).collect()
    }

    /// The jobs that start at second 0.
    fn started(free: i32, running: &[(usize, i64)], jobs: &[(u64, usize, u64)]) -> Vec<u64> {
        let running: Vec<Running> = running.iter().map(|&(count, until)| Running { count, until }).collect();
        let managed = free as usize + running.iter().map(|one| one.count).sum::<usize>();
        let free = (0..free).map(NodeId).collect();
        let view = View { now: 0, free, waiting: waiting(jobs), running, managed };
        Easy.starts(&view).into_iter().map(|start| start.id).collect()
    }

    #[test]
    fn first_come_first_served_while_there_is_room() {
        assert_eq!(started(4, &[], &[(1, 2, 10), (2, 2, 10), (3, 1, 1)]), [1, 2]);
        assert_eq!(started(0, &[(4, 10)], &[(1, 1, 1)]), []);
    }

    #[test]
    fn a_later_job_goes_before_if_it_ends_in_time_or_needs_what_is_spare() {
        // Job 1 needs all four nodes, from second 10 on.
        assert_eq!(started(2, &[(2, 10)], &[(1, 4, 5), (2, 2, 10)]), [2]);
        assert_eq!(started(2, &[(2, 10)], &[(1, 4, 5), (2, 2, 11)]), []);
        // Job 1 needs three: one of the two that are free now is spare, for as long as anybody likes.
        assert_eq!(started(2, &[(2, 10)], &[(1, 3, 5), (2, 1, 99), (3, 1, 99), (4, 1, 10)]), [2, 4]);
    }

    #[test]
    fn nobody_waits_for_a_job_that_no_machine_can_hold() {
        assert_eq!(started(2, &[], &[(1, 3, 5), (2, 2, 5)]), [2]);
    }

    #[test]
    fn who_waits_for_nodes_that_are_down_keeps_nobody_from_the_others() {
        let view = View {
            now: 0,
            free: vec![NodeId(0)],
            waiting: waiting(&[(1, 2, 5), (2, 1, 500)]),
            running: vec![],
            managed: 2,
        };
        assert_eq!(Easy.starts(&view), [Start { id: 2, nodes: vec![NodeId(0)] }]);
    }

    #[derive(Clone, Debug)]
    struct Job {
        at: i64,
        count: usize,
        seconds: u64,
        /// How long it really runs.
        really: u64,
    }

    fn job(nodes: usize) -> impl Strategy<Value = Job> {
        (0i64..50, 1..=nodes, 1u64..30)
            .prop_flat_map(|(at, count, seconds)| (Just((at, count, seconds)), 1..=seconds))
            .prop_map(|((at, count, seconds), really)| Job { at, count, seconds, really })
    }

    /// When the first job would start if nobody but those that run now were there and all ran to their requested ends: second by second.
    fn promise(view: &View) -> Option<(u64, i64)> {
        let head = view.waiting.first()?;
        let free_at = |now: i64| {
            view.free.len() + view.running.iter().filter(|one| one.until <= now).map(|one| one.count).sum::<usize>()
        };
        (view.now..).find(|now| free_at(*now) >= head.count).map(|at| (head.id, at))
    }

    proptest! {
        #[test]
        fn no_node_is_two_jobs_and_the_first_is_never_delayed_and_all_start(
            (nodes, jobs) in (1usize..8).prop_flat_map(|nodes| (Just(nodes), vec(job(nodes), 1..25)))
        ) {
            let mut jobs = jobs;
            jobs.sort_by_key(|job| job.at);
            let mut running: BTreeMap<u64, (Vec<NodeId>, i64, i64)> = BTreeMap::new();
            let mut started: BTreeSet<u64> = BTreeSet::new();
            let mut promised: BTreeMap<u64, i64> = BTreeMap::new();
            let mut now = 0;
            while started.len() < jobs.len() || !running.is_empty() {
                prop_assert!(now < 10_000, "somebody never starts");
                running.retain(|_, (_, _, ends)| *ends > now);
                let held: Vec<NodeId> = running.values().flat_map(|(nodes, _, _)| nodes.clone()).collect();
                let free = (0..nodes as i32).map(NodeId).filter(|node| !held.contains(node)).collect();
                let queue = jobs.iter().enumerate().map(|(id, job)| (id as u64, job));
                let queue = queue.filter(|(id, job)| job.at <= now && !started.contains(id));
                let waiting = queue.map(|(id, job)| Waiting { id, count: job.count, seconds: job.seconds }).collect();
                let until = running.values().map(|(nodes, until, _)| Running { count: nodes.len(), until: *until });
                let view = View { now, free, waiting, running: until.collect(), managed: nodes };
                if let Some((id, at)) = promise(&view) {
                    let first = promised.entry(id).or_insert(at);
                    prop_assert!(at <= *first, "job {} was to start at {} and would at {} now", id, first, at);
                }
                let mut free: BTreeSet<NodeId> = view.free.iter().copied().collect();
                for start in Easy.starts(&view) {
                    let job = &jobs[start.id as usize];
                    prop_assert!(view.waiting.iter().any(|one| one.id == start.id) && started.insert(start.id));
                    prop_assert_eq!(start.nodes.len(), job.count);
                    for node in &start.nodes {
                        prop_assert!(free.remove(node), "{} is somebody else's", node);
                    }
                    if let Some(first) = promised.get(&start.id) {
                        prop_assert!(now <= *first, "job {} was to start at {}, and it is {}", start.id, first, now);
                    }
                    running.insert(start.id, (start.nodes, end(now, job.seconds), end(now, job.really)));
                }
                now += 1;
            }
        }
    }
}
