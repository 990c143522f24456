//! Operations on several objects.

use super::{
    bits::Bits,
    list,
    table::Objects,
    take,
    terms::{List, Set},
};
use crate::{
    Key, Moment, Result,
    structures::{BitCombine, Bytes, Combine, End, Reply, Source},
};

/// The members of several sets together.
pub(super) fn combine_sets(objects: &mut Objects, how: Combine, key: &Key, others: &[Key]) -> Result<Reply> {
    let mut members = members_of(objects, key)?;
    for other in others {
        let other = members_of(objects, other)?;
        members = match how {
            Combine::Union => members.union(&other).cloned().collect(),
            Combine::Intersection => members.intersection(&other).cloned().collect(),
            Combine::Difference => members.difference(&other).cloned().collect(),
        };
    }
    Ok(Reply::List(members.into_iter().collect()))
}

/// Moves a member to another set.
pub(super) fn move_member(objects: &mut Objects, key: &Key, member: &Bytes, to: &Key) -> Result<Reply> {
    // Both structures are checked before the first change.
    members_of(objects, to)?;
    let mut existed = false;
    objects.with(key, |object| {
        object.change(|set: &mut Set| {
            existed = set.remove(member);
            Ok(Reply::Done)
        })
    })?;
    if existed {
        objects.with(to, |object| {
            object.change(|set: &mut Set| {
                set.insert(member.clone());
                Ok(Reply::Done)
            })
        })?;
    }
    Ok(Reply::Flag(existed))
}

/// The members of a set.
fn members_of(objects: &mut Objects, key: &Key) -> Result<Set> {
    let mut members = Set::new();
    objects.with(key, |object| {
        object.change(|set: &mut Set| {
            members.clone_from(set);
            Ok(Reply::Done)
        })
    })?;
    Ok(members)
}

/// Combines bit sets into the first one.
pub(super) fn combine_bits(objects: &mut Objects, how: BitCombine, key: &Key, others: &[Key]) -> Result<Reply> {
    let others: Vec<Bytes> = others.iter().map(|other| bytes_of(objects, other)).collect::<Result<_>>()?;
    objects.with(key, |object| {
        object.change(|bits: &mut Bits| {
            bits.exists = false; // Without bytes, nothing is left.
            let len = others.iter().map(Vec::len).max().unwrap_or(0).max(bits.bytes.len());
            bits.bytes.resize(len, 0);
            for other in &others {
                for (index, byte) in bits.bytes.iter_mut().enumerate() {
                    let other = other.get(index).copied().unwrap_or(0);
                    match how {
                        BitCombine::And => *byte &= other,
                        BitCombine::Or => *byte |= other,
                        BitCombine::Xor => *byte ^= other,
                    }
                }
            }
            Ok(Reply::Done)
        })
    })
}

/// The bytes of a bit set.
fn bytes_of(objects: &mut Objects, key: &Key) -> Result<Bytes> {
    let mut bytes = Bytes::new();
    objects.with(key, |object| {
        object.change(|bits: &mut Bits| {
            bytes.clone_from(&bits.bytes);
            Ok(Reply::Done)
        })
    })?;
    Ok(bytes)
}

/// Moves elements to another list.
pub(super) fn move_elements(
    objects: &mut Objects,
    key: &Key,
    from: End,
    (to, at): (&Key, End),
    at_most: u32,
    now: Moment,
) -> Result<Reply> {
    // Both structures are checked before the first change.
    objects.with(to, |object| object.change(|_: &mut List| Ok(Reply::Done)))?;
    objects.with(key, |object| take::expire(object, &Source::List(from), now))?;
    // No element is moved twice if both lists are the same.
    let at_most = objects.ready(key).min(at_most.into()) as i64;
    let mut moved = 0;
    while moved < at_most
        && let Some(element) = objects.with(key, |object| take::pop(object, &Source::List(from)))?
    {
        objects.with(to, |object| object.change(|list: &mut List| Ok(list::push(list, at, &[element.bytes]))))?;
        moved += 1;
    }
    Ok(Reply::Int(moved))
}
