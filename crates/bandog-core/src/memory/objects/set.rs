//! Sets.

use super::terms::{Set, random};
use crate::structures::{Bytes, Reply, SetOp};

pub(super) fn apply(set: &mut Set, op: &SetOp) -> Reply {
    let count = |members: &[Bytes], mut change: Box<dyn FnMut(&Bytes) -> bool + '_>| {
        Reply::Int(members.iter().filter(|member| change(member)).count() as i64)
    };
    match op {
        SetOp::Insert(members) => count(members, Box::new(|member| set.insert(member.clone()))),
        SetOp::Remove(members) => count(members, Box::new(|member| set.remove(member))),
        SetOp::Contains(members) => Reply::Flags(members.iter().map(|member| set.contains(member)).collect()),
        SetOp::Random(at_most) => {
            let mut members: Vec<_> = set.iter().cloned().collect();
            let at_most = members.len().min(*at_most as usize);
            for index in 0..at_most {
                let other = index + random(members.len() - index);
                members.swap(index, other);
            }
            members.truncate(at_most);
            Reply::List(members)
        }
        SetOp::Len => Reply::Int(set.len() as i64),
        // Operations on several objects are applied by the functions below.
        SetOp::Combine(..) | SetOp::Move(..) => Reply::Done,
    }
}
