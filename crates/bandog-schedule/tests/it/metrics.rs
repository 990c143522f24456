//! The metrics, with the names that the documentation lists.

use std::time::Duration;

use bandog_schedule::{Job, Run, TestScheduler};
use metrics_util::{
    CompositeKey,
    debugging::{DebugValue, DebuggingRecorder},
};

/// The metrics of a recorder.
struct Shown(Vec<(CompositeKey, Option<metrics::Unit>, Option<metrics::SharedString>, DebugValue)>);

impl Shown {
    /// The value of a metric with these labels. A histogram has the sum of its values.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let found = self.0.iter().find(|(key, ..)| {
            let key = key.key();
            let has = |(of, is): &(&str, &str)| key.labels().any(|label| label.key() == *of && label.value() == *is);
            key.name() == name && labels.iter().all(has)
        });
        match found.map(|(.., value)| value) {
            Some(DebugValue::Counter(count)) => f64::from(u32::try_from(*count).unwrap()),
            Some(DebugValue::Gauge(gauge)) => gauge.into_inner(),
            Some(DebugValue::Histogram(seen)) => seen.iter().map(|seen| seen.into_inner()).sum(),
            None => panic!("{name} {labels:?} is not counted"),
        }
    }
}

#[test]
fn a_node_that_starts_shows_the_states_that_the_record_has() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let jobs = || {
        let fickle = Job::cron("fickle", "0 * * * * ?").run(async |run: Run| match run.last_success() {
            None => Ok(()),
            Some(_) => Err("no"),
        });
        vec![Job::cron("well", "0 0 * * * ?").run(async |_: Run| ()), fickle]
    };
    let mut test = runtime.block_on(async {
        let mut test = TestScheduler::at("2025-12-31T23:59:30Z").start(jobs).await.unwrap();
        test.advance_to("2026-01-01T00:03:40Z").await;
        test.jobs().pause("fickle", "it fails").await.unwrap();
        test.crash(0);
        test
    });
    let recorder = DebuggingRecorder::new();
    let shown = recorder.snapshotter();
    let gauges = |test: &mut TestScheduler, what: &dyn Fn(&Shown)| {
        metrics::with_local_recorder(&recorder, || {
            runtime.block_on(async {
                test.advance(Duration::from_secs(60)).await;
                what(&Shown(shown.snapshot().into_vec()));
            });
        });
    };
    metrics::with_local_recorder(&recorder, || runtime.block_on(test.join(jobs())).unwrap());
    let midnight = 1_767_225_600.0;
    gauges(&mut test, &|shown| {
        for job in ["well", "fickle"] {
            let success = shown.value("bandog_last_success_timestamp_seconds", &[("job", job)]);
            assert!((midnight..midnight + 0.5).contains(&success), "{job}: {success}");
        }
        assert_eq!(shown.value("bandog_job_paused", &[("job", "well")]), 0.0);
        assert_eq!(shown.value("bandog_job_paused", &[("job", "fickle")]), 1.0);
        assert_eq!(shown.value("bandog_runs_running", &[]), 0.0);
    });
    runtime.block_on(async { test.jobs().resume("fickle").await }).unwrap();
    gauges(&mut test, &|shown| assert_eq!(shown.value("bandog_job_paused", &[("job", "fickle")]), 0.0));
}

#[test]
fn runs_claims_and_ticks_are_counted() {
    let recorder = DebuggingRecorder::new();
    let shown = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let well = || {
                Job::cron("well", "0 * * * * ?").run(async |_: Run| tokio::time::sleep(Duration::from_secs(90)).await)
            };
            let ill = || Job::cron("ill", "0 * * * * ?").run(async |_: Run| Err::<(), _>("no"));
            let test = TestScheduler::at("2026-01-01T00:00:30Z").pool(2).start(|| vec![well(), ill()]).await.unwrap();
            test.advance_to("2026-01-01T00:03:40Z").await;
        });
    });
    let all = Shown(shown.snapshot().into_vec());
    let value = |name: &str, labels: &[(&str, &str)]| all.value(name, labels);
    assert_eq!(value("bandog_runs_total", &[("job", "well"), ("outcome", "ok")]), 1.0);
    assert_eq!(value("bandog_runs_total", &[("job", "ill"), ("outcome", "failed")]), 3.0);
    assert_eq!(value("bandog_claims_total", &[("result", "won")]), 6.0);
    assert_eq!(value("bandog_ticks_missed_total", &[("job", "well"), ("reason", "skipped")]), 1.0);
    assert!((90.0..90.1).contains(&value("bandog_run_seconds", &[("job", "well")])));
    assert!(value("bandog_run_lag_seconds", &[("job", "well")]) < 0.1);
    let ended = 1_767_225_600.0 + 150.0;
    assert!((ended..ended + 1.0).contains(&value("bandog_last_success_timestamp_seconds", &[("job", "well")])));
    assert_eq!(value("bandog_runs_running", &[]), 1.0);
    assert!(value("bandog_clock_offset_seconds", &[]).abs() < 0.01);
}
