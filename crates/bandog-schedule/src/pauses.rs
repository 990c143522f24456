//! Pauses of all jobs and of nodes: one record beside those of the jobs, which nodes read with each look.
//!
//! A pause of all jobs stands here and in each job's record. Here it is for jobs and nodes that come later; there it
//! makes the store refuse every claim that was planned before it.

use std::collections::BTreeMap;

use bandog_core::{Error, ErrorKind, Key, Record, Result, Version};
use serde::{Deserialize, Serialize};

use crate::{Paused, trigger::Ms};

/// What is paused beside single jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standing {
    #[serde(default)]
    pub(crate) all: All,
    /// Nodes by their names, or machines by theirs.
    #[serde(default)]
    pub(crate) nodes: BTreeMap<String, Paused>,
}

/// The last word to all jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct All {
    /// A greater number is a later word, and the latest one counts; 0: nobody ever said one.
    pub(crate) number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<Paused>,
}

/// The record as a node knows it.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// None: it was not there.
    pub(crate) version: Option<Version>,
    pub(crate) standing: Standing,
}

impl Standing {
    /// None where there is no record: nothing was ever paused so.
    pub(crate) fn of(record: Option<&Record>) -> Result<Self> {
        let Some(record) = record else { return Ok(Self::default()) };
        serde_json::from_str(&record.value).map_err(|source| {
            let error = Error::new(
                ErrorKind::Corrupt,
                "the record of pauses is none that this version can read; to resume all jobs begins it anew",
            );
            standing().map_or_else(|other| other, |key| error.at(&key)).caused_by(source)
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

impl All {
    /// The next word; its number rises also where the record of the last one was lost.
    pub(crate) fn next(&self, paused: Option<Paused>, now: Ms) -> Self {
        let number = (self.number + 1).max(u64::try_from(now.saturating_mul(1000)).unwrap_or(0));
        Self { number, paused }
    }
}

/// The record's key.
pub(crate) fn standing() -> Result<Key> {
    Key::new("schedule/paused")
}
