//! The lease of life: who may take a node for lost, and when (docs/protocol.md, "The control link").
//!
//! A node lives from the moment at which it *sent* the newest beat that came back; the front end counts from the
//! *arrival* of the newest beat, and waits longer by a margin. The beat that came back had arrived before, so on a
//! common clock `sent + life < arrived + life + margin`: the node kills its bodies before the front end declares them
//! dead, whatever was lost or late, whichever direction was cut. No clock is compared with another machine's: only the
//! rates matter, and the margin covers rates that differ by 2.5 % (clocks of machines differ by less than 0.05 %). It
//! also has to cover how late the node's timer and the kill are. A second margin is left to the front end, to end the
//! ghosts within the agreed time: see [`Agreed`].
//!
//! A node's times are microseconds of CLOCK_BOOTTIME (`kern::clock::boottime_us`): a machine that was suspended must see
//! that its time is over. The front end's are of CLOCK_MONOTONIC (`kern::clock::monotonic_us`): a suspension of that machine only lets it
//! wait longer, and the nodes have killed their bodies by then. A connect counts as a beat: `Hello` as [`NodeLife::sent`] and [`FrontWatch::beat_arrived`],
//! `Welcome` as [`NodeLife::returned`].

use std::time::Duration;

/// Beats in the agreed time.
const BEATS: u64 = 10;
/// Margins in the agreed time.
const MARGINS: u64 = 40;
/// Microseconds between two beats at least.
const LEAST_BEAT_US: u64 = 1_000;

/// What follows from the time within which a lost node's processes have to have ended, on it and on the front end,
/// counted from the last that was heard of it. Of a silence, the node survives 85 % of it less what it takes to be heard
/// again, as a beat may have been due when it began: TCP sends again up to a second later (`kern::sock::tcp_tune`), and a
/// front end that has been started again is dialled up to 0.4 s later (`crate::reconnect`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Between two beats.
    pub beat_us: u64,
    /// How long a node lives after it has sent the newest beat that came back: two margins less than the agreed time.
    pub life_us: u64,
    /// After this long without a beat the front end declares it lost: one margin less than the agreed time.
    pub lost_us: u64,
}

/// How many milliseconds a node may acknowledge nothing on a channel before whoever relays its streams gives it up, where the node lives
/// for `life_us`: a quarter longer. A relay whose program runs hears of the loss before, in words; one that is left to the program's descendants only by this.
pub fn channel_patience_ms(life_us: u64) -> u32 {
    u32::try_from(life_us.saturating_mul(5) / 4_000).unwrap_or(u32::MAX).max(LEAST_PATIENCE_MS)
}

/// Twice what TCP waits before it sends again.
const LEAST_PATIENCE_MS: u32 = 2_000;

impl Agreed {
    /// All ends within `lost_after`.
    pub fn within(lost_after: Duration) -> Agreed {
        let agreed_us = u64::try_from(lost_after.as_micros()).unwrap_or(u64::MAX);
        let margin = agreed_us / MARGINS;
        let beat_us = (agreed_us / BEATS).max(LEAST_BEAT_US);
        Agreed { beat_us, life_us: agreed_us - 2 * margin, lost_us: agreed_us - margin }
    }
}

/// The node's side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeLife {
    life_us: u64,
    newest_sent: u64,
    newest_returned: u64,
}

impl NodeLife {
    /// As [`channel_patience_ms`].
    pub fn channel_patience_ms(&self) -> u32 {
        channel_patience_ms(self.life_us)
    }

    /// A node whose `Hello`, sent at `hello_us`, has been answered by `Welcome`, which brings `life_us`.
    pub fn new(hello_us: u64, life_us: u64) -> NodeLife {
        NodeLife { life_us, newest_sent: hello_us, newest_returned: hello_us }
    }

    /// A beat (or, on a new link, a `Hello`) is sent at `now`. The answer to put into it: `now`.
    pub fn sent(&mut self, now: u64) -> u64 {
        self.newest_sent = self.newest_sent.max(now);
        now
    }

    /// The beat that was sent at `sent_us` came back. Older ones than the newest change nothing; nor does a moment at
    /// which nothing can have been sent yet (a peer that errs must not prolong a life).
    pub fn returned(&mut self, sent_us: u64) {
        if sent_us <= self.newest_sent {
            self.newest_returned = self.newest_returned.max(sent_us);
        }
    }

    /// From this moment on the bodies must be dead.
    pub fn expires_at(&self) -> u64 {
        self.newest_returned.saturating_add(self.life_us)
    }

    /// The time is over at `now`.
    pub fn expired(&self, now: u64) -> bool {
        now >= self.expires_at()
    }
}

/// The front end's side, one for each node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrontWatch {
    agreed: Agreed,
    newest: u64,
}

impl FrontWatch {
    /// A node whose `Hello` arrived at `now`; `Welcome` tells it what is agreed.
    pub fn new(now: u64, agreed: Agreed) -> FrontWatch {
        FrontWatch { agreed, newest: now }
    }

    /// A beat arrived at `now`. True: answer it. False: it came after [`FrontWatch::lost_at`]; the node is lost, though
    /// nobody may have noticed yet, and an answer would let it live on.
    #[must_use]
    pub fn beat_arrived(&mut self, now: u64) -> bool {
        let in_time = now < self.lost_at();
        if in_time {
            self.newest = self.newest.max(now);
        }
        in_time
    }

    /// From this moment on the node is lost: its bodies are dead.
    pub fn lost_at(&self) -> u64 {
        self.newest.saturating_add(self.agreed.lost_us)
    }

    /// A beat is overdue at `now`: more than two beats have passed since the last. Only to be shown to people.
    pub fn silent(&self, now: u64) -> bool {
        now > self.newest.saturating_add(self.agreed.beat_us.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOST_AFTER: u64 = 5_000_000;
    const BEAT: u64 = LOST_AFTER / BEATS;

    fn agreed() -> Agreed {
        Agreed::within(Duration::from_micros(LOST_AFTER))
    }

    #[test]
    fn both_ends_are_within_the_agreed_time_and_the_nodes_is_first() {
        for lost_after in [Duration::from_millis(100), Duration::from_secs(5), Duration::from_secs(86400)] {
            let Agreed { beat_us, life_us, lost_us } = Agreed::within(lost_after);
            let whole = lost_after.as_micros() as u64;
            assert!(life_us < lost_us && lost_us < whole, "{lost_after:?}");
            // The last beat before a silence may be this old, and then come back late.
            assert!(life_us - beat_us >= whole / 100 * 85, "{lost_after:?}");
            assert!(u64::from(channel_patience_ms(life_us)) * 1000 > whole, "{lost_after:?}");
        }
    }

    #[test]
    fn only_a_newer_answer_to_what_was_sent_prolongs_a_life() {
        let mut life = NodeLife::new(10, 100);
        assert_eq!(life.expires_at(), 110);
        life.sent(20);
        life.sent(30);
        life.returned(30);
        life.returned(20);
        assert_eq!(life.expires_at(), 130);
        life.returned(31);
        life.returned(u64::MAX);
        assert_eq!(life.expires_at(), 130);
        assert!(!life.expired(129) && life.expired(130));
    }

    #[test]
    fn a_node_falls_silent_then_is_lost_and_stays_so() {
        let mut watch = FrontWatch::new(0, agreed());
        assert!(watch.beat_arrived(BEAT));
        assert!(!watch.silent(3 * BEAT) && watch.silent(3 * BEAT + 1));
        assert_eq!(watch.lost_at(), BEAT + agreed().lost_us);
        assert!(!watch.beat_arrived(watch.lost_at()));
        assert_eq!(watch.lost_at(), BEAT + agreed().lost_us);
    }

    /// What happens to one beat: how late it is sent, and how long either way takes; none: lost.
    #[derive(Clone, Copy, Debug)]
    struct Way {
        jitter: u64,
        there: Option<u64>,
        back: Option<u64>,
    }

    fn way() -> impl Strategy<Value = Way> {
        let delay = || prop_oneof![5 => (0..BEAT / 10).prop_map(Some), 2 => (0..2 * LOST_AFTER).prop_map(Some), 2 => Just(None)];
        (0..BEAT / 2, delay(), delay()).prop_map(|(jitter, there, back)| Way { jitter, there, back })
    }

    /// A machine's clock: where it stood at the true moment 0, and its error of rate in millionths.
    #[derive(Clone, Copy, Debug)]
    struct Clock {
        zero: u64,
        ppm: i64,
    }

    impl Clock {
        fn at(self, moment: u64) -> u64 {
            let drift = i128::from(moment) * i128::from(self.ppm) / 1_000_000;
            (i128::from(self.zero) + i128::from(moment) + drift) as u64
        }

        /// The first true moment at which this clock shows `time`.
        fn when(self, time: u64) -> u64 {
            let (mut low, mut high) = (0, 1 << 50);
            while low < high {
                let middle = (low + high) / 2;
                if self.at(middle) >= time {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            low
        }
    }

    fn clock() -> impl Strategy<Value = Clock> {
        (1u64 << 41..1 << 42, -500i64..500).prop_map(|(zero, ppm)| Clock { zero, ppm })
    }

    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    enum Event {
        Send(usize),
        Arrive(usize),
        Return(usize),
    }

    /// True moments of the kill on the node and of the front end's declaration, when the beats fare as `ways` and from
    /// the moments
    /// `cut_there` and `cut_back` on a direction carries nothing more.
    fn ends(ways: &[Way], node: Clock, front: Clock, hello: u64, cut_there: u64, cut_back: u64) -> (u64, u64) {
        let mut life = NodeLife::new(node.at(0), agreed().life_us);
        let mut watch = FrontWatch::new(front.at(hello), agreed());
        let mut sent = vec![0; ways.len()];
        let mut events: std::collections::BTreeSet<(u64, Event)> = Default::default();
        for (n, way) in ways.iter().enumerate() {
            events.insert((hello + n as u64 * BEAT + way.jitter, Event::Send(n)));
        }
        while let Some((now, event)) = events.pop_first() {
            match event {
                Event::Send(n) if !life.expired(node.at(now)) => {
                    sent[n] = life.sent(node.at(now));
                    let arrival = ways[n].there.map(|delay| now + delay).filter(|_| now < cut_there);
                    events.extend(arrival.map(|at| (at, Event::Arrive(n))));
                }
                Event::Arrive(n) if watch.beat_arrived(front.at(now)) => {
                    let back = ways[n].back.map(|delay| now + delay).filter(|_| now < cut_back);
                    events.extend(back.map(|at| (at, Event::Return(n))));
                }
                Event::Return(n) if !life.expired(node.at(now)) => life.returned(sent[n]),
                _ => {}
            }
        }
        (node.when(life.expires_at()), front.when(watch.lost_at()))
    }

    proptest! {
        #[test]
        fn the_kill_comes_before_the_declaration(
            ways in proptest::collection::vec(way(), 0..60),
            (node, front) in (clock(), clock()),
            hello in 0..LOST_AFTER,
            (cut_there, cut_back) in (0..70 * BEAT, 0..70 * BEAT),
        ) {
            let (killed, declared) = ends(&ways, node, front, hello, cut_there, cut_back);
            prop_assert!(killed < declared, "killed at {killed}, declared lost at {declared}");
        }
    }

    #[test]
    fn a_good_link_keeps_a_node_alive() {
        let ways = [Way { jitter: 0, there: Some(1000), back: Some(1000) }; 50];
        let clock = Clock { zero: 1 << 41, ppm: 0 };
        let (killed, declared) = ends(&ways, clock, clock, 1000, u64::MAX, u64::MAX);
        assert!(killed > 49 * BEAT + agreed().life_us && killed < declared);
        assert!(declared < killed + BEAT);
    }
}
