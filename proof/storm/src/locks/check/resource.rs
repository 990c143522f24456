//! Simulates the resource that a lock protects. The resource refuses a write whose fence is smaller than the greatest
//! fence so far.
//!
//! All processes append their writes to one file, the log of the resource. The kernel decides the order of the lines in
//! this file. So these checks know the order of the writes without a clock.

use std::collections::{BTreeMap, HashMap};

use super::{Call, Findings, History, Name, excuse::Excuses};
use crate::{
    locks::{history::ResourceWrite, share::Share},
    plan::GREATER_LIMIT,
};

const STALE: &str = "no holder is overtaken while it believes that it holds the lock";
const SHARED: &str = "a fence belongs to one holder";

/// Simulates the resource that the lock with this name protects, and checks the writes to the resource.
pub(super) fn check(history: &History, excuses: &Excuses, name: usize, findings: &mut Findings) {
    // For each share, the write with the greatest fence so far.
    let mut greatest: BTreeMap<Share, ResourceWrite> = BTreeMap::new();
    // The first write with each fence.
    let mut first: HashMap<u64, ResourceWrite> = HashMap::new();
    // Number of writes of each call so far.
    let mut written: HashMap<(u32, u64), u32> = HashMap::new();
    for entry in &history.resources[name] {
        findings.count("writes to resources", 1);
        let count = written.entry((entry.client, entry.call)).or_default();
        *count += 1;
        let Some(writer) = history.find(entry.client, entry.call) else { continue };
        let first = first.entry(entry.fence).or_insert(*entry);
        if let Some(other) = history.find(first.client, first.call).filter(|other| !may_share(writer, other)) {
            findings.broken_at(
                SHARED,
                &Name(name),
                at(writer),
                format!("{writer} and {other} wrote with the same fence"),
            );
        }
        let others = greatest.iter().filter(|(share, _)| writer.share.conflicts(**share, GREATER_LIMIT));
        let before = others.map(|(_, before)| *before).max_by_key(|before| before.fence);
        let same = greatest.entry(writer.share).or_insert(*entry);
        if same.fence < entry.fence {
            *same = *entry;
        }
        let Some(before) = before.filter(|before| before.fence > entry.fence) else { continue };
        let Some(overtaker) = history.find(before.client, before.call) else { continue };
        findings.count("writes refused because of an old fence", 1);
        // Whether it is certain that the writer believed at this write that it held the lock. This is certain for the
        // first `sure_writes` writes of a call, because the writer checked its guard after these writes, and the check
        // found the lock held.
        let sure = writer.grant.as_ref().is_some_and(|grant| grant.sure_writes >= *count);
        if sure && excuses.find(writer, overtaker, end(writer)).is_none() {
            let what = format!("{writer} wrote after {overtaker}, and still believed that it held the lock");
            findings.broken_at(STALE, &Name(name), at(writer), what);
        }
    }
}

/// Whether two writers are allowed to have the same fence. The readers of one client can share a hold and its fence.
fn may_share(one: &Call, other: &Call) -> bool {
    let are_readers = one.share == Share::Read && other.share == Share::Read;
    one.client == other.client && (one.id == other.id || are_readers)
}

/// The time that the report gives for a violation by this call.
fn at(call: &Call) -> u64 {
    call.answered_at().unwrap_or(call.asked)
}

/// The end of the time span in which this call certainly believed that it held the lock. If there is no such span, the
/// start of the call.
fn end(call: &Call) -> u64 {
    call.belief().map_or(call.asked, |(_, to)| to)
}
