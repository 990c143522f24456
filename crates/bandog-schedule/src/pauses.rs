//! Pauses of all jobs and of nodes: one record, which nodes read with each poll.
//!
//! A pause of all jobs is stored in this record and in each job's record. This record is for jobs and nodes that start
//! later. A job's record changes with the pause, so the store refuses every claim that was planned before the pause.

use std::collections::BTreeMap;

use bandog_core::{Error, ErrorKind, Key, Record, Result, Version};
use serde::{Deserialize, Serialize};

use crate::{Paused, trigger::UnixMs};

/// The pauses of all jobs and of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredPauses {
    #[serde(default)]
    pub(crate) all: AllJobsPause,
    /// By the name of a node or of a machine.
    #[serde(default)]
    pub(crate) nodes: BTreeMap<String, Paused>,
}

/// The last pause or resume of all jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AllJobsPause {
    /// Rises with each pause or resume. The one with the greatest number is in effect. 0: there was none.
    pub(crate) number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<Paused>,
}

/// The record of pauses, as a node knows it.
#[derive(Debug, Default)]
pub(crate) struct KnownPauses {
    /// None if there is no record.
    pub(crate) version: Option<Version>,
    pub(crate) stored: StoredPauses,
}

impl StoredPauses {
    /// Reads the record. Without a record nothing is paused.
    pub(crate) fn of(record: Option<&Record>) -> Result<Self> {
        let Some(record) = record else { return Ok(Self::default()) };
        serde_json::from_str(&record.value).map_err(|source| {
            let error = Error::new(
                ErrorKind::Corrupt,
                "this version cannot read the record of pauses; resuming all jobs replaces it",
            );
            pauses_key().map_or_else(|other| other, |key| error.at(&key)).caused_by(source)
        })
    }

    pub(crate) fn write(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|source| Error::new(ErrorKind::Corrupt, "the pauses cannot be written").caused_by(source))
    }

    /// The pause of this node, or of its machine.
    pub(crate) fn of_node(&self, node: &str) -> Option<&Paused> {
        let machine = node.rsplit_once(':').map(|(machine, _)| machine);
        self.nodes.get(node).or_else(|| self.nodes.get(machine?))
    }
}

impl AllJobsPause {
    /// The next pause or resume. Its number rises even if the store has lost the record.
    pub(crate) fn next(&self, paused: Option<Paused>, now: UnixMs) -> Self {
        let number = (self.number + 1).max(u64::try_from(now.saturating_mul(1000)).unwrap_or(0));
        Self { number, paused }
    }
}

/// The record's key.
pub(crate) fn pauses_key() -> Result<Key> {
    Key::new("schedule/paused")
}
