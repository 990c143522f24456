//! Simulates the resource that a lock protects. The resource refuses a write whose fence is smaller than the greatest
//! fence so far.
//!
//! All processes append their writes to one file, the log of the resource. The kernel decides the order of the lines in
//! this file. So these checks know the order of the writes without a clock.

use std::collections::HashMap;

use super::{Call, Findings, History, excuse::Excuses};
use crate::history::ResourceWrite;

const STALE: &str = "no holder is overtaken while it believes that it holds the lock";
const SHARED: &str = "a fence belongs to one holder";

/// Simulates the resource that the lock with this name protects, and checks the writes to the resource.
pub(super) fn check(history: &History, excuses: &Excuses, name: usize, findings: &mut Findings) {
    // The write with the greatest fence so far.
    let mut greatest: Option<ResourceWrite> = None;
    // Number of writes of each call so far.
    let mut written: HashMap<(u32, u64), u32> = HashMap::new();
    for entry in &history.resources[name] {
        findings.writes += 1;
        let count = written.entry((entry.client, entry.call)).or_default();
        *count += 1;
        let Some(before) = greatest.filter(|before| before.fence >= entry.fence) else {
            greatest = Some(*entry);
            continue;
        };
        if (before.client, before.call) == (entry.client, entry.call) {
            continue;
        }
        let calls = (history.find(entry.client, entry.call), history.find(before.client, before.call));
        let (Some(writer), Some(overtaker)) = calls else { continue };
        if before.fence == entry.fence {
            findings.broken(SHARED, name, at(writer), format!("{writer} and {overtaker} wrote with the same fence"));
            continue;
        }
        findings.stale_writes += 1;
        // Whether it is certain that the writer believed at this write that it held the lock. This is certain for the
        // first `sure_writes` writes of a call, because the writer checked its guard after these writes, and the check
        // found the lock held.
        let sure = writer.grant.as_ref().is_some_and(|grant| grant.sure_writes >= *count);
        if sure && excuses.find(writer, overtaker, end(writer)).is_none() {
            let what = format!("{writer} wrote after {overtaker}, and still believed that it held the lock");
            findings.broken(STALE, name, at(writer), what);
        }
    }
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
