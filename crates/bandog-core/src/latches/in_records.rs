//! Latches in records: the default implementations of [`Latches`](crate::Latches).

use std::time::{SystemTime, UNIX_EPOCH};

use super::state::LatchState;
use crate::{
    Error, ErrorKind, Key, LatchAnswer, LatchOperation, LatchRow, Notifier, Pattern, Record, Records, Result,
    Subscription, Swap, Swapped,
};

/// The beginning of the names of the records that have latches.
const PREFIX: &str = "latch/";

/// Maximum number of records that one operation examines, to delete those of latches that are over.
const MAX_CLEARED: usize = 256;

/// Maximum number of records that one request of a list reads.
const MAX_READ: usize = 256;

/// Makes one attempt. `None` if another operation has changed the latch meanwhile.
pub(super) async fn change<R: Records + ?Sized>(
    records: &R,
    operation: &LatchOperation,
) -> Result<Option<LatchAnswer>> {
    let record = record_key(&operation.key)?;
    let (now, present) = read(records, &record).await?;
    let mut state = state(present.as_ref())?;
    let answer = match state.apply(operation, millis(now)) {
        Ok(answer) => answer,
        Err(earlier) => return Ok(Some(earlier)),
    };
    let notifies = answer.has_changed && answer.count == 0;
    let from = present.map(|record| record.version);
    let swap = Swap { notifies, ..Swap::new(record, from, state.to_string()) };
    let mut swaps = records.swap(&[swap]).await.map_err(without_records)?;
    match swaps.each.pop().unwrap_or_else(|| Err(too_few())).map_err(without_records)? {
        Swapped::Done(_) => Ok(Some(answer)),
        Swapped::Differs(_) => Ok(None),
        refused @ (Swapped::Early(_) | Swapped::NotHeld) => {
            let message = format!("the backend refused a swap without conditions: {refused:?}");
            Err(Error::new(ErrorKind::Corrupt, message))
        }
    }
}

pub(super) async fn count<R: Records + ?Sized>(records: &R, key: &Key) -> Result<u64> {
    let (_, present) = read(records, &record_key(key)?).await?;
    Ok(state(present.as_ref())?.count)
}

/// The latches that are not open. Records that no latch has written are skipped.
pub(super) async fn list<R: Records + ?Sized>(records: &R, pattern: &Pattern) -> Result<Vec<LatchRow>> {
    let mut names = match records.names(&pattern.after(PREFIX)).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(Vec::new()),
        names => names?,
    };
    names.sort_unstable();
    let mut rows = Vec::new();
    for names in names.chunks(MAX_READ) {
        let reading = records.read(names, &[]).await?;
        for (key, record) in names.iter().zip(reading.records) {
            let state = record.ok().flatten().and_then(|record| record.value.parse::<LatchState>().ok());
            let Some(count) = state.map(|state| state.count).filter(|count| *count > 0) else { continue };
            let name = key.as_str().strip_prefix(PREFIX).unwrap_or(key.as_str()).to_owned();
            rows.push(LatchRow { name, count });
        }
    }
    Ok(rows)
}

pub(super) async fn subscribe<R: Records + ?Sized>(records: &R, key: &Key, notifier: Notifier) -> Result<Subscription> {
    records.subscribe_record(&record_key(key)?, notifier).await
}

/// Deletes the records of latches that are over. A record of an open latch has to stay until its operations are
/// forgotten, so the operation that opens the latch cannot delete the record.
pub(super) async fn clear<R: Records + ?Sized>(records: &R) -> Result<()> {
    let mut names = match records.names(&Pattern::new(format!("{PREFIX}*"))).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
        names => names?,
    };
    names.truncate(MAX_CLEARED);
    if names.is_empty() {
        return Ok(());
    }
    let reading = records.read(&names, &[]).await?;
    let now = millis(reading.now);
    let over = names.into_iter().zip(reading.records).filter_map(|(name, record)| {
        let record = record.ok().flatten()?;
        let is_over = record.value.parse::<LatchState>().is_ok_and(|state| state.is_over(now));
        is_over.then(|| Swap { to: None, ..Swap::new(name, Some(record.version), "") })
    });
    let over: Vec<Swap> = over.collect();
    if over.is_empty() { Ok(()) } else { records.swap(&over).await.map(drop) }
}

/// Reads a record, and the store's time.
async fn read<R: Records + ?Sized>(records: &R, record: &Key) -> Result<(SystemTime, Option<Record>)> {
    let mut reading = records.read(std::slice::from_ref(record), &[]).await.map_err(without_records)?;
    Ok((reading.now, reading.records.pop().unwrap_or_else(|| Err(too_few()))?))
}

fn state(record: Option<&Record>) -> Result<LatchState> {
    record.map_or_else(|| Ok(LatchState::default()), |record| record.value.parse())
}

/// The name of the record that has this latch.
fn record_key(key: &Key) -> Result<Key> {
    Key::new(format!("{PREFIX}{key}"))
}

/// The time in whole milliseconds since 1970.
fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Changes the message of an error if the backend has no records.
fn without_records(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unsupported => Error::new(ErrorKind::Unsupported, "this backend has no latches"),
        _ => error,
    }
}

fn too_few() -> Error {
    Error::new(ErrorKind::Corrupt, "the backend returned fewer answers than requests").ambiguous()
}
