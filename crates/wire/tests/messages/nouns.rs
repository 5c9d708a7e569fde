//! What messages are made of.

use minicbor::bytes::ByteVec;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use vocab::{Capabilities, Creds, Exit, Fault, Ids, Kind, NodeId, Pid, Sig, SigInfo};
use wire::event::{Person, Usage};
use wire::files::{Place, View};
use wire::node::{ChannelTo, Kin, Lease, Load};
use wire::run::{Caller, Limit, Program, Stdio, Target, Window};
use wire::stream::Stream;

pub(super) fn pid() -> BoxedStrategy<Pid> {
    any::<i32>().prop_map(Pid).boxed()
}

pub(super) fn node() -> BoxedStrategy<NodeId> {
    any::<i32>().prop_map(NodeId).boxed()
}

pub(super) fn sig() -> BoxedStrategy<Sig> {
    (1u8..=64).prop_map(|n| Sig::new(n).expect("1 to 64")).boxed()
}

fn ids() -> impl Strategy<Value = Ids> {
    any::<[u32; 4]>().prop_map(|[real, effective, saved, fs]| Ids { real, effective, saved, fs })
}

pub(super) fn creds() -> BoxedStrategy<Creds> {
    (ids(), ids(), vec(any::<u32>(), 0..5)).prop_map(|(uid, gid, groups)| Creds { uid, gid, groups }).boxed()
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    any::<([u64; 2], bool)>().prop_map(|([inheritable, bounding], no_new_privs)| Capabilities {
        inheritable,
        bounding,
        no_new_privs,
    })
}

pub(super) fn info() -> BoxedStrategy<SigInfo> {
    let parts = (sig(), any::<i32>(), pid(), any::<u32>(), any::<u64>(), any::<Option<u32>>());
    parts.prop_map(|(sig, code, pid, uid, value, count)| SigInfo { sig, code, pid, uid, value, count }).boxed()
}

pub(super) fn exit() -> BoxedStrategy<Exit> {
    let killed = (sig(), any::<bool>()).prop_map(|(sig, core)| Exit::Killed { sig, core });
    prop_oneof![any::<u8>().prop_map(Exit::Code), killed, Just(Exit::NodeLost)].boxed()
}

pub(super) fn fault() -> BoxedStrategy<Fault> {
    let kinds = vec![Kind::Gone, Kind::Refused, Kind::Unsupported, Kind::Sys, Kind::Wire, Kind::Bug, Kind::Changed];
    let one = (proptest::sample::select(kinds), ".{0,20}", option::of(node()), any::<i32>())
        .prop_map(|(kind, doing, on, errno)| Fault { kind, doing, on, errno, cause: None });
    let link = |(outer, cause)| Fault { cause: Some(Box::new(cause)), ..outer };
    one.clone().prop_recursive(5, 5, 1, move |inner| (one.clone(), inner).prop_map(link)).boxed()
}

pub(super) fn bytes() -> BoxedStrategy<Vec<u8>> {
    vec(any::<u8>(), 0..40).boxed()
}

fn strings() -> impl Strategy<Value = Vec<ByteVec>> {
    vec(bytes().prop_map(ByteVec::from), 0..5)
}

pub(super) fn usage() -> BoxedStrategy<Usage> {
    any::<[u64; 3]>().prop_map(|[user_us, system_us, max_rss_kb]| Usage { user_us, system_us, max_rss_kb }).boxed()
}

pub(super) fn person() -> BoxedStrategy<Person> {
    (pid(), pid(), pid(), pid(), creds(), bytes())
        .prop_map(|(pid, ppid, pgid, sid, creds, name)| Person { pid, ppid, pgid, sid, creds, name })
        .boxed()
}

pub(super) fn kin() -> BoxedStrategy<Kin> {
    (person(), node()).prop_map(|(person, node)| Kin { person, node }).boxed()
}

pub(super) fn lease() -> BoxedStrategy<Lease> {
    (pid(), pid()).prop_map(|(first, last)| Lease { first, last }).boxed()
}

pub(super) fn load() -> BoxedStrategy<Load> {
    (0f32..1e6, any::<u64>(), any::<u32>(), any::<u64>())
        .prop_map(|(load, memory_free, cores, memory)| Load { load, memory_free, cores, memory })
        .boxed()
}

pub(super) fn window() -> BoxedStrategy<Window> {
    any::<[u16; 2]>().prop_map(|[rows, columns]| Window { rows, columns }).boxed()
}

pub(super) fn stream() -> BoxedStrategy<Stream> {
    proptest::sample::select(vec![Stream::In, Stream::Out, Stream::Err]).boxed()
}

fn stdio() -> impl Strategy<Value = Stdio> {
    prop_oneof![Just(Stdio::Pipes), (window(), bytes()).prop_map(|(window, term)| Stdio::Terminal { window, term })]
}

pub(super) fn target() -> impl Strategy<Value = Target> {
    let nodes = vec(node(), 0..5).prop_map(Target::Nodes);
    prop_oneof![Just(Target::Any), Just(Target::All), any::<u32>().prop_map(Target::Count), nodes]
}

fn limit() -> impl Strategy<Value = Limit> {
    any::<(u32, u64, u64)>().prop_map(|(resource, soft, hard)| Limit { resource, soft, hard })
}

fn view() -> impl Strategy<Value = View> {
    prop_oneof![Just(View::Node), Just(View::Front), Just(View::Either)]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        (bytes(), bytes()).prop_map(|(from, to)| Place::Bind { from, to }),
        bytes().prop_map(Place::ReadOnly),
        bytes().prop_map(Place::Empty),
    ]
}

pub(super) fn program() -> BoxedStrategy<Program> {
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
        (option::of(any::<u32>()), vec(pid(), 0..3), option::of(".{0,20}"), option::of(view()), vec(place(), 0..3)),
    );
    let build = |(
        (file, argv, env, cwd),
        (umask, limits, nice, ignored, stdio, blocked, capabilities, (personality, numbers, user, view, places)),
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
        user,
        view,
        places,
    };
    (text, rest).prop_map(build).boxed()
}

pub(super) fn caller() -> BoxedStrategy<Caller> {
    (pid(), creds(), pid(), pid(), pid())
        .prop_map(|(pid, creds, ppid, pgid, sid)| Caller { pid, creds, ppid, pgid, sid })
        .boxed()
}

pub(super) fn channel() -> BoxedStrategy<ChannelTo> {
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
