//! The record of a job: what its user wants, what it has, and how it ends.

use crate::life::{next, Event, State};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vocab::{Creds, Exit, Fault, NodeId};
use wire::jobs::{JobRow, Submission};
use wire::nodes::NodeInfo;

/// See the module. Times are in seconds since 1970.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub(crate) struct Job {
    #[n(0)]
    pub(crate) id: u64,
    /// The submitter, as the kernel said of the connection.
    #[n(1)]
    pub(crate) creds: Creds,
    #[n(2)]
    pub(crate) submission: Submission,
    #[n(3)]
    pub(crate) state: State,
    #[n(4)]
    pub(crate) submitted: i64,
    #[n(5)]
    pub(crate) started: Option<i64>,
    #[n(6)]
    pub(crate) ended: Option<i64>,
    /// The nodes that it has, or had.
    #[n(7)]
    pub(crate) nodes: Vec<Held>,
    #[n(8)]
    pub(crate) exit: Option<Exit>,
    /// Why it was ended, if it has not ended by itself.
    #[n(9)]
    pub(crate) why: String,
}

/// A node of a job, and what it was before.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(crate) struct Held {
    #[n(0)]
    pub(crate) node: NodeId,
    #[n(1)]
    pub(crate) uid: u32,
    #[n(2)]
    pub(crate) gid: u32,
    #[n(3)]
    pub(crate) mode: u32,
    #[n(4)]
    pub(crate) attributes: Vec<(String, ByteVec)>,
}

impl Held {
    pub(crate) fn of(info: &NodeInfo) -> Held {
        let NodeInfo { node, uid, gid, mode, attributes, .. } = info.clone();
        Held { node, uid, gid, mode, attributes }
    }
}

/// Left by a job's keeper when all of the job's processes have ended.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub(crate) struct Status {
    /// How the command has ended. `None`: there was none.
    #[n(0)]
    pub(crate) exit: Option<Exit>,
    /// The requested time was over.
    #[n(1)]
    pub(crate) late: bool,
    /// Why the command could not be started.
    #[n(2)]
    pub(crate) fault: Option<Fault>,
}

impl Job {
    pub(crate) fn uid(&self) -> u32 {
        self.creds.uid.effective
    }

    pub(crate) fn list(&self) -> Vec<NodeId> {
        self.nodes.iter().map(|held| held.node).collect()
    }

    /// When its requested time is over.
    pub(crate) fn until(&self, now: i64) -> i64 {
        let seconds = i64::try_from(self.submission.seconds).unwrap_or(i64::MAX);
        self.started.unwrap_or(now).saturating_add(seconds)
    }

    /// The job after this event.
    pub(crate) fn after(&self, event: Event) -> Job {
        Job { state: next(self.state, event), ..self.clone() }
    }

    /// The same for an end that somebody or something brought about. The first reason counts.
    pub(crate) fn stopped(&self, why: &str) -> Job {
        let mut job = self.after(Event::Stop);
        if job.why.is_empty() && job.state != self.state {
            job.why = why.into();
        }
        job
    }

    /// The same, by what its keeper has left.
    pub(crate) fn finished(&self, status: Status) -> Job {
        let mut job = self.after(Event::Finished);
        let why = match (&status.fault, status.late) {
            (Some(fault), _) => fault.to_string(),
            (None, true) => "time limit".into(),
            (None, false) => String::new(),
        };
        job.exit = status.exit;
        job.why = if job.why.is_empty() { why } else { job.why };
        job
    }

    /// The job when all is over; what was needed to start it is not kept.
    pub(crate) fn over(&self, now: i64) -> Job {
        let mut job = self.after(Event::Returned);
        let Submission { nodes, seconds, name, output, .. } = std::mem::take(&mut job.submission);
        job.submission = Submission { nodes, seconds, name, output, ..Submission::default() };
        job.ended = Some(now);
        job
    }

    /// `waits`: why the job does not start, if that is known.
    pub(crate) fn row(&self, waits: Option<String>) -> JobRow {
        JobRow {
            id: self.id,
            uid: self.uid(),
            name: self.submission.name.clone(),
            state: self.state.word().into(),
            count: self.submission.nodes,
            nodes: self.list(),
            seconds: self.submission.seconds,
            submitted: self.submitted,
            started: self.started,
            ended: self.ended,
            exit: self.exit,
            why: waits.unwrap_or_else(|| self.why.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts() {
        let running = Job { state: State::Running, started: Some(5), ..Job::default() };
        let ending = running.stopped("cancelled").stopped("node n1 lost");
        assert_eq!((ending.state, ending.why.as_str()), (State::Ending, "cancelled"));
        let late = Status { exit: Some(Exit::Code(1)), late: true, fault: None };
        assert_eq!(ending.finished(late.clone()).why, "cancelled");
        let finished = running.finished(late);
        assert_eq!(
            (finished.state, finished.why.as_str(), finished.exit),
            (State::Ending, "time limit", Some(Exit::Code(1)))
        );
        let by_itself = running.finished(Status { exit: Some(Exit::Code(0)), ..Status::default() });
        assert!(by_itself.why.is_empty());
        let over = by_itself.over(9);
        assert_eq!((over.state, over.ended), (State::Over, Some(9)));
        assert_eq!(over.stopped("cancelled"), over);
    }

    #[test]
    fn a_job_without_end_has_no_end_that_overflows() {
        let submission = Submission { seconds: u64::MAX, ..Submission::default() };
        assert_eq!(Job { submission, started: Some(5), ..Job::default() }.until(7), i64::MAX);
    }
}
