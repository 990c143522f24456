//! The metrics, with the names that the documentation lists.

use std::{collections::BTreeSet, io, time::Duration};

use bandog::{
    testing::Store,
    work::{Backoff, ClientWork, Delivery, Phase, WorkQueue},
};
use bandog_testkit::eventually_async;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::sleep;

use crate::kit::{SECOND, count, empty};

/// The metrics that were recorded since the last call: the name, the label `end`, and the value. A histogram has the sum of
/// its values.
fn recorded(shown: &Snapshotter) -> Vec<(String, String, f64)> {
    let all = shown.snapshot().into_vec().into_iter();
    let all = all.filter(|(key, ..)| key.key().name().starts_with("bandog_work_")).map(|(key, _, _, value)| {
        let key = key.key();
        let label = |name: &str| key.labels().find(|label| label.key() == name).map(|label| label.value().to_owned());
        assert_eq!(label("queue").as_deref(), Some("orders"), "{key}");
        let value = match value {
            DebugValue::Counter(count) => f64::from(u32::try_from(count).unwrap()),
            DebugValue::Gauge(gauge) => gauge.into_inner(),
            DebugValue::Histogram(seen) => seen.iter().map(|seen| seen.into_inner()).sum(),
        };
        (key.name().to_owned(), label("end").unwrap_or_default(), value)
    });
    all.collect()
}

/// Runs a test on a paused clock with a recorder.
fn recording<F: Future<Output = ()>>(test: impl FnOnce(Snapshotter) -> F) {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(test(recorder.snapshotter()));
    });
}

#[test]
fn deliveries_are_counted_by_their_end() {
    recording(async |shown| {
        let queue: WorkQueue<String> = Store::new().client().work_queue("orders").unwrap();
        for text in ["good", "bad", "slow", "back"] {
            queue.push(text).once(text, SECOND).await.unwrap();
            queue.push(text).once(text, SECOND).await.unwrap();
        }
        sleep(SECOND * 5).await;
        let workers = queue.workers(4).deliveries(2).backoff(Backoff::fixed(SECOND).unwrap()).run(
            async |delivery: Delivery<String>| match delivery.as_str() {
                "bad" => Err(io::Error::other("no")),
                "back" if delivery.age() < SECOND * 10 => {
                    sleep(SECOND * 10).await;
                    delivery.hand_back().await.map_err(io::Error::other)
                }
                "slow" => std::future::pending().await,
                _ => Ok(()),
            },
        );
        eventually_async(SECOND * 60, async || count(&queue, Phase::Taken).await == 1).await;
        let row = queue.elements(Phase::Taken);
        let row = futures_util::StreamExt::collect::<Vec<_>>(row).await.remove(0).unwrap();
        assert_eq!(queue.remove(&[row.id]).await.unwrap(), 1);
        eventually_async(SECOND * 60, async || count(&queue, Phase::Taken).await == 0).await;
        workers.stop().await.unwrap();
        let all = recorded(&shown);
        let value = |name: &str, end: &str| all.iter().find(|(n, e, _)| n == name && e == end).unwrap().2;
        assert_eq!(value("bandog_work_pushed_total", ""), 4.0);
        let ends = ["done", "retried", "failed", "handed_back", "cancelled", "lost", "dead"];
        let counts = ends.map(|end| value("bandog_work_deliveries_total", end));
        assert_eq!(counts, [2.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
        // Four elements after 5 s, and the one that was handed back after 10 s more.
        let waited = value("bandog_work_wait_seconds", "");
        assert!((35.0..36.0).contains(&waited), "{waited}");
        assert!(value("bandog_work_run_seconds", "") >= 20.0);
        assert_eq!(value("bandog_work_running", ""), 0.0);
    });
}

/// The names of all metrics are in the documentation.
#[test]
fn the_documentation_lists_each_metric() {
    let page = include_str!("../../../../docs/observability.md");
    recording(async |shown| {
        let queue: WorkQueue<String> = Store::new().client().work_queue("orders").unwrap();
        queue.push("text").await.unwrap();
        let workers = queue.workers(1).run(async |_: Delivery<String>| io::Result::Ok(()));
        empty(&queue).await;
        workers.stop().await.unwrap();
        sleep(Duration::from_secs(1)).await;
        let all = recorded(&shown);
        let names: BTreeSet<_> = all.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names.len(), 5, "{names:?}");
        for name in names {
            assert!(page.contains(&format!("| `{name}`")), "{name}");
        }
        let row = page.lines().find(|line| line.contains("bandog_work_deliveries_total")).unwrap();
        for (_, end, _) in all.iter().filter(|(name, ..)| name == "bandog_work_deliveries_total") {
            assert!(row.contains(&format!("`{end}`")), "{end}");
        }
    });
}
