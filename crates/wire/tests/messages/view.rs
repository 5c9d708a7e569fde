//! Messages of the file view, as those of `super`.

use super::nouns::{bytes, fault, node};
use super::Variants;
use proptest::collection::vec;
use proptest::prelude::*;
use wire::view::{Ahead, Stored, ToNode, ToServer};

fn maybe() -> impl Strategy<Value = Option<minicbor::bytes::ByteVec>> {
    proptest::option::of(bytes().prop_map(Into::into))
}

fn stored() -> impl Strategy<Value = Stored> {
    let all = (any::<u64>(), bytes(), vec(".{0,9}", 0..3));
    all.prop_map(|(size, sums, sources)| Stored { size, sums: sums.into(), sources })
}

pub(crate) fn view_asks() -> Variants<ToServer> {
    variants! {
        Hello => (any::<u32>(), bytes(), node(), any::<(bool, u16, bool)>()).prop_map(|(version, session, node, (resumes, port, takes_grants))| ToServer::Hello { version, session: session.into(), node, resumes, port, takes_grants }),
        Ask => (any::<u64>(), vec(any::<u32>(), 0..4), bytes(), vec(any::<u64>(), 0..4), any::<(u64, bool, u8)>(), maybe()).prop_map(|(number, groups, request, done, (own, silent, intent), path)| ToServer::Ask { number, groups, request: request.into(), done, own, silent, path, intent }),
        Kept => any::<[u64; 3]>().prop_map(|[bytes, from_disk, from_nodes]| ToServer::Kept { bytes, from_disk, from_nodes }),
        Noted => (any::<u64>(), vec(any::<u64>(), 0..4)).prop_map(|(one, others)| ToServer::Noted(one, others)),
    }
}

pub(crate) fn view_answers() -> Variants<ToNode> {
    variants! {
        Welcome => any::<bool>().prop_map(ToNode::Welcome),
        Refused => fault().prop_map(ToNode::Refused),
        Answer => (any::<(u64, i32, bool, bool)>(), bytes(), maybe(), maybe(), vec(any::<u64>(), 0..4), vec(any::<u64>(), 0..4), (proptest::option::of(stored()), any::<bool>())).prop_map(|((number, errno, keeps, long), data, attributes, content, silent, plain, (stored, behind))| ToNode::Answer { number, errno, data: data.into(), keeps, long, attributes, content, silent, plain, stored, behind }),
        Notice => (any::<u64>(), any::<i32>(), bytes()).prop_map(|(number, code, body)| ToNode::Notice { number, code, body: body.into() }),
        Ahead => (any::<u64>(), any::<bool>(), vec((bytes(), bytes(), maybe()), 0..3), vec(any::<u64>(), 0..4)).prop_map(|(directory, whole, names, plain)| {
            let names = names.into_iter().map(|(name, entry, link)| Ahead { name: name.into(), entry: entry.into(), link });
            ToNode::Ahead { directory, whole, names: names.collect(), plain }
        }),
        Granted => (any::<(u64, bool)>(), bytes(), maybe(), proptest::option::of(stored())).prop_map(|((node, fresh), attributes, content, stored)| ToNode::Granted { node, fresh, attributes: attributes.into(), content, stored }),
        Listing => (any::<(u64, bool)>(), bytes()).prop_map(|((node, fresh), names)| ToNode::Listing { node, fresh, names: names.into() }),
    }
}
