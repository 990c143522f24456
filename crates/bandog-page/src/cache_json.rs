//! The clients of caches as JSON.

use std::collections::BTreeMap;

use bandog_core::structures::CacheReport;
use serde::{Deserialize, Serialize};

use crate::lock_json::millis;

/// A client of a cache in JSON. Programs rely on the field names.
#[derive(Debug, Serialize)]
pub(crate) struct CacheJson {
    name: String,
    /// The client: its id, program, process and machine.
    client: String,
    #[serde(flatten)]
    report: Report,
    /// The part of the reads that found an entry or a copy. None: there was no read.
    hit_rate: Option<f64>,
    /// The mean age of the entries that were found in the store.
    mean_age_ms: Option<u64>,
    /// The age of these counts.
    reported_ms: u64,
}

/// What a client reports. A client of a later version may report more.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    program: String,
    pid: u32,
    host: String,
    counts: BTreeMap<String, u64>,
}

impl CacheJson {
    /// The JSON of a report. None if it is that of another program.
    pub(crate) fn read(CacheReport { cache, client, age, json }: CacheReport) -> Option<Self> {
        let report: Report = serde_json::from_str(&json).ok()?;
        let count = |name: &str| report.counts.get(name).copied().unwrap_or(0);
        let read = count("hits") + count("stale_hits");
        let (found, missed) = (read + count("near_hits"), count("misses"));
        let hit_rate = (found + missed > 0).then(|| found as f64 / (found + missed) as f64);
        let mean_age_ms = count("age_ms").checked_div(read);
        let (name, client) = (cache.as_str().to_owned(), client.to_string());
        Some(Self { name, client, report, hit_rate, mean_age_ms, reported_ms: millis(age) })
    }
}
