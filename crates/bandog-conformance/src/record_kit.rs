//! Small words that the laws of records are written in.

use bandog_core::{Error, Holding, Key, Line, Record, Records, Swap, Swapped, Version};

use crate::kit::one;

/// The record that most laws swap.
pub(crate) const RECORD: &str = "record";

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).expect("a good name")
}

/// A swap that writes this, without conditions beside the version.
pub(crate) fn write(name: &str, from: Option<Version>, value: &str) -> Swap {
    Swap::new(key(name), from, value)
}

/// A swap that deletes, without conditions beside the version.
pub(crate) fn delete(name: &str, from: Option<Version>) -> Swap {
    Swap { to: None, ..write(name, from, "") }
}

pub(crate) fn line(slot: &str, value: &str) -> Line {
    Line { slot: slot.into(), value: value.into() }
}

/// One swap.
pub(crate) async fn swap(records: &impl Records, swap: Swap) -> Result<Swapped, Error> {
    one(records.swap(&[swap]).await?.each)
}

/// The version that a swap makes that must be done.
pub(crate) async fn done(records: &impl Records, swap: Swap) -> Result<Version, Error> {
    match self::swap(records, swap).await? {
        Swapped::Done(Some(version)) => Ok(version),
        other => panic!("it was not written: {other:?}"),
    }
}

/// One record.
pub(crate) async fn get(records: &impl Records, name: &str) -> Result<Option<Record>, Error> {
    one(records.read(&[key(name)], &[]).await?.records)
}

/// A record and its history.
pub(crate) async fn whole(records: &impl Records, name: &str) -> Result<(Option<Record>, Vec<Line>), Error> {
    Ok((get(records, name).await?, records.history(&key(name)).await?))
}

/// Whether a holding stands.
pub(crate) async fn stands(records: &impl Records, holding: &Holding) -> Result<bool, Error> {
    one(records.read(&[], std::slice::from_ref(holding)).await?.held)
}
