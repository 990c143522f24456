//! Observations of fixed answers.

use bandog_schedule::JobRow;
use serde_json::{from_value, json};

use super::*;

/// A snapshot of jobs with these names and counters.
pub(crate) fn jobs(rows: &[(&str, u64, u64)]) -> Arc<Snapshot> {
    let rows = rows.iter().map(|(name, ok, failed)| {
        from_value::<JobRow>(json!({
            "name": name, "trigger": "fixed_rate 1s", "description": "", "zone": null, "enabled": true, "paused": null,
            "next": null, "watermark": "2026-11-21T09:00:00Z", "lease_ms": 30000, "overlap": "skip", "catch_up": "once",
            "on_crash": "abandon", "live": [], "queued": 0, "ok": ok, "failed": failed, "skipped": 0, "missed": 0,
            "lost": 1, "last": null,
        }))
        .unwrap()
    });
    Arc::new(Snapshot::new(&rows.collect::<Vec<_>>()).unwrap())
}

/// Adds an observation of jobs, and returns the runs that it found.
fn runs(observed: &mut Observed, at: i64, rows: &[(&str, u64, u64)]) -> Option<(i64, u64, u64)> {
    observed.add(at, Seen { jobs: Some((at, jobs(rows))), ..Seen::default() });
    observed.samples.back().unwrap().runs.map(|Runs { from, ended, .. }| (from, ended.ok, ended.failed))
}

#[test]
fn runs_are_the_differences_of_the_counters() {
    let mut observed = Observed::default();
    assert_eq!(runs(&mut observed, 1, &[("a", 5, 1)]), None);
    assert_eq!(runs(&mut observed, 2, &[("a", 7, 1)]), Some((1, 2, 0)));
    // A job that is new since, and one that was forgotten and has begun anew.
    assert_eq!(runs(&mut observed, 3, &[("a", 1, 0), ("b", 3, 0)]), Some((2, 4, 2)));
    // The store did not answer once.
    observed.add(4, Seen::default());
    assert_eq!(runs(&mut observed, 5, &[("a", 2, 0), ("b", 3, 2)]), Some((3, 1, 2)));
    // The clock has jumped back.
    assert_eq!(runs(&mut observed, 4, &[("a", 9, 0)]), None);
    assert_eq!(observed.samples.len(), 1);
}

#[test]
fn a_day_of_observations_is_bounded() {
    let mut observed = Observed::default();
    for at in 0..2000 {
        let queues = (0..100).map(|number| (format!("queue-{number}-{}", at / 200), 7, 5)).collect();
        let locks = (0..50).map(|number| (format!("lock-{number}"), number)).collect();
        observed.add(at, Seen { queues: Some(queues), locks: Some(locks), ..Seen::default() });
    }
    assert_eq!((observed.samples.len(), observed.samples[0].at), (KEPT, 2000 - KEPT as i64));
    let last = observed.samples.back().unwrap();
    let locks = last.locks.as_ref().unwrap();
    assert_eq!((locks.len(), &*locks[0].name, locks[0].calls), (LOCKS, "lock-49", 49));
    assert_eq!((observed.queue_names.0.len(), observed.lock_names.0.len()), (NAMES, 20));
    let is_incomplete = |sample: &&Sample| sample.queues.as_ref().unwrap().len() < 100;
    assert!(observed.samples.iter().filter(is_incomplete).count() > 0, "names are not kept");
    assert!(observed.samples.iter().all(|sample| sample.last_queue.is_some() == is_incomplete(&sample)));
    assert!(last.queues.as_ref().unwrap().len() <= 100);
}

#[test]
fn an_observation_is_due_once_a_minute() {
    let mut observed = Observed::default();
    let due: Vec<i64> = (0..200).filter(|second| observed.begins(second * 1000)).collect();
    assert_eq!(due, [0, 57, 114, 171]);
    assert!(observed.begins(0), "the clock has jumped back");
}
