//! Figures from fixed histories.

use serde_json::{from_value, json};

use super::*;

/// A run of a scheduled job, which ended at this time.
pub(crate) fn run(id: u64, state: &str, ended: i64, lag: u64) -> bandog_schedule::RunRow {
    let at = |ms| Time::from_millisecond(ms).to_string();
    from_value(json!({
        "job": "x", "id": id, "tick": at(ended), "from": null, "ticks": 1, "kind": "scheduled", "attempt": 1,
        "node": null, "fence": null, "due": at(ended), "started": at(ended - 500), "ended": at(ended), "lag_ms": lag,
        "state": state, "error": null, "note": null,
    }))
    .unwrap()
}

/// The present time in these tests, in milliseconds since 1970.
pub(crate) const NOW: i64 = 1_800_000_000_000;

/// The figures of the last 24 hours as JSON, for jobs with these names and histories.
fn day(histories: &[(&str, Vec<bandog_schedule::RunRow>)]) -> serde_json::Value {
    let digests: Vec<_> =
        histories.iter().map(|(name, runs)| ((*name).to_owned(), Arc::new(Digest::new(1, runs)))).collect();
    serde_json::to_value(Day::new(NOW, (histories.len(), 0), &digests)).unwrap()
}

#[test]
fn only_runs_of_the_last_day_count() {
    let runs = vec![run(1, "failed", NOW - DAY_MS - 1, 5), run(2, "ok", NOW - DAY_MS, 5), run(3, "lost", NOW - 1, 7)];
    let day = day(&[("a", runs)]);
    assert_eq!((&day["runs"], &day["failures"], &day["jobs_cut"]), (&2.into(), &1.into(), &0.into()), "{day}");
    assert_eq!((&day["oldest_failure"]["state"], &day["oldest_failure"]["stands"]), (&"lost".into(), &true.into()));
}

/// The counters of a job count a run once, by its last attempt. So does the page.
#[test]
fn an_attempt_that_is_repeated_is_no_failure() {
    let mut taken_over = run(1, "lost", NOW - 2_000, 5);
    taken_over.retried = true;
    let day = day(&[("a", vec![taken_over, run(1, "ok", NOW - 1_000, 5)])]);
    assert_eq!(
        (&day["runs"], &day["failures"], &day["oldest_failure"]),
        (&1.into(), &0.into(), &serde_json::Value::Null)
    );
}

#[test]
fn a_job_whose_kept_runs_do_not_cover_a_day_is_counted() {
    let second = |number: i64| run(number.unsigned_abs(), "ok", NOW - number * 1000, 1);
    let day = day(&[("often", (0..50).map(second).collect()), ("rare", (0..49).map(second).collect())]);
    assert_eq!((&day["runs"], &day["jobs_cut"]), (&99.into(), &1.into()), "{day}");
    assert_eq!(day["shortest"], json!({ "job": "often", "covers_ms": 49_000 }));
}

#[test]
fn a_failure_does_not_stand_after_a_later_run_ended_well() {
    let day = day(&[("a", vec![run(1, "timed_out", NOW - 9000, 5), run(2, "ok", NOW - 8000, 5)])]);
    assert_eq!((&day["oldest_failure"]["job"], &day["oldest_failure"]["stands"]), (&"a".into(), &false.into()));
}

#[test]
fn percentiles_are_those_of_the_sorted_list() {
    assert_eq!(Lag::of(vec![]), None);
    assert_eq!(Lag::of(vec![7]), Some(Lag { p50_ms: 7, p99_ms: 7, runs: 1 }));
    let lags = (1..=200).rev().collect();
    assert_eq!(Lag::of(lags), Some(Lag { p50_ms: 100, p99_ms: 198, runs: 200 }));
}

#[test]
fn jobs_that_start_often_do_not_hide_the_others() {
    let fire = |job: &str, ms: i64| Fire {
        job: job.into(),
        tick: String::new(),
        due: Time::from_millisecond(NOW + ms).to_string(),
    };
    let often = (1..=13).map(|number| fire("often", number * 1000));
    let rare = [fire("rare", 3_000_000), fire("early", 30_000)];
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(NOW.unsigned_abs());
    let hour = Hour::new(now, &often.chain(rare).collect::<Vec<_>>());
    let starts: Vec<&str> = hour.starts.iter().map(|start| start.job.as_str()).collect();
    assert_eq!((starts, hour.often, hour.often_jobs), (vec!["early", "rare"], 1, vec!["often".to_owned()]));
    assert_eq!((hour.minutes.len(), hour.minutes[0], hour.minutes[50]), (60, 1, 1));
    assert_eq!(hour.minutes.iter().sum::<u32>(), 2);
}
