//! Questions of clients, and their answers.

use super::nouns::{bytes, exit, fault, node, pid, program, target};
use super::rows::{explained, happening, node_change, node_info, node_row, proc_row, progress};
use super::rows::{log_piece, log_wanted};
use super::Variants;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wire::ask::{Answer, Ask, Copy, Further};
use wire::entry::Wanted;

pub(crate) fn asks() -> Variants<Ask> {
    variants! {
        Run => (target(), program()).prop_map(|(target, program)| Ask::Run { target, program: Box::new(program) }),
        Nodes => Just(Ask::Nodes),
        Forget => vec(node(), 0..4).prop_map(Ask::Forget),
        NodeInfos => Just(Ask::NodeInfos),
        ChangeNodes => (vec(node(), 0..4), node_change()).prop_map(|(nodes, change)| Ask::ChangeNodes { nodes, change }),
        Ps => Just(Ask::Ps),
        Where => pid().prop_map(|pid| Ask::Where { pid }),
        Move => (pid(), node(), any::<[bool; 2]>(), bytes())
            .prop_map(|(pid, to, [progress, lazy], executes)| Ask::Move { pid, to, progress, lazy, executes }),
        Delivered => (pid(), any::<u32>()).prop_map(|(pid, copy)| Ask::Delivered { pid, copy }),
        Passed => any::<u64>().prop_map(|branch| Ask::Passed { branch }),
        Explain => (pid(), node()).prop_map(|(pid, to)| Ask::Explain { pid, to }),
        Stand => Just(Ask::Stand),
        Feed => Just(Ask::Feed),
        Ghosts => Just(Ask::Ghosts),
        Entries => (any::<u64>(), node(), wanted()).prop_map(|(id, node, wanted)| Ask::Entries { id, node, wanted }),
        Serves => Just(Ask::Serves),
        Log => (node(), log_wanted()).prop_map(|(node, wanted)| Ask::Log { node, wanted }),
    }
}

pub(super) fn wanted() -> impl Strategy<Value = Wanted> {
    let entry = (pid(), bytes()).prop_map(|(pid, path)| Wanted::Entry { pid, path });
    let all = (any::<bool>(), vec(".{0,9}", 0..3)).prop_map(|(common, paths)| Wanted::All { common, paths });
    let machine = any::<bool>().prop_map(|processors| Wanted::Machine { processors });
    prop_oneof![all, pid().prop_map(|pid| Wanted::Body { pid }), entry, machine]
}

pub(super) fn further() -> impl Strategy<Value = Further> {
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
        NodeInfos => vec(node_info(), 0..4).prop_map(Answer::NodeInfos),
        NodesChanged => Just(Answer::NodesChanged),
        Log => log_piece().prop_map(Answer::Log),
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
