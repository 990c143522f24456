//! Reports what the caches of a grid have counted to the store, for operators: one task for all caches of a grid.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_codec::{Encode, TypedJson};
use bandog_core::{
    Error, Key, Member, Result,
    structures::{read_cache_reports, write_cache_reports},
};
use serde::Serialize;
use tokio::runtime::Handle;

use super::stats::CacheStats;
use crate::store::Store;

/// The time between two reports.
const PAUSE: Duration = Duration::from_secs(20);
/// Number of reports after which the oldest of all clients are removed.
const REPORTS: u32 = 90;

/// Runs the task on the runtime of the caller, if it does not run.
pub(super) fn run(store: &Arc<Store>) {
    if store.cache_reports.runs() {
        return;
    }
    let Ok(runtime) = Handle::try_current() else { return };
    if store.cache_reports.begin() {
        let running = Running(Arc::downgrade(store));
        drop(runtime.spawn(async move { report(&running.0).await }));
    }
}

/// The task that runs. If it ends, also because its runtime does, the next read starts another one.
struct Running(Weak<Store>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(store) = self.0.upgrade() {
            store.cache_reports.end();
        }
    }
}

/// Reports the counts that have changed, until there is no cache. A report that fails is not repeated.
async fn report(store: &Weak<Store>) {
    let (mut reported, mut number) = (HashMap::new(), 0_u32);
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(store) = store.upgrade() else { return };
        let stats = store.cache_reports.stats();
        if stats.is_empty() {
            return;
        }
        let changed = stats.iter().filter(|(key, stats)| reported.get(*key) != Some(*stats));
        let changed: Vec<_> = changed.map(|(key, stats)| (key, *stats)).collect();
        let result =
            if changed.is_empty() { Ok(()) } else { send(&store, &changed, number.is_multiple_of(REPORTS)).await };
        if let Err(error) = result {
            tracing::debug!(%error, "what caches have counted was not reported");
        }
        number = number.wrapping_add(1);
        reported = stats;
    }
}

async fn send(store: &Store, changed: &[(&Key, CacheStats)], cleans: bool) -> Result<()> {
    let member = Member::here(store.client.id());
    let json = |(key, stats): &(&Key, CacheStats)| {
        let report = Report { host: &member.host, pid: member.pid, program: &member.program, counts: stats.each() };
        let mut bytes = Vec::new();
        TypedJson.encode(&report, &mut bytes).map_err(|error| Error::misused(error.to_string()))?;
        Ok(((*key).clone(), String::from_utf8_lossy(&bytes).into_owned()))
    };
    let reports = changed.iter().map(json).collect::<Result<Vec<_>>>()?;
    let mut ops = write_cache_reports(store.client.id(), store.clock(), &reports)?;
    if cleans {
        ops.extend(read_cache_reports(&*store.structures, store.clock()).await?.1);
    }
    store.run(&ops, &[]).await.into_iter().try_for_each(|reply| reply.map(drop))
}

/// What operators see of a client and its counts.
#[derive(Serialize)]
struct Report<'a> {
    host: &'a str,
    pid: u32,
    program: &'a str,
    counts: BTreeMap<&'static str, u64>,
}
