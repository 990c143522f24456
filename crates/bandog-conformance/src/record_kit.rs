//! Helper functions of the laws about records.
//!
//! A *record* is a text in the store. A record has a name, a version and a history. A *swap* writes or deletes a
//! record, if the record has a given version. Each swap that writes a record gives the record a new version.

use std::time::Duration;

use bandog_core::{Error, Holding, Key, Line, Record, Records, Swap, Swapped, Version};
use bandog_sync::Client;
use tokio::time;

use crate::kit::{MAX_WAIT, only_answer, within};

/// The name of the record in most laws.
pub(crate) const RECORD: &str = "record";

/// In a law with concurrent writers, the maximum number of attempts to make a swap.
pub(crate) const MAX_ATTEMPTS: usize = 10_000;
/// The pause between a call that got no answer and the repetition of this call.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).expect("the name is not valid")
}

/// A swap that writes this value. Its only condition is that the record has the version `from`. If `from` is `None`,
/// the condition is that the record does not exist.
pub(crate) fn write(name: &str, from: Option<Version>, value: &str) -> Swap {
    Swap::new(key(name), from, value)
}

/// A swap that deletes the record. The condition is the same as for [`write()`].
pub(crate) fn delete(name: &str, from: Option<Version>) -> Swap {
    Swap { to: None, ..write(name, from, "") }
}

/// Returns this swap with one change: it also notifies the subscribers of its record.
pub(crate) fn notifying(swap: Swap) -> Swap {
    Swap { notifies: true, ..swap }
}

/// A line of a record's history. Each line is a text with the name of a place, its *slot*. A history has at most one
/// line for each slot, so a new line replaces the earlier line of the same slot.
pub(crate) fn line(slot: &str, value: &str) -> Line {
    Line { slot: slot.into(), value: value.into() }
}

/// Makes one swap, and returns the store's answer.
pub(crate) async fn swap(client: &Client, swap: Swap) -> Result<Swapped, Error> {
    only_answer(client.records().swap(&[swap]).await?.each)
}

/// Makes a swap that must write the record, and returns the new version. Panics if the record was not written.
pub(crate) async fn must_swap(client: &Client, swap: Swap) -> Result<Version, Error> {
    match self::swap(client, swap).await? {
        Swapped::Done(Some(version)) => Ok(version),
        other => panic!("the record was not written: {other:?}"),
    }
}

/// Reads one record.
pub(crate) async fn get(client: &Client, name: &str) -> Result<Option<Record>, Error> {
    only_answer(client.records().read(&[key(name)], &[]).await?.records)
}

/// Reads a record and its history.
pub(crate) async fn record_and_history(client: &Client, name: &str) -> Result<(Option<Record>, Vec<Line>), Error> {
    Ok((get(client, name).await?, client.records().history(&key(name)).await?))
}

/// Returns true if a holding stands. A holding names a claim and a lock, and the holding stands while this claim holds
/// this lock.
pub(crate) async fn stands(client: &Client, holding: &Holding) -> Result<bool, Error> {
    only_answer(client.records().read(&[], std::slice::from_ref(holding)).await?.held)
}

/// Repeats a swap until the store answers.
pub(crate) async fn swap_until_answered(client: &Client, repeated: &Swap) -> Swapped {
    let repeating = async {
        loop {
            match swap(client, repeated.clone()).await {
                Ok(answer) => return answer,
                Err(error) if error.is_retryable() => time::sleep(RETRY_INTERVAL).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    within(MAX_WAIT, "an answer", repeating).await
}

/// Adds one to the number in the record. The line of `slot` counts the additions of this caller. `before` is the number
/// of additions that this caller made before this call.
pub(crate) async fn add_one(client: &Client, slot: &str, before: u64) -> Result<(), Error> {
    let mut present = get(client, RECORD).await?; // The record that is in the store now.
    for _ in 0..MAX_ATTEMPTS {
        let from = present.as_ref().map(|record| record.version);
        let number: u64 = present.map_or(0, |record| record.value.parse().expect("the record is not a number"));
        let lines = vec![line(slot, &(before + 1).to_string())];
        match swap(client, Swap { lines, ..write(RECORD, from, &(number + 1).to_string()) }).await? {
            Swapped::Done(_) => return Ok(()),
            Swapped::Differs(record) => present = record,
            refused @ (Swapped::Early(_) | Swapped::NotHeld) => {
                panic!("a swap without other conditions was refused: {refused:?}")
            }
        }
    }
    panic!("{MAX_ATTEMPTS} swaps failed, although each began from the version that the previous answer reported")
}

/// Adds one to the number in the record, and notifies the subscribers of the record.
pub(crate) async fn add_one_notifying(client: &Client) -> Result<(), Error> {
    let present = get(client, RECORD).await?;
    let from = present.as_ref().map(|record| record.version);
    let number: u64 = present.map_or(0, |record| record.value.parse().expect("the record is not a number"));
    must_swap(client, notifying(write(RECORD, from, &(number + 1).to_string()))).await.map(drop)
}

/// Reads the number in the record, which is the sum of all additions.
pub(crate) async fn sum(client: &Client) -> Result<u64, Error> {
    Ok(get(client, RECORD).await?.map_or(0, |record| record.value.parse().expect("the record is not a number")))
}
