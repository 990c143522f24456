//! Checks whether one slot of a cluster has a large part of the keys: then one node has them, whatever the number of nodes.
//!
//! No key space is scanned. Random keys of each master show which slots may be that large, and the keys of these are counted.

use std::collections::BTreeMap;

use bandog_core::Finding;
use bandog_redis_net::{Link, reply::text, slot};
use redis::{Pipeline, Value};

use crate::refusal;

/// Number of random keys of each master.
const SAMPLE: usize = 64;
/// Maximum number of slots of each master whose keys are counted.
const COUNTED: usize = 3;
/// Minimum number of keys of a cluster with a finding.
const MIN_KEYS: u64 = 1000;

/// The keys of one master.
#[derive(Debug)]
pub(super) struct Share {
    keys: u64,
    /// The slots that have most of the sampled keys, or the error.
    slots: Result<Vec<Slot>, String>,
}

/// A slot, its number of keys, and one of them.
#[derive(Debug)]
struct Slot {
    number: u16,
    keys: u64,
    example: String,
}

impl Share {
    /// Asks this master, which has this number of keys.
    pub(super) async fn read(link: &Link, keys: u64) -> Self {
        Self { keys, slots: if keys == 0 { Ok(Vec::new()) } else { largest_slots(link).await } }
    }
}

async fn largest_slots(link: &Link) -> Result<Vec<Slot>, String> {
    let mut sample = Pipeline::with_capacity(SAMPLE);
    (0..SAMPLE).for_each(|_| _ = sample.cmd("RANDOMKEY"));
    let mut sampled: BTreeMap<u16, (usize, String)> = BTreeMap::new();
    for reply in checked(link, sample).await? {
        // Keys that are not text belong to other programs, and are not shown.
        let Value::BulkString(key) = &reply else { continue };
        sampled.entry(slot(key)).or_insert_with(|| (0, text(&reply).unwrap_or_default())).0 += 1;
    }
    let mut slots: Vec<_> = sampled.into_iter().collect();
    slots.sort_by_key(|(_, (times, _))| std::cmp::Reverse(*times));
    slots.truncate(COUNTED);
    let mut counts = Pipeline::with_capacity(slots.len());
    slots.iter().for_each(|(slot, _)| _ = counts.cmd("CLUSTER").arg("COUNTKEYSINSLOT").arg(*slot));
    let counts = checked(link, counts).await?;
    let with_count = slots.into_iter().zip(&counts).filter_map(|((number, (_, example)), count)| match count {
        Value::Int(keys) => Some(Slot { number, keys: u64::try_from(*keys).unwrap_or(0), example }),
        _ => None,
    });
    Ok(with_count.collect())
}

/// The replies, or the text of the first error.
async fn checked(link: &Link, pipe: Pipeline) -> Result<Vec<Value>, String> {
    let replies = link.call(pipe).await.map_err(|error| error.to_string())?;
    match replies.iter().find_map(refusal::server_error) {
        Some(error) => Err(refusal::server_text(error)),
        None => Ok(replies),
    }
}

/// The finding about a slot with a quarter of the keys of the cluster or more. None if there is no such slot.
pub(super) fn finding(shares: &[Share]) -> Option<Finding> {
    const SUBJECT: &str = "slot-share";
    let all: u64 = shares.iter().map(|share| share.keys).sum();
    if let Some(error) = shares.iter().find_map(|share| share.slots.as_ref().err()) {
        let cure = "allow this user to run RANDOMKEY and CLUSTER COUNTKEYSINSLOT";
        return Some(Finding::advice(SUBJECT, format!("it could not be checked: {error}"), cure));
    }
    let slots = shares.iter().filter_map(|share| share.slots.as_ref().ok()).flatten();
    let Slot { number, keys, example } = slots.max_by_key(|slot| slot.keys)?;
    (all >= MIN_KEYS && keys * 4 >= all).then(|| {
        let says = format!(
            "the slot {number} has {keys} of the {all} keys of the cluster, such as {example:?}, so one node has them, and \
             further nodes do not help"
        );
        let cure = "use different parts in braces for names that no single call needs: they decide the slot";
        Finding::advice(SUBJECT, says, cure)
    })
}
