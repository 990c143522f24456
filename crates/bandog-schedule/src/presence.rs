//! Which jobs the live nodes have. Each distinct set of jobs is one record, which contains their names: most nodes of a
//! cluster have the same jobs. The entry of a node ([`crate::nodes`]) names its set.
//!
//! The records only inform operators. The scheduler makes no decision from them.

use std::collections::{BTreeSet, HashSet};

use bandog_core::{Holding, Key, Record, Records, Result, Swap, Swapped};
use bandog_sync::Client;

use crate::{
    Presence,
    records::{BATCH, single_answer},
};

/// Maximum length of all names of a set, in bytes. A node with more jobs does not report them.
const MAX_NAMES: usize = 256 * 1024;
/// Maximum number of attempts to write a record that other nodes change at the same time.
const ATTEMPTS: usize = 8;

/// The jobs of one node that are in the store.
#[derive(Debug)]
pub(crate) struct JobNames {
    /// The id of the set: a hash of its text.
    pub(crate) set: String,
    /// The names, sorted, as a JSON array.
    text: String,
}

impl JobNames {
    /// None if the names are too long for one record.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        // Some services have a million jobs, which would take long to sort.
        if names.clone().map(str::len).sum::<usize>() > MAX_NAMES {
            return None;
        }
        let text = serde_json::to_string(&names.collect::<BTreeSet<_>>()).ok()?;
        Some(Self { set: format!("{:016x}", hash(&text)), text })
    }

    /// Writes the record of this set. A record that exists gets a new version, so that a node that is about to delete it
    /// does not succeed.
    pub(crate) async fn write(self, client: &Client) -> Result<()> {
        let key = key(&self.set)?;
        let mut present = single_answer(client.records().read(std::slice::from_ref(&key), &[]).await?.records)?;
        for _ in 0..ATTEMPTS {
            let swap = Swap::new(key.clone(), present.map(|record| record.version), self.text.clone());
            match single_answer(client.records().swap(&[swap]).await?.each)? {
                // Another node has deleted the record in between, or has written it and may delete it later.
                Swapped::Differs(other) => present = other,
                Swapped::Done(_) | Swapped::Early(_) | Swapped::NotHeld => break,
            }
        }
        Ok(())
    }
}

/// The records of these sets, as they are now. They are deleted after the list of nodes has been written without them.
pub(crate) async fn obsolete(client: &Client, sets: BTreeSet<&String>) -> Result<Vec<(Key, Record)>> {
    let keys = sets.into_iter().map(|set| key(set)).collect::<Result<Vec<Key>>>()?;
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let records = client.records().read(&keys, &[]).await?.records;
    Ok(keys.into_iter().zip(records).filter_map(|(key, record)| Some((key, record.ok()??))).collect())
}

/// Deletes the records of these sets, except those that a node has written in the meantime.
pub(crate) async fn delete(client: &Client, sets: Vec<(Key, Record)>) -> Result<()> {
    let swaps: Vec<Swap> =
        sets.into_iter().map(|(key, record)| Swap { to: None, ..Swap::new(key, Some(record.version), "") }).collect();
    if swaps.is_empty() { Ok(()) } else { client.records().swap(&swaps).await.map(drop) }
}

/// The jobs of all live nodes.
#[derive(Debug)]
pub(crate) struct LiveJobs {
    /// Whether a node is up.
    has_node: bool,
    /// Whether a live node has not reported its jobs, because it has an older version or too many jobs.
    is_partial: bool,
    names: HashSet<String>,
}

impl LiveJobs {
    /// `sessions`: the session and the set of each registered node, also of those that are dead.
    pub(crate) async fn read(client: &Client, sessions: &[(Holding, Option<String>)]) -> Result<Self> {
        let (mut live, mut sets) =
            (Self { has_node: false, is_partial: false, names: HashSet::new() }, BTreeSet::new());
        for some in sessions.chunks(BATCH) {
            let holdings: Vec<Holding> = some.iter().map(|(holding, _)| holding.clone()).collect();
            let held = client.records().read(&[], &holdings).await?.held;
            for (_, set) in some.iter().zip(held).filter(|(_, held)| matches!(held, Ok(true))).map(|(node, _)| node) {
                live.has_node = true;
                live.is_partial |= set.is_none();
                sets.extend(set.clone());
            }
        }
        let keys = sets.iter().map(|set| key(set)).collect::<Result<Vec<Key>>>()?;
        for some in keys.chunks(BATCH) {
            for record in client.records().read(some, &[]).await?.records {
                let text = record.ok().flatten().map(|record| record.value);
                match text.and_then(|text| serde_json::from_str::<Vec<String>>(&text).ok()) {
                    Some(names) => live.names.extend(names),
                    None => live.is_partial = true,
                }
            }
        }
        Ok(live)
    }

    /// Whether a live node has this job.
    pub(crate) fn presence(&self, job: &str) -> Presence {
        match self {
            Self { has_node: false, .. } => Presence::NoNode,
            _ if self.names.contains(job) => Presence::Present,
            Self { is_partial: true, .. } => Presence::Unknown,
            _ => Presence::Absent,
        }
    }
}

fn key(set: &str) -> Result<Key> {
    Key::new(format!("schedule/jobs/{set}"))
}

/// The hash FNV-1a: all versions of bandog compute the same one.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
