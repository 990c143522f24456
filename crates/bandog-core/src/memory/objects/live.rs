//! Live objects.

use super::{
    map,
    multimap::Multimap,
    sorted::Sorted,
    table::Objects,
    terms::{Map, overflow},
};
use crate::{
    Error, Key, Moment, Result,
    structures::{Bytes, LiveChange, LiveIndex, LiveIndexKind, LiveOp, MapOp, MultimapOp, Reply, SortedOp, Values},
};

/// Changes an object and its indexes. After an error, nothing has changed.
pub(super) fn apply(objects: &mut Objects, key: &Key, op: &LiveOp, now: Moment) -> Result<Reply> {
    let before = fields_of(objects, key)?;
    for index in &op.indexes {
        must_be_index(objects, index, &op.change, now)?;
    }
    let exists = !before.is_empty();
    let mut after = before.clone();
    let reply = match &op.change {
        LiveChange::Insert(_) if exists => return Ok(Reply::Flag(false)),
        LiveChange::Insert(fields) => {
            after.extend(fields.iter().cloned());
            Reply::Flag(true)
        }
        LiveChange::Write { expected, fields } => {
            if !exists || expected.iter().any(|(field, bytes)| before.get(field) != bytes.as_ref()) {
                return Ok(Reply::Flag(false));
            }
            for (field, bytes) in fields {
                match bytes {
                    Some(bytes) => _ = after.insert(field.clone(), bytes.clone()),
                    None => _ = after.remove(field),
                }
            }
            Reply::Flag(true)
        }
        LiveChange::Add { .. } if !exists => return Ok(Reply::Bytes(None)),
        LiveChange::Add { field, by, min, max } => {
            let sum = map::apply(&mut after, &MapOp::Add(field.clone(), *by))?.int()?;
            if sum < *min || *max < sum {
                return Err(overflow());
            }
            Reply::Bytes(after.get(field).cloned())
        }
        LiveChange::Delete => {
            after.clear();
            Reply::Flag(exists)
        }
    };
    for index in &op.indexes {
        change_index(objects, index, op, (before.get(&index.field), after.get(&index.field)), now)?;
    }
    let change = |map: &mut Map| {
        *map = after;
        Ok(reply)
    };
    objects.with(key, |object| object.change(change))
}

/// The fields of an object.
fn fields_of(objects: &mut Objects, key: &Key) -> Result<Map> {
    let mut fields = Map::new();
    objects.with(key, |object| {
        object.change(|map: &mut Map| {
            fields.clone_from(map);
            Ok(Reply::Done)
        })
    })?;
    Ok(fields)
}

/// An error if the name has other data than the index, or the index cannot have the change.
fn must_be_index(objects: &mut Objects, index: &LiveIndex, change: &LiveChange, now: Moment) -> Result<()> {
    objects.with(&index.key, |object| match index.kind {
        LiveIndexKind::Values if matches!(change, LiveChange::Add { .. }) => {
            Err(Error::misused("an index of values has no sums"))
        }
        LiveIndexKind::Numbers(Some(number)) if number.is_nan() => Err(Error::misused("a score must not be NaN")),
        LiveIndexKind::Numbers(_) => object.change(|_: &mut Sorted| Ok(Reply::Done)).map(|_| ()),
        LiveIndexKind::Values => {
            object.change(|of: &mut Multimap| of.apply(Values::Set, &MultimapOp::Len, now)).map(|_| ())
        }
    })
}

fn change_index(
    objects: &mut Objects,
    LiveIndex { key, kind, .. }: &LiveIndex,
    LiveOp { member, change, .. }: &LiveOp,
    (before, after): (Option<&Bytes>, Option<&Bytes>),
    now: Moment,
) -> Result<()> {
    objects.with(key, |object| match kind {
        LiveIndexKind::Numbers(number) => {
            let number = match change {
                LiveChange::Add { .. } => after.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()),
                LiveChange::Delete => None,
                LiveChange::Insert(_) | LiveChange::Write { .. } => *number,
            };
            let op = match number {
                Some(number) => SortedOp::Insert(vec![(number, member.clone())]),
                None => SortedOp::Remove(vec![member.clone()]),
            };
            object.change(|sorted: &mut Sorted| sorted.apply(&op)).map(|_| ())
        }
        LiveIndexKind::Values => {
            let removed = before.map(|value| MultimapOp::Remove(value.clone(), member.clone()));
            let inserted = after.map(|value| MultimapOp::Insert(value.clone(), member.clone()));
            for op in removed.iter().chain(&inserted) {
                object.change(|of: &mut Multimap| of.apply(Values::Set, op, now))?;
            }
            Ok(())
        }
    })
}
