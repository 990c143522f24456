//! Rows of records, and the holds that swaps need.

use std::collections::HashMap;

use bandog_core::{Error, ErrorKind, Holding, Key, Moment, Record, Result, Version};

use crate::{
    fault::Fault,
    row::Row,
    states::{self, StoredState},
};

/// The records in these rows, by name. An error is that of a record that bandog did not write.
pub(crate) fn read_records(rows: &[Row]) -> Result<HashMap<String, Result<Record>>, Fault> {
    let mut records = HashMap::new();
    for row in rows {
        let (name, version, value): (&str, i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let version = u64::try_from(version).ok().and_then(Version::new);
        let version = version.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the record has no version"));
        let record = version.and_then(|version| Ok(Record { version, value: text(value)? }));
        records.insert(name.to_owned(), record);
    }
    Ok(records)
}

pub(crate) fn text(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).map(Into::into);
    text.map_err(|cause| Error::new(ErrorKind::Corrupt, "the record has a text that is not UTF-8").caused_by(cause))
}

pub(crate) fn read_locks(rows: &[Row]) -> Result<HashMap<Key, Result<StoredState>>, Fault> {
    let mut locks = HashMap::new();
    for row in rows {
        if let Ok(key) = Key::new(row.try_get::<&str>(0)?) {
            locks.insert(key, states::read(row)?);
        }
    }
    Ok(locks)
}

pub(crate) fn is_held(locks: &HashMap<Key, Result<StoredState>>, holding: &Holding, now: Moment) -> Result<bool> {
    match locks.get(&holding.key) {
        Some(Ok(stored)) => Ok(stored.state.is_held_by(holding.id, now)),
        Some(Err(error)) => Err(error.clone()),
        None => Ok(false),
    }
}
