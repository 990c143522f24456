//! A store with fixed rows, which counts its queries.

use std::{
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, SystemTime},
};

use bandog_core::{
    Key, Pattern,
    queues::{Phase, QueueStatus},
    structures::{CacheReport, Cursor, ObjectRow, Structure},
};
use bandog_schedule::{Fire, JobRow, RunRow};
use hyper::StatusCode;
use serde_json::{from_value, json as value};

use crate::source::{Act, Answer, ElementsPage, ListedLock, ObjectsPage, Source, Target, Trouble, json};

/// A source with some jobs and two locks. It records the actions on jobs.
#[derive(Debug, Clone, Default)]
pub(super) struct Fixed(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Whether each query fails.
    is_away: AtomicBool,
    /// Whether no query is answered.
    hangs: AtomicBool,
    /// Whether no scan ends.
    scans_hang: AtomicBool,
    /// Additional jobs: `job-0`, `job-1`, …
    more: AtomicUsize,
    /// Jobs that never ran: `quiet-0`, …
    quiet: AtomicUsize,
    /// Number of successful runs of each job.
    ok: AtomicUsize,
    /// Number of names in the store. Every hundredth is that of an object; without names, the store has no objects.
    names: AtomicUsize,
    /// Number of queries of objects.
    object_queries: AtomicUsize,
    /// Number of work queues: `queue-0000`, …
    queues: AtomicUsize,
    /// Number of queries of the state of a queue.
    queue_queries: AtomicUsize,
    /// Number of queries of the list of jobs.
    job_queries: AtomicUsize,
    /// Number of queries of histories.
    histories: AtomicUsize,
    /// Number of all scans so far.
    scans: AtomicUsize,
    /// Number of scans that are in progress.
    scanning: AtomicUsize,
    /// The actions so far, each with the name of its job.
    acts: Mutex<Vec<(Target, Act)>>,
}

/// A name that must be escaped in a path.
pub(super) const NAME: &str = "orders/sweep früh?";
/// The same name, escaped.
pub(super) const SPELT: &str = "orders%2Fsweep%20fr%C3%BCh%3F";

/// The end of the last run of each job.
static LAST: LazyLock<String> = LazyLock::new(|| humantime::format_rfc3339_millis(SystemTime::now()).to_string());

/// A scan that is in progress. The drop of this value ends the scan.
struct Scan<'a>(&'a AtomicUsize);

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Fixed {
    /// After this call, each query fails.
    pub(super) fn goes_away(&self) {
        self.0.is_away.store(true, SeqCst);
    }

    /// After this call, no query is answered.
    pub(super) fn hangs(&self) {
        self.0.hangs.store(true, SeqCst);
    }

    /// After this call, no scan ends.
    pub(super) fn scans_take_long(&self) {
        self.0.scans_hang.store(true, SeqCst);
    }

    pub(super) fn has_more_jobs(&self, jobs: usize) {
        self.0.more.store(jobs, SeqCst);
    }

    pub(super) fn has_quiet_jobs(&self, jobs: usize) {
        self.0.quiet.store(jobs, SeqCst);
    }

    pub(super) fn has_names(&self, names: usize) {
        self.0.names.store(names, SeqCst);
    }

    pub(super) fn has_queues(&self, queues: usize) {
        self.0.queues.store(queues, SeqCst);
    }

    /// Number of queries of the state of a queue.
    pub(super) fn queue_queries(&self) -> usize {
        self.0.queue_queries.load(SeqCst)
    }

    /// Number of queries of objects.
    pub(super) fn object_queries(&self) -> usize {
        self.0.object_queries.load(SeqCst)
    }

    /// Adds a successful run to each job.
    pub(super) fn runs(&self) {
        self.0.ok.fetch_add(1, SeqCst);
    }

    /// Number of queries of the jobs.
    pub(super) fn job_queries(&self) -> usize {
        self.0.job_queries.load(SeqCst)
    }

    /// Number of queries of histories.
    pub(super) fn histories(&self) -> usize {
        self.0.histories.load(SeqCst)
    }

    /// Two numbers: all scans so far, and the scans that are in progress now.
    pub(super) fn scans(&self) -> (usize, usize) {
        (self.0.scans.load(SeqCst), self.0.scanning.load(SeqCst))
    }

    pub(super) fn acts(&self) -> Vec<(Target, Act)> {
        self.0.acts.lock().unwrap().clone()
    }

    /// Returns these rows, unless the store is away or hangs.
    async fn answer<T>(&self, rows: T) -> Result<T, Trouble> {
        if self.0.hangs.load(SeqCst) {
            return std::future::pending().await;
        }
        if self.0.is_away.load(SeqCst) {
            return Err(Trouble::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the store does not answer"));
        }
        Ok(rows)
    }

    /// The row of the job with this name.
    fn job(&self, name: &str) -> JobRow {
        let ok = self.0.ok.load(SeqCst);
        // The last run of the job ended just now. Jobs whose name begins with `quiet` have never run.
        let last = (!name.starts_with("quiet")).then(|| RunRow { ended: Some(LAST.clone()), ..run(name, 7, "ok") });
        from_value(value!({
            "name": name, "trigger": "cron 0 0/5 * * * ?", "description": "every 5 minutes", "zone": "UTC",
            "enabled": true, "paused": null, "next": null, "watermark": "2026-11-21T09:00:00Z", "lease_ms": 30000,
            "overlap": "skip", "catch_up": "once", "on_crash": "abandon", "live": [], "queued": 0, "ok": ok,
            "failed": 0, "skipped": 0, "missed": 0, "lost": 0, "last": last,
        }))
        .unwrap()
    }
}

/// A run that ended just now.
pub(super) fn run(job: &str, id: u64, state: &str) -> RunRow {
    let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    from_value(value!({
        "job": job, "id": id, "tick": now, "from": null, "ticks": 1, "kind": "scheduled", "attempt": 1,
        "node": "web-1:17", "fence": id, "due": now, "started": now, "ended": now, "lag_ms": 3, "state": state,
        "error": null, "note": null,
    }))
    .unwrap()
}

impl Source for Fixed {
    fn store(&self) -> &'static str {
        "redis://cache.example"
    }

    async fn jobs(&self) -> Result<Vec<JobRow>, Trouble> {
        self.0.job_queries.fetch_add(1, SeqCst);
        let more = (0..self.0.more.load(SeqCst)).map(|number| self.job(&format!("job-{number}")));
        let quiet = (0..self.0.quiet.load(SeqCst)).map(|number| self.job(&format!("quiet-{number}")));
        self.answer(more.chain(quiet).chain([self.job(NAME)]).collect()).await
    }

    async fn history(&self, name: &str) -> Result<Vec<RunRow>, Trouble> {
        self.0.histories.fetch_add(1, SeqCst);
        self.answer(vec![run(name, 8, "failed"), run(name, 7, "ok")]).await
    }

    async fn fires(&self, _within: Duration, _most: usize) -> Result<Vec<Fire>, Trouble> {
        let due = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        self.answer(vec![Fire { job: NAME.into(), tick: due.clone(), due }]).await
    }

    async fn nodes(&self) -> Answer {
        let nodes = value!({ "running": [{ "node": "web-1:17", "zones": "2026a" }], "pauses": {} });
        json(&self.answer(nodes).await?)
    }

    async fn locks(&self) -> Result<Vec<ListedLock>, Trouble> {
        self.0.scans.fetch_add(1, SeqCst);
        self.0.scanning.fetch_add(1, SeqCst);
        let _scan = Scan(&self.0.scanning);
        if self.0.scans_hang.load(SeqCst) {
            return std::future::pending().await;
        }
        let lock = |name: &str, waiters| {
            let json = json(&value!({ "name": name, "held": true }))?;
            Ok::<_, Trouble>(ListedLock { name: name.to_owned(), waiters, json })
        };
        self.answer(vec![lock("deploy", 0)?, lock("nightly", 2)?]).await
    }

    fn has_objects(&self) -> bool {
        self.0.names.load(SeqCst) > 0
    }

    async fn objects(&self, pattern: &Pattern, from: &Cursor, about: usize) -> Result<ObjectsPage, Trouble> {
        self.0.object_queries.fetch_add(1, SeqCst);
        let first: usize = from.0.parse().unwrap_or(0);
        let end = self.0.names.load(SeqCst).min(first + about);
        let names = (first..end).filter(|number| number % 100 == 0).map(|number| format!("object <{number}>"));
        let rows = names.filter(|name| pattern.matches(name)).map(|name| {
            let key = Key::new(name).unwrap();
            ObjectRow { key, structure: Structure::Map, size: 1, ttl: None }
        });
        let next = (end < self.0.names.load(SeqCst)).then(|| Cursor(end.to_string()));
        self.answer((rows.collect(), next)).await
    }

    async fn cache_reports(&self) -> Result<Vec<CacheReport>, Trouble> {
        self.answer(Vec::new()).await
    }

    fn has_queues(&self) -> bool {
        self.0.queues.load(SeqCst) > 0
    }

    async fn queue_names(&self, most: usize) -> Result<Vec<String>, Trouble> {
        let names = (0..self.0.queues.load(SeqCst).min(most)).map(|number| format!("queue-{number:04}"));
        self.answer(names.collect()).await
    }

    async fn queue(&self, _name: &str) -> Result<QueueStatus, Trouble> {
        self.0.queue_queries.fetch_add(1, SeqCst);
        self.answer(QueueStatus::default()).await
    }

    async fn elements(&self, _: &str, _: Phase, _: &Cursor, _: usize) -> Result<ElementsPage, Trouble> {
        self.answer((Vec::new(), None)).await
    }

    async fn act(&self, target: &Target, act: Act) -> Answer {
        self.0.acts.lock().unwrap().push((target.clone(), act));
        json(&self.answer(value!({ "id": 8 })).await?)
    }
}
