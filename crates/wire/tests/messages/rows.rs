//! What is shown of nodes and processes, and what is changed of nodes.

use super::nouns::{bytes, node, pid};
use minicbor::bytes::ByteVec;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wire::ask::{NodeRow, ProcRow};
use wire::feed::Happening;
use wire::log::{LogPiece, LogPlace, LogWanted};
use wire::look::{Explained, File, Look, Needs, Outlook, Progress, Why};
use wire::nodes::{Chore, NodeChange, NodeInfo, Power};

pub(super) fn proc_row() -> BoxedStrategy<ProcRow> {
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

pub(super) fn node_row() -> BoxedStrategy<NodeRow> {
    let who = (node(), ".{0,9}", ".{0,9}");
    let what = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>(), 0f32..1e6, (any::<[u32; 3]>(), "[a-z]{0,9}"));
    let build = |((node, state, address), (processes, cores, memory, memory_free, load, (ids, name))): (
        _,
        (_, _, _, _, _, ([u32; 3], _)),
    )| NodeRow {
        node,
        state,
        address,
        processes,
        cores,
        memory,
        memory_free,
        load,
        uid: ids[0],
        gid: ids[1],
        mode: ids[2],
        name,
    };
    (who, what).prop_map(build).boxed()
}

pub(super) fn node_info() -> BoxedStrategy<NodeInfo> {
    let attribute = (".{0,9}", bytes().prop_map(ByteVec::from));
    let who = (node(), ".{0,9}", any::<[u32; 3]>());
    let what = ((".{0,9}", "[a-z]{0,9}"), any::<[i64; 2]>(), vec(attribute, 0..3));
    let parts = (who, what);
    let build =
        |((node, state, ids), ((address, name), times, attributes)): ((_, _, [u32; 3]), (_, [i64; 2], _))| NodeInfo {
            node,
            state,
            uid: ids[0],
            gid: ids[1],
            mode: ids[2],
            address,
            atime: times[0],
            mtime: times[1],
            attributes,
            name,
        };
    parts.prop_map(build).boxed()
}

fn power() -> impl Strategy<Value = Power> {
    proptest::sample::select(vec![Power::Reboot, Power::Halt, Power::PowerOff])
}

pub(super) fn chore() -> impl Strategy<Value = Chore> {
    prop_oneof![power().prop_map(Chore::Power), bytes().prop_map(Chore::Chroot)]
}

pub(super) fn node_change() -> impl Strategy<Value = NodeChange> {
    use NodeChange as C;
    let attribute = (".{0,9}", option::of(bytes().prop_map(ByteVec::from)));
    prop_oneof![
        ".{0,9}".prop_map(C::State),
        any::<u32>().prop_map(C::Owner),
        any::<u32>().prop_map(C::Group),
        any::<u32>().prop_map(C::Mode),
        attribute.prop_map(|(name, value)| C::Attribute { name, value }),
        power().prop_map(C::Power),
        bytes().prop_map(C::Chroot),
    ]
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

pub(super) fn progress() -> impl Strategy<Value = Progress> {
    any::<(u64, u64, u32)>().prop_map(|(sent, of, round)| Progress { sent, of, round })
}

pub(super) fn needs() -> BoxedStrategy<Needs> {
    let file = (bytes(), option::of(any::<(u64, u64)>())).prop_map(|(path, same)| File { path, same });
    let huge = vec((any::<u64>(), any::<u64>()), 0..3);
    (bytes(), vec(file, 0..3), huge).prop_map(|(cpu, files, huge)| Needs { cpu, files, huge }).boxed()
}

pub(super) fn look() -> impl Strategy<Value = Look> {
    let parts = (outlook(), vec(".{0,20}", 0..3), needs());
    parts.prop_map(|(outlook, obstacles, needs)| Look { outlook, obstacles, needs })
}

pub(super) fn explained() -> impl Strategy<Value = Explained> {
    let parts = (pid(), node(), node(), outlook(), vec(".{0,20}", 0..3));
    parts.prop_map(|(pid, from, to, outlook, obstacles)| Explained { pid, from, to, outlook, obstacles })
}

pub(super) fn happening() -> impl Strategy<Value = Happening> {
    use Happening as H;
    prop_oneof![
        Just(H::Listening),
        (pid(), node(), node()).prop_map(|(pid, from, to)| H::Begun { pid, from, to }),
        (pid(), node(), node()).prop_map(|(pid, from, to)| H::Moved { pid, from, to }),
        (pid(), node(), node(), ".{0,20}").prop_map(|(pid, from, to, why)| H::Stayed { pid, from, to, why }),
        (node(), ".{0,9}").prop_map(|(node, state)| H::Node { node, state }),
        node().prop_map(|node| H::Changed { node }),
    ]
}

fn log_place() -> impl Strategy<Value = LogPlace> {
    any::<(u64, u64)>().prop_map(|(file, at)| LogPlace { file, at })
}

pub(super) fn log_wanted() -> impl Strategy<Value = LogWanted> {
    prop_oneof![any::<u32>().prop_map(LogWanted::Last), log_place().prop_map(LogWanted::After)]
}

pub(super) fn log_piece() -> impl Strategy<Value = LogPiece> {
    let parts = (bytes(), log_place(), any::<bool>(), any::<bool>());
    parts.prop_map(|(lines, place, gap, more)| LogPiece { lines, place, gap, more })
}
