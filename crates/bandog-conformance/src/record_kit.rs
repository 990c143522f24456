//! Helper functions of the laws about records.

use std::time::Duration;

use bandog_core::{Error, Holding, Key, Line, Record, Records, Swap, Swapped, Version};
use tokio::time;

use crate::kit::{MAX_WAIT, one, within};

/// The record that most laws swap.
pub(crate) const RECORD: &str = "record";

/// Maximum number of attempts of a swap in a law with concurrent writers.
pub(crate) const MAX_ATTEMPTS: usize = 10_000;
/// Pause before a call that got no answer is repeated.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).expect("the name is valid")
}

/// A swap that writes this value. Its only condition is the version.
pub(crate) fn write(name: &str, from: Option<Version>, value: &str) -> Swap {
    Swap::new(key(name), from, value)
}

/// A swap that deletes the record. Its only condition is the version.
pub(crate) fn delete(name: &str, from: Option<Version>) -> Swap {
    Swap { to: None, ..write(name, from, "") }
}

/// The same swap, which also notifies the subscribers of its record.
pub(crate) fn notifying(swap: Swap) -> Swap {
    Swap { notifies: true, ..swap }
}

/// A line of a record's history: a text in a named slot. A slot has one line. A new line replaces the line of its slot.
pub(crate) fn line(slot: &str, value: &str) -> Line {
    Line { slot: slot.into(), value: value.into() }
}

/// Makes one swap, and returns its result.
pub(crate) async fn swap(records: &impl Records, swap: Swap) -> Result<Swapped, Error> {
    one(records.swap(&[swap]).await?.each)
}

/// Makes a swap that must succeed, and returns the new version.
pub(crate) async fn done(records: &impl Records, swap: Swap) -> Result<Version, Error> {
    match self::swap(records, swap).await? {
        Swapped::Done(Some(version)) => Ok(version),
        other => panic!("the record was not written: {other:?}"),
    }
}

/// Reads one record.
pub(crate) async fn get(records: &impl Records, name: &str) -> Result<Option<Record>, Error> {
    one(records.read(&[key(name)], &[]).await?.records)
}

/// Reads a record and its history.
pub(crate) async fn record_and_history(
    records: &impl Records,
    name: &str,
) -> Result<(Option<Record>, Vec<Line>), Error> {
    Ok((get(records, name).await?, records.history(&key(name)).await?))
}

/// Whether a holding stands, which means that the claim of the holding holds the lock of the holding.
pub(crate) async fn stands(records: &impl Records, holding: &Holding) -> Result<bool, Error> {
    one(records.read(&[], std::slice::from_ref(holding)).await?.held)
}

/// Repeats a swap until it has an answer.
pub(crate) async fn swap_until_answered(records: &impl Records, repeated: &Swap) -> Swapped {
    let repeating = async {
        loop {
            match swap(records, repeated.clone()).await {
                Ok(answer) => return answer,
                Err(error) if error.is_retryable() => time::sleep(RETRY_INTERVAL).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    within(MAX_WAIT, "an answer", repeating).await
}

/// Adds one to the number in the record. The line of `slot` counts the additions of this caller, and `before` is their
/// number before this call.
pub(crate) async fn add_one(records: &impl Records, slot: &str, before: u64) -> Result<(), Error> {
    let mut present = get(records, RECORD).await?;
    for _ in 0..MAX_ATTEMPTS {
        let from = present.as_ref().map(|record| record.version);
        let number: u64 = present.map_or(0, |record| record.value.parse().expect("a number"));
        let lines = vec![line(slot, &(before + 1).to_string())];
        match swap(records, Swap { lines, ..write(RECORD, from, &(number + 1).to_string()) }).await? {
            Swapped::Done(_) => return Ok(()),
            Swapped::Differs(record) => present = record,
            refused @ (Swapped::Early(_) | Swapped::NotHeld) => panic!("the swap has no condition: {refused:?}"),
        }
    }
    panic!("all {MAX_ATTEMPTS} swaps failed, although each began from the record in the previous answer")
}

/// Adds one to the number in the record, and notifies the subscribers of the record.
pub(crate) async fn add_one_notifying(records: &impl Records) -> Result<(), Error> {
    let present = get(records, RECORD).await?;
    let from = present.as_ref().map(|record| record.version);
    let number: u64 = present.map_or(0, |record| record.value.parse().expect("a number"));
    done(records, notifying(write(RECORD, from, &(number + 1).to_string()))).await.map(drop)
}

/// The number in the record.
pub(crate) async fn sum(records: &impl Records) -> Result<u64, Error> {
    Ok(get(records, RECORD).await?.map_or(0, |record| record.value.parse().expect("a number")))
}
