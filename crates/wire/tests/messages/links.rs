//! What front end and nodes say to each other, and what goes through a channel.

use super::asked::{answers, asks, further, wanted};
use super::nouns::{
    bytes, caller, channel, creds, exit, fault, info, kin, lease, load, node, person, pid, program, sig, stream, usage,
    window,
};
use super::rows::{chore, log_piece, log_wanted, look, needs, proc_row, progress};
use super::{any_of, Variants};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wire::event::BodyEvent;
use wire::hello::Hello;
use wire::node::{KillTarget, ToFront, ToNode};
use wire::stream::Chunk;
use wire::way::Way;

fn turn() -> impl Strategy<Value = Option<u64>> {
    option::of(any::<u64>())
}

fn body_events() -> Variants<BodyEvent> {
    use BodyEvent as E;
    variants! {
        Started => pid().prop_map(|pid| E::Started { pid }),
        Forked => (pid(), pid()).prop_map(|(parent, child)| E::Forked { parent, child }),
        Named => (pid(), bytes()).prop_map(|(pid, name)| E::Named { pid, name }),
        Credentials => (pid(), creds()).prop_map(|(pid, creds)| E::Credentials { pid, creds }),
        Group => (pid(), pid()).prop_map(|(pid, pgid)| E::Group { pid, pgid }),
        Session => pid().prop_map(|pid| E::Session { pid }),
        Stopped => (pid(), sig(), turn()).prop_map(|(pid, sig, turn)| E::Stopped { pid, sig, turn }),
        Continued => (pid(), turn()).prop_map(|(pid, turn)| E::Continued { pid, turn }),
        Exited => (pid(), exit(), usage()).prop_map(|(pid, exit, usage)| E::Exited { pid, exit, usage }),
        Reaped => pid().prop_map(|pid| E::Reaped { pid }),
        Adopted => (pid(), pid()).prop_map(|(pid, ppid)| E::Adopted { pid, ppid }),
        Subreaper => (pid(), any::<bool>()).prop_map(|(pid, on)| E::Subreaper { pid, on }),
    }
}

fn kill_target() -> impl Strategy<Value = KillTarget> {
    let thread = (pid(), pid()).prop_map(|(pid, tid)| KillTarget::Thread { pid, tid });
    prop_oneof![pid().prop_map(KillTarget::Process), thread, pid().prop_map(KillTarget::Group), Just(KillTarget::All)]
}

fn way() -> impl Strategy<Value = Way> {
    let left = (pid(), vec(info(), 0..3), any::<bool>());
    let left = left.prop_map(|(pid, signals, stands)| Way::Left { pid, signals, stands });
    prop_oneof![
        pid().prop_map(Way::Departs),
        pid().prop_map(Way::Leaves),
        left,
        pid().prop_map(Way::Arrived),
        pid().prop_map(Way::Runs)
    ]
}

fn hello() -> impl Strategy<Value = ToFront> {
    let pids = || vec(pid(), 0..3);
    let called = ("[a-z]{0,9}", option::of(vec("@?[a-z]{1,9}", 0..3)));
    let told = (pids(), pids(), vec(way(), 0..3), any::<bool>(), pids(), any::<u64>(), called);
    let here = (vec(lease(), 0..3), vec(person(), 0..3), pids(), any::<u16>(), told);
    let build = |(version, number, load, here)| {
        let (leases, bodies, stand_ins, channel_port, told) = here;
        let (subreapers, starting, ways, more, passes, identity, (name, allow)) = told;
        let empty = Hello { version, number, load, leases, bodies, stand_ins, ..Hello::default() };
        ToFront::from(Hello { channel_port, subreapers, starting, ways, more, passes, identity, name, allow, ..empty })
    };
    (any::<u32>(), option::of(node()), load(), here).prop_map(build)
}

fn kill() -> impl Strategy<Value = ToFront> {
    let parts = (any::<u64>(), pid(), kill_target(), any::<u8>());
    parts.prop_map(|(id, sender, target, sig)| ToFront::Kill { id, sender, target, sig })
}

pub(crate) fn to_front() -> Variants<ToFront> {
    use ToFront as T;
    let events = vec(any_of(body_events()), 0..5);
    let ask = (any::<u64>(), caller(), any_of(asks()));
    variants! {
        Hello => hello(),
        Beat => (any::<u64>(), load()).prop_map(|(sent_us, load)| T::Beat { sent_us, load }),
        Events => (any::<u64>(), events).prop_map(|(batch, events)| T::Events { batch, events }),
        NotStarted => (pid(), fault(), any::<u8>()).prop_map(|(pid, fault, status)| T::NotStarted { pid, fault, status }),
        Signal => (pid(), info(), turn()).prop_map(|(target, info, turn)| T::Signal { target, info, turn }),
        Kill => kill(),
        Ask => ask.prop_map(|(id, caller, ask)| T::Ask { id, caller, ask }),
        StandInGone => pid().prop_map(|pid| T::StandInGone { pid }),
        LeaseWanted => Just(T::LeaseWanted),
        PsDone => (any::<u64>(), vec(proc_row(), 0..4)).prop_map(|(id, rows)| T::PsDone { id, rows }),
        PsBegun => any::<u64>().prop_map(|id| T::PsBegun { id }),
        StandInDone => (pid(), any::<i32>()).prop_map(|(pid, errno)| T::StandInDone { pid, errno }),
        StandInWanted => pid().prop_map(|pid| T::StandInWanted { pid }),
        StandInFollowed => pid().prop_map(|pid| T::StandInFollowed { pid }),
        Arriving => (pid(), any::<u16>()).prop_map(|(pid, port)| T::Arriving { pid, port }),
        Arrived => pid().prop_map(|pid| T::Arrived { pid }),
        NotArrived => (pid(), fault()).prop_map(|(pid, fault)| T::NotArrived { pid, fault }),
        Left => (pid(), vec(info(), 0..3), any::<bool>())
            .prop_map(|(pid, signals, stands)| T::Left { pid, signals, stands }),
        NotLeft => (pid(), fault()).prop_map(|(pid, fault)| T::NotLeft { pid, fault }),
        Runs => pid().prop_map(|pid| T::Runs { pid }),
        Ready => (pid(), any::<bool>()).prop_map(|(pid, streams)| T::Ready { pid, streams }),
        Barrier => any::<u64>().prop_map(|id| T::Barrier { id }),
        Looked => (any::<u64>(), look()).prop_map(|(id, look)| T::Looked { id, look: Box::new(look) }),
        Moving => (pid(), progress()).prop_map(|(pid, progress)| T::Moving { pid, progress }),
        AskerGone => any::<u64>().prop_map(|id| T::AskerGone { id }),
        Branched => any::<u64>().prop_map(|branch| T::Branched { branch }),
        Entries => (any::<u64>(), bytes(), any::<bool>(), any::<i32>())
            .prop_map(|(id, found, last, errno)| T::Entries { id, found, last, errno }),
        Whole => pid().prop_map(|pid| T::Whole { pid }),
        Administered => (any::<u64>(), option::of(fault())).prop_map(|(id, fault)| T::Administered { id, fault }),
        Log => (any::<u64>(), log_piece(), option::of(fault())).prop_map(|(id, piece, fault)| T::Log { id, piece, fault }),
        PassesNoMore => pid().prop_map(|pid| T::PassesNoMore { pid }),
        Suited => (any::<u64>(), vec(".{0,20}", 0..3)).prop_map(|(id, obstacles)| T::Suited { id, obstacles }),
    }
}

fn welcome() -> impl Strategy<Value = ToNode> {
    let parts = (node(), vec(lease(), 0..3), any::<u64>(), any::<u64>(), pid());
    let build =
        |(number, leases, beat_us, life_us, front_top)| ToNode::Welcome { number, leases, beat_us, life_us, front_top };
    parts.prop_map(build)
}

pub(crate) fn to_node() -> Variants<ToNode> {
    use ToNode as T;
    let start = (person(), program(), vec(kin(), 0..4), channel());
    let signal = (pid(), info(), option::of(pid()), turn());
    let answer = (any::<u64>(), any_of(answers()), any::<bool>());
    let arrive = (
        person(),
        vec(kin(), 0..4),
        option::of(channel()),
        bytes(),
        vec(pid(), 0..3),
        any::<bool>(),
        (option::of(creds()), option::of("[a-z]{1,9}")),
    );
    let depart = (pid(), ".{0,20}", bytes(), any::<Option<u64>>(), any::<[bool; 2]>(), option::of(creds()), bytes());
    variants! {
        Welcome => welcome(),
        Refused => fault().prop_map(T::Refused),
        Beat => any::<u64>().prop_map(|sent_us| T::Beat { sent_us }),
        EventsDone => any::<u64>().prop_map(|batch| T::EventsDone { batch }),
        Start => start.prop_map(|(person, program, kin, channel)| T::Start { person, program, kin, channel }),
        Signal => signal.prop_map(|(target, info, thread, turn)| T::Signal { target, info, thread, turn }),
        KillDone => (any::<u64>(), any::<i32>(), vec(pid(), 0..3)).prop_map(|(id, errno, left)| T::KillDone { id, errno, left }),
        Answer => answer.prop_map(|(id, answer, last)| T::Answer { id, answer, last }),
        Ended => (pid(), exit(), usage()).prop_map(|(pid, exit, usage)| T::Ended { pid, exit, usage }),
        Stopped => (pid(), sig(), turn()).prop_map(|(pid, sig, turn)| T::Stopped { pid, sig, turn }),
        Continued => (pid(), turn()).prop_map(|(pid, turn)| T::Continued { pid, turn }),
        Lease => lease().prop_map(T::Lease),
        Ps => any::<u64>().prop_map(|id| T::Ps { id }),
        StandIn => (kin(), vec(kin(), 0..3)).prop_map(|(kin, others)| T::StandIn { kin, others }),
        NoStandIn => (pid(), any::<i32>()).prop_map(|(pid, errno)| T::NoStandIn { pid, errno }),
        BecomeStandIn => (pid(), creds()).prop_map(|(pid, creds)| T::BecomeStandIn { pid, creds }),
        StandInIs => person().prop_map(|person| T::StandInIs { person }),
        Subreaper => (pid(), any::<bool>()).prop_map(|(pid, on)| T::Subreaper { pid, on }),
        Adopt => (kin(), pid(), vec(kin(), 0..3)).prop_map(|(kin, from, others)| T::Adopt { kin, from, others }),
        EventsShown => any::<u64>().prop_map(|batch| T::EventsShown { batch }),
        Arrive => arrive.prop_map(|(person, kin, channel, key, children, lazy, (user, name))| T::Arrive { person, kin, channel, key, children, lazy, user, name }),
        Depart => depart.prop_map(|(pid, address, key, streams, [progress, lazy], user, executes)| T::Depart { pid, address, key, streams, progress, lazy, user, executes }),
        Leave => (pid(), vec(pid(), 0..3)).prop_map(|(pid, children)| T::Leave { pid, children }),
        Stay => pid().prop_map(|pid| T::Stay { pid }),
        Go => person().prop_map(|person| T::Go { person }),
        Abandon => pid().prop_map(|pid| T::Abandon { pid }),
        Forget => pid().prop_map(|pid| T::Forget { pid }),
        Redial => (pid(), channel()).prop_map(|(pid, channel)| T::Redial { pid, channel }),
        RestLost => pid().prop_map(|pid| T::RestLost { pid }),
        Branch => (any::<u64>(), bytes(), any::<u32>(), further()).prop_map(|(id, token, copy, further)| T::Branch { id, token, copy, further }),
        Barrier => (any::<u64>(), pid()).prop_map(|(id, pid)| T::Barrier { id, pid }),
        Look => (any::<u64>(), pid(), any::<bool>(), option::of(creds())).prop_map(|(id, pid, streams, user)| T::Look { id, pid, streams, user }),
        Entries => (any::<u64>(), wanted()).prop_map(|(id, wanted)| T::Entries { id, wanted }),
        Suits => (any::<u64>(), pid(), needs()).prop_map(|(id, pid, needs)| T::Suits { id, pid, needs }),
        Log => (any::<u64>(), log_wanted()).prop_map(|(id, wanted)| T::Log { id, wanted }),
        Administer => (any::<u64>(), chore()).prop_map(|(id, chore)| T::Administer { id, chore }),
    }
}

pub(crate) fn chunks() -> Variants<Chunk> {
    variants! {
        Data => (stream(), bytes()).prop_map(|(stream, bytes)| Chunk::Data { stream, bytes }),
        End => stream().prop_map(|stream| Chunk::End { stream }),
        Credit => (stream(), any::<u32>()).prop_map(|(stream, bytes)| Chunk::Credit { stream, bytes }),
        Broken => stream().prop_map(|stream| Chunk::Broken { stream }),
        Window => window().prop_map(Chunk::Window),
        Ended => Just(Chunk::Ended),
        Wanted => Just(Chunk::Wanted),
        Quiet => any::<(bool, bool)>().prop_map(|(on, polls)| Chunk::Quiet { on, polls }),
        Left => any::<u64>().prop_map(|branch| Chunk::Left { branch }),
        Back => any::<u64>().prop_map(|input| Chunk::Back { input }),
        Recall => Just(Chunk::Recall),
        Again => Just(Chunk::Again),
    }
}
