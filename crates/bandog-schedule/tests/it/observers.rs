//! Metrics recorders and log subscribers that panic: each panic costs one run and no other.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bandog_schedule::{Job, Run, State, TestScheduler};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing::{
    Event, Subscriber,
    span::{Attributes, Id, Record},
};

/// A recorder and subscriber that panics once: when the first run starts.
#[derive(Default)]
struct Panics {
    has: AtomicBool,
}

impl Panics {
    fn observe(&self) {
        assert!(self.has.swap(true, Relaxed), "as it must");
    }
}

impl Recorder for Panics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        if key.name() == "bandog_run_lag_seconds" {
            self.observe();
        }
        Histogram::noop()
    }
}

impl Subscriber for Panics {
    fn enabled(&self, about: &tracing::Metadata<'_>) -> bool {
        about.name() == "bandog.run"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        self.observe();
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

async fn the_next_run_succeeds() {
    let job = || Job::cron("job", "0 * * * * ?").run(async |_: Run| ());
    let test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T00:02:30Z").await;
    let states: Vec<State> = test.jobs().history("job").await.unwrap().iter().map(|run| run.state).collect();
    assert_eq!(states, [State::Ok, State::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_costs_one_run() {
    let recorder = Panics::default();
    let _guard = metrics::set_default_local_recorder(&recorder);
    the_next_run_succeeds().await;
    assert!(recorder.has.load(Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_panics_costs_one_run() {
    let _guard = tracing::subscriber::set_default(Panics::default());
    the_next_run_succeeds().await;
}
