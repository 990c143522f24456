//! Lists.

use super::terms::{List, index, range};
use crate::structures::{Bytes, End, ListOp, Reply};

/// Adds elements at an end, one after the other.
pub(super) fn push(list: &mut List, end: End, elements: &[Bytes]) -> Reply {
    for element in elements {
        match end {
            End::Front => list.push_front(element.clone()),
            End::Back => list.push_back(element.clone()),
        }
    }
    Reply::Int(list.len() as i64)
}

pub(super) fn apply(list: &mut List, op: &ListOp) -> Reply {
    match op {
        ListOp::Push { end, elements, .. } => push(list, *end, elements),
        ListOp::Insert(at, element) => {
            let at = usize::try_from(*at).ok().filter(|at| *at <= list.len());
            if let Some(at) = at {
                list.insert(at, element.clone());
            }
            Reply::Flag(at.is_some())
        }
        ListOp::Get(at) => Reply::Bytes(index(list.len(), *at).and_then(|at| list.get(at).cloned())),
        ListOp::Set(at, element) => {
            let former = index(list.len(), *at).and_then(|at| list.get_mut(at));
            Reply::Bytes(former.map(|former| std::mem::replace(former, element.clone())))
        }
        ListOp::RemoveAt(at) => Reply::Bytes(index(list.len(), *at).and_then(|at| list.remove(at))),
        ListOp::Remove(element, at_most) => {
            let limit = if *at_most == 0 { usize::MAX } else { *at_most as usize };
            let mut removed = 0;
            list.retain(|other| {
                let is_removed = other == element && removed < limit;
                removed += usize::from(is_removed);
                !is_removed
            });
            Reply::Int(removed as i64)
        }
        ListOp::Slice(from, to) => Reply::List(list.range(range(list.len(), *from, *to)).cloned().collect()),
        ListOp::Trim(from, to) => {
            let kept = range(list.len(), *from, *to);
            list.truncate(kept.end);
            list.drain(..kept.start);
            Reply::Done
        }
        ListOp::Position(element) => Reply::Index(list.iter().position(|other| other == element).map(|at| at as u64)),
        ListOp::Len => Reply::Int(list.len() as i64),
    }
}
