//! The records of a store in memory.

use std::collections::BTreeMap;

use super::subscribers::Subscribers;
use crate::{Key, Record, Version};

/// All records of a store.
#[derive(Debug, Default)]
pub(super) struct RecordTable {
    /// The records that exist, by their names.
    pub(super) rows: BTreeMap<Key, StoredRecord>,
    /// The greatest version of all records, including deleted records. A new version is always greater than this
    /// version. So a record that is deleted and created again gets a greater version than before, even if the clock has
    /// not advanced in between.
    pub(super) last: Option<Version>,
    pub(super) subscribers: Subscribers,
}

/// A record and its history.
#[derive(Debug)]
pub(super) struct StoredRecord {
    pub(super) record: Record,
    /// The texts of the lines, by the names of their slots.
    pub(super) lines: BTreeMap<String, String>,
}
