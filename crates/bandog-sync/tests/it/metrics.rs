//! The metrics of a client.

use std::collections::HashMap;

use bandog_conformance::wrap::{Fate, Lossy};
use bandog_core::ErrorKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time;

use crate::kit::{kind, memory, ms, paused, waiting};

/// Reads all metrics. The value of a histogram is the number of its recorded values.
fn read(snapshotter: &Snapshotter) -> HashMap<String, f64> {
    let all = snapshotter.snapshot().into_vec().into_iter();
    all.map(|(key, _, _, value)| {
        let much = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(level) => level.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        (key.key().name().to_owned(), much)
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn every_metric_counts() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let wire = Lossy::new(memory());
    let client = paused().watchdog(ms(3000)).over(wire.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    let waiter = waiting(&client, "orders").await;
    assert!(client.mutex("orders").try_lock().await.unwrap().is_none());
    time::sleep(ms(1500)).await;
    let seen = read(&snapshotter);
    let at = |name: &str| seen.get(&format!("bandog_{name}")).copied();
    assert_eq!(at("acquired_total"), Some(1.0));
    assert_eq!(at("refused_total"), Some(1.0));
    assert_eq!(at("wait_seconds"), Some(1.0));
    assert_eq!(at("held_seconds"), Some(0.0));
    assert_eq!(at("renewals_total"), Some(1.0));
    assert_eq!((at("holds"), at("waiting"), at("owed")), (Some(1.0), Some(1.0), Some(0.0)));
    wire.always(Fate::ReplyLost);
    assert_eq!(kind(client.mutex("other").try_lock().await), Some(ErrorKind::Unavailable));
    guard.lost().await;
    waiter.abort();
    assert!(waiter.await.is_err());
    drop(guard);
    wire.heal();
    client.idle().await;
    let seen = read(&snapshotter);
    let at = |name: &str| seen.get(&format!("bandog_{name}")).copied();
    assert_eq!(at("lost_total"), Some(1.0));
    assert_eq!(at("held_seconds"), Some(1.0));
    assert!(at("reaped_total") > Some(0.0) && at("backend_errors_total") > Some(0.0));
    client.close().await.unwrap();
    drop(client);
    tokio::task::yield_now().await;
    let seen = read(&snapshotter);
    let at = |name: &str| seen.get(&format!("bandog_{name}")).copied();
    assert_eq!((at("holds"), at("waiting"), at("owed")), (Some(0.0), Some(0.0), Some(0.0)));
}
