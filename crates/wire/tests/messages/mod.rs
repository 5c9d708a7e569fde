//! Every message of the protocol as proptest strategies, one for each variant under its name. A new variant goes here too
//! (`samples.rs` tells when one is missing).

use minicbor::bytes::ByteVec;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use vocab::{Capabilities, Creds, Exit, Fault, Ids, Kind, NodeId, Pid, Sig, SigInfo};
use wire::ask::{Answer, Ask, Copy, Further, NodeRow, ProcRow};
use wire::entry::Wanted;
use wire::event::{BodyEvent, Person, Usage};
use wire::feed::Happening;
use wire::hello::Hello;
use wire::look::{Explained, File, Look, Needs, Outlook, Progress, Why};
use wire::node::{ChannelTo, KillTarget, Kin, Lease, Load, ToFront, ToNode};
use wire::run::{Caller, Limit, Program, Stdio, Target, Window};
use wire::stream::{Chunk, Stream};
use wire::way::Way;

/// The variants of one message type.
pub(crate) type Variants<T> = Vec<(&'static str, BoxedStrategy<T>)>;

macro_rules! variants {
    ($($name:ident => $strategy:expr),* $(,)?) => { vec![$((stringify!($name), $strategy.boxed())),*] };
}

/// Any variant.
pub(crate) fn any_of<T: Clone + std::fmt::Debug + 'static>(variants: Variants<T>) -> BoxedStrategy<T> {
    proptest::strategy::Union::new(variants.into_iter().map(|(_, strategy)| strategy)).boxed()
}

fn pid() -> BoxedStrategy<Pid> {
    any::<i32>().prop_map(Pid).boxed()
}

fn node() -> BoxedStrategy<NodeId> {
    any::<i32>().prop_map(NodeId).boxed()
}

fn sig() -> BoxedStrategy<Sig> {
    (1u8..=64).prop_map(|n| Sig::new(n).expect("1 to 64")).boxed()
}

fn ids() -> impl Strategy<Value = Ids> {
    any::<[u32; 4]>().prop_map(|[real, effective, saved, fs]| Ids { real, effective, saved, fs })
}

fn creds() -> BoxedStrategy<Creds> {
    (ids(), ids(), vec(any::<u32>(), 0..5)).prop_map(|(uid, gid, groups)| Creds { uid, gid, groups }).boxed()
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    any::<([u64; 2], bool)>().prop_map(|([inheritable, bounding], no_new_privs)| Capabilities {
        inheritable,
        bounding,
        no_new_privs,
    })
}

fn info() -> BoxedStrategy<SigInfo> {
    let parts = (sig(), any::<i32>(), pid(), any::<u32>(), any::<u64>(), any::<Option<u32>>());
    parts.prop_map(|(sig, code, pid, uid, value, count)| SigInfo { sig, code, pid, uid, value, count }).boxed()
}

fn exit() -> BoxedStrategy<Exit> {
    let killed = (sig(), any::<bool>()).prop_map(|(sig, core)| Exit::Killed { sig, core });
    prop_oneof![any::<u8>().prop_map(Exit::Code), killed, Just(Exit::NodeLost)].boxed()
}

fn fault() -> BoxedStrategy<Fault> {
    let kinds = vec![Kind::Gone, Kind::Refused, Kind::Unsupported, Kind::Sys, Kind::Wire, Kind::Bug, Kind::Changed];
    let one = (proptest::sample::select(kinds), ".{0,20}", option::of(node()), any::<i32>())
        .prop_map(|(kind, doing, on, errno)| Fault { kind, doing, on, errno, cause: None });
    let link = |(outer, cause)| Fault { cause: Some(Box::new(cause)), ..outer };
    one.clone().prop_recursive(5, 5, 1, move |inner| (one.clone(), inner).prop_map(link)).boxed()
}

fn bytes() -> BoxedStrategy<Vec<u8>> {
    vec(any::<u8>(), 0..40).boxed()
}

fn strings() -> impl Strategy<Value = Vec<ByteVec>> {
    vec(bytes().prop_map(ByteVec::from), 0..5)
}

fn usage() -> BoxedStrategy<Usage> {
    any::<[u64; 3]>().prop_map(|[user_us, system_us, max_rss_kb]| Usage { user_us, system_us, max_rss_kb }).boxed()
}

fn person() -> BoxedStrategy<Person> {
    (pid(), pid(), pid(), pid(), creds(), bytes())
        .prop_map(|(pid, ppid, pgid, sid, creds, name)| Person { pid, ppid, pgid, sid, creds, name })
        .boxed()
}

fn kin() -> BoxedStrategy<Kin> {
    (person(), node()).prop_map(|(person, node)| Kin { person, node }).boxed()
}

fn lease() -> BoxedStrategy<Lease> {
    (pid(), pid()).prop_map(|(first, last)| Lease { first, last }).boxed()
}

fn load() -> BoxedStrategy<Load> {
    (0f32..1e6, any::<u64>(), any::<u32>(), any::<u64>())
        .prop_map(|(load, memory_free, cores, memory)| Load { load, memory_free, cores, memory })
        .boxed()
}

fn window() -> BoxedStrategy<Window> {
    any::<[u16; 2]>().prop_map(|[rows, columns]| Window { rows, columns }).boxed()
}

fn stream() -> BoxedStrategy<Stream> {
    proptest::sample::select(vec![Stream::In, Stream::Out, Stream::Err]).boxed()
}

fn stdio() -> impl Strategy<Value = Stdio> {
    prop_oneof![Just(Stdio::Pipes), (window(), bytes()).prop_map(|(window, term)| Stdio::Terminal { window, term })]
}

fn target() -> impl Strategy<Value = Target> {
    let nodes = vec(node(), 0..5).prop_map(Target::Nodes);
    prop_oneof![Just(Target::Any), Just(Target::All), any::<u32>().prop_map(Target::Count), nodes]
}

fn limit() -> impl Strategy<Value = Limit> {
    any::<(u32, u64, u64)>().prop_map(|(resource, soft, hard)| Limit { resource, soft, hard })
}

fn program() -> BoxedStrategy<Program> {
    let limits = vec(limit(), 0..4);
    let text = (bytes(), strings(), strings(), bytes());
    let rest = (
        any::<u32>(),
        limits,
        any::<i32>(),
        any::<u64>(),
        stdio(),
        any::<u64>(),
        option::of(capabilities()),
        (option::of(any::<u32>()), vec(pid(), 0..3)),
    );
    let build = |(
        (file, argv, env, cwd),
        (umask, limits, nice, ignored, stdio, blocked, capabilities, (personality, numbers)),
    )| Program {
        file,
        argv,
        env,
        cwd,
        umask,
        limits,
        nice,
        ignored,
        stdio,
        blocked,
        capabilities,
        personality,
        numbers,
    };
    (text, rest).prop_map(build).boxed()
}

fn caller() -> BoxedStrategy<Caller> {
    (pid(), creds(), pid(), pid(), pid())
        .prop_map(|(pid, creds, ppid, pgid, sid)| Caller { pid, creds, ppid, pgid, sid })
        .boxed()
}

fn channel() -> BoxedStrategy<ChannelTo> {
    (".{0,20}", bytes(), bytes(), any::<bool>(), any::<bool>())
        .prop_map(|(address, token, key, program, terminal)| ChannelTo {
            address,
            token,
            key,
            program,
            terminal,
            waits: !terminal,
        })
        .boxed()
}

fn proc_row() -> BoxedStrategy<ProcRow> {
    let who = (pid(), node(), any::<u32>(), any::<char>());
    let what = (any::<u64>(), any::<u64>(), ".{0,20}", pid(), any::<u64>());
    let build = |((pid, node, uid, state), (cpu_ms, rss_kb, command, ppid, birth))| ProcRow {
        pid,
        node,
        uid,
        state,
        cpu_ms,
        rss_kb,
        command,
        ppid,
        birth,
    };
    (who, what).prop_map(build).boxed()
}

fn node_row() -> BoxedStrategy<NodeRow> {
    let who = (node(), ".{0,9}", ".{0,9}");
    let what = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>(), 0f32..1e6);
    let build = |((node, state, address), (processes, cores, memory, memory_free, load))| NodeRow {
        node,
        state,
        address,
        processes,
        cores,
        memory,
        memory_free,
        load,
    };
    (who, what).prop_map(build).boxed()
}

fn outlook() -> impl Strategy<Value = Option<Outlook>> {
    let why = proptest::sample::select(vec![Why::Large, Why::Little, Why::ReadsDirectly]);
    let build = |(why, [own, large, nameless, resident, zero, files]): (Why, [u64; 6])| Outlook {
        why,
        own,
        large,
        nameless,
        resident,
        zero,
        files,
    };
    option::of((why, any::<[u64; 6]>()).prop_map(build))
}

fn progress() -> impl Strategy<Value = Progress> {
    any::<(u64, u64, u32)>().prop_map(|(sent, of, round)| Progress { sent, of, round })
}

fn needs() -> BoxedStrategy<Needs> {
    let file = (bytes(), option::of(any::<(u64, u64)>())).prop_map(|(path, same)| File { path, same });
    let huge = vec((any::<u64>(), any::<u64>()), 0..3);
    (bytes(), vec(file, 0..3), huge).prop_map(|(cpu, files, huge)| Needs { cpu, files, huge }).boxed()
}

fn look() -> impl Strategy<Value = Look> {
    let parts = (outlook(), vec(".{0,20}", 0..3), needs());
    parts.prop_map(|(outlook, obstacles, needs)| Look { outlook, obstacles, needs })
}

fn explained() -> impl Strategy<Value = Explained> {
    let parts = (pid(), node(), node(), outlook(), vec(".{0,20}", 0..3));
    parts.prop_map(|(pid, from, to, outlook, obstacles)| Explained { pid, from, to, outlook, obstacles })
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening as H;
    prop_oneof![
        Just(H::Listening),
        (pid(), node(), node()).prop_map(|(pid, from, to)| H::Begun { pid, from, to }),
        (pid(), node(), node()).prop_map(|(pid, from, to)| H::Moved { pid, from, to }),
        (pid(), node(), node(), ".{0,20}").prop_map(|(pid, from, to, why)| H::Stayed { pid, from, to, why }),
        (node(), ".{0,9}").prop_map(|(node, state)| H::Node { node, state }),
    ]
}

pub(crate) fn asks() -> Variants<Ask> {
    variants! {
        Run => (target(), program()).prop_map(|(target, program)| Ask::Run { target, program: Box::new(program) }),
        Nodes => Just(Ask::Nodes),
        Ps => Just(Ask::Ps),
        Where => pid().prop_map(|pid| Ask::Where { pid }),
        Move => (pid(), node(), any::<[bool; 2]>())
            .prop_map(|(pid, to, [progress, lazy])| Ask::Move { pid, to, progress, lazy }),
        Delivered => (pid(), any::<u32>()).prop_map(|(pid, copy)| Ask::Delivered { pid, copy }),
        Passed => any::<u64>().prop_map(|branch| Ask::Passed { branch }),
        Explain => (pid(), node()).prop_map(|(pid, to)| Ask::Explain { pid, to }),
        Stand => Just(Ask::Stand),
        Feed => Just(Ask::Feed),
        Ghosts => Just(Ask::Ghosts),
        Entries => (any::<u64>(), node(), wanted()).prop_map(|(id, node, wanted)| Ask::Entries { id, node, wanted }),
        Serves => Just(Ask::Serves),
    }
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let entry = (pid(), bytes()).prop_map(|(pid, path)| Wanted::Entry { pid, path });
    let all = (any::<bool>(), vec(".{0,9}", 0..3)).prop_map(|(common, paths)| Wanted::All { common, paths });
    let machine = any::<bool>().prop_map(|processors| Wanted::Machine { processors });
    prop_oneof![all, pid().prop_map(|pid| Wanted::Body { pid }), entry, machine]
}

fn further() -> impl Strategy<Value = Further> {
    (node(), bytes(), any::<u64>(), any::<bool>(), node()).prop_map(|(node, key, branch, program, from)| Further {
        node,
        key,
        branch,
        program,
        from,
    })
}

pub(crate) fn answers() -> Variants<Answer> {
    let copies = vec((node(), bytes(), bytes()).prop_map(|(node, key, token)| Copy { node, key, token }), 0..4);
    let not_started = (any::<u32>(), fault(), any::<u8>());
    variants! {
        Failed => fault().prop_map(Answer::Failed),
        Nodes => vec(node_row(), 0..4).prop_map(Answer::Nodes),
        Ps => (vec(proc_row(), 0..4), vec(node(), 0..2)).prop_map(|(rows, missing)| Answer::Ps { rows, missing }),
        Where => (pid(), node(), any::<u64>()).prop_map(|(pid, node, birth)| Answer::Where { pid, node, birth }),
        Here => Just(Answer::Here),
        Each => vec(node(), 0..4).prop_map(Answer::Each),
        Granted => (".{0,20}", copies).prop_map(|(hold, copies)| Answer::Granted { hold, copies }),
        Channel => (any::<u32>(), option::of(further())).prop_map(|(copy, further)| Answer::Channel { copy, further }),
        NotStarted => not_started.prop_map(|(copy, fault, status)| Answer::NotStarted { copy, fault, status }),
        Ended => (any::<u32>(), exit()).prop_map(|(copy, exit)| Answer::Ended { copy, exit }),
        Stays => any::<(u32, u64)>().prop_map(|(copy, branch)| Answer::Stays { copy, branch }),
        Moved => (pid(), node()).prop_map(|(pid, node)| Answer::Moved { pid, node }),
        Delivered => any::<u32>().prop_map(|copy| Answer::Delivered { copy }),
        Moving => progress().prop_map(Answer::Moving),
        NodeLost => node().prop_map(Answer::NodeLost),
        Home => (any::<u32>(), any::<u64>()).prop_map(|(copy, branch)| Answer::Home { copy, branch }),
        Alongside => (any::<u32>(), any::<u64>()).prop_map(|(copy, branch)| Answer::Alongside { copy, branch }),
        Ghosts => (vec((pid(), node()), 0..3), vec(pid(), 0..3), vec(pid(), 0..3))
            .prop_map(|(stand, gone, others)| Answer::Ghosts { stand, gone, others }),
        Entries => (any::<u64>(), bytes(), any::<bool>(), any::<i32>(), node())
            .prop_map(|(id, found, last, errno, node)| Answer::Entries { id, found, last, errno, node }),
        Explained => explained().prop_map(|explained| Answer::Explained(Box::new(explained))),
        Feed => happening().prop_map(Answer::Feed),
    }
}

fn turn() -> impl Strategy<Value = Option<u64>> {
    option::of(any::<u64>())
}

pub(crate) fn body_events() -> Variants<BodyEvent> {
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
    let told = (pids(), pids(), vec(way(), 0..3), any::<bool>(), pids());
    let here = (vec(lease(), 0..3), vec(person(), 0..3), pids(), any::<u16>(), told);
    let build = |(version, number, load, here)| {
        let (leases, bodies, stand_ins, channel_port, told) = here;
        let (subreapers, starting, ways, more, passes) = told;
        let empty = Hello { version, number, load, leases, bodies, stand_ins, ..Hello::default() };
        ToFront::from(Hello { channel_port, subreapers, starting, ways, more, passes, ..empty })
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
        option::of(creds()),
    );
    let depart = (pid(), ".{0,20}", bytes(), any::<Option<u64>>(), any::<[bool; 2]>(), option::of(creds()));
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
        Arrive => arrive.prop_map(|(person, kin, channel, key, children, lazy, user)| T::Arrive { person, kin, channel, key, children, lazy, user }),
        Depart => depart.prop_map(|(pid, address, key, streams, [progress, lazy], user)| T::Depart { pid, address, key, streams, progress, lazy, user }),
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
