//! Pauses of all jobs and of nodes. A single record contains all of these pauses, and nodes read this record with each
//! poll.
//!
//! A pause of all jobs is stored both in this record and in each job's record. This record makes the pause apply to
//! jobs that are registered later. The write to a job's record gives that record a new version. So if a node has
//! planned a claim of the job before the pause, the store refuses the claim.

use std::collections::BTreeMap;

use bandog_core::{Error, ErrorKind, Key, Record, Result, Version};
use serde::{Deserialize, Serialize};

use crate::{Paused, trigger::UnixMs};

/// The pauses of all jobs and of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredPauses {
    #[serde(default)]
    pub(crate) all: AllJobsPause,
    /// The pauses of nodes, by the name of the node or of its machine.
    #[serde(default)]
    pub(crate) nodes: BTreeMap<String, Paused>,
}

/// The last pause or resume of all jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AllJobsPause {
    /// Number of the pause or resume. Each pause or resume has a greater number than all earlier ones. The pause or
    /// resume with the greatest number is in effect. 0 means that there was never a pause of all jobs.
    pub(crate) number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// The pause, or none after a resume.
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
    /// Parses the record. If there is no record, nothing is paused.
    pub(crate) fn of(record: Option<&Record>) -> Result<Self> {
        let Some(record) = record else { return Ok(Self::default()) };
        serde_json::from_str(&record.value).map_err(|source| {
            let message = "this version cannot read it; resuming all jobs replaces it";
            let error = Error::new(ErrorKind::Corrupt, message).during("read");
            pauses_key().map_or_else(|other| other, |key| error.at(&key)).caused_by(source)
        })
    }

    pub(crate) fn write(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|source| Error::new(ErrorKind::Corrupt, "the pauses cannot be written").caused_by(source))
    }

    /// The pause of this node or of its machine, if there is one.
    pub(crate) fn of_node(&self, node: &str) -> Option<&Paused> {
        let machine = node.rsplit_once(':').map(|(machine, _)| machine);
        self.nodes.get(node).or_else(|| self.nodes.get(machine?))
    }
}

impl AllJobsPause {
    /// The next pause or resume. `paused`: the pause, or none for a resume. The number of the result is at least the
    /// present time in microseconds. So the number is greater than all earlier numbers even if the store has lost the
    /// record.
    pub(crate) fn next(&self, paused: Option<Paused>, now: UnixMs) -> Self {
        let number = (self.number + 1).max(u64::try_from(now.saturating_mul(1000)).unwrap_or(0));
        Self { number, paused }
    }
}

/// The key of the record of pauses.
pub(crate) fn pauses_key() -> Result<Key> {
    Key::new("schedule/paused")
}
