//! Maps.

use super::{
    number::{Number, number},
    terms::Map,
};
use crate::{
    Result,
    structures::{Bytes, MapOp, Reply},
};

pub(super) fn apply(map: &mut Map, op: &MapOp) -> Result<Reply> {
    Ok(match op {
        MapOp::Get(fields) => Reply::Options(fields.iter().map(|field| map.get(field).cloned()).collect()),
        MapOp::Put(entries) => {
            map.extend(entries.iter().cloned());
            Reply::Done
        }
        MapOp::Insert(field, value) => Reply::Bytes(map.insert(field.clone(), value.clone())),
        MapOp::InsertNew(field, value) => {
            let is_new = !map.contains_key(field);
            if is_new {
                map.insert(field.clone(), value.clone());
            }
            Reply::Flag(is_new)
        }
        MapOp::Remove(fields) => {
            Reply::Int(fields.iter().filter(|field| map.remove(field.as_slice()).is_some()).count() as i64)
        }
        MapOp::Take(field) => Reply::Bytes(map.remove(field)),
        MapOp::Swap { field, from, to } => {
            let is_equal = map.get(field) == from.as_ref();
            match to {
                Some(to) if is_equal => _ = map.insert(field.clone(), to.clone()),
                None if is_equal => _ = map.remove(field),
                Some(_) | None => {}
            }
            Reply::Flag(is_equal)
        }
        MapOp::Add(field, by) => add(map, field, *by)?,
        MapOp::AddFloat(field, by) => add(map, field, *by)?,
        MapOp::Len => Reply::Int(map.len() as i64),
    })
}

fn add<N: Number>(map: &mut Map, field: &Bytes, by: N) -> Result<Reply> {
    let sum = number::<N>(map.get(field))?.plus(by)?;
    map.insert(field.clone(), sum.to_string().into_bytes());
    Ok(sum.reply())
}
