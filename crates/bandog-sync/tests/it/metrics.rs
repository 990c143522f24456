//! The metrics of a client.

use std::collections::HashMap;

use bandog_conformance::wrap::{Delayed, Fate, Lossy};
use bandog_core::ErrorKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time;

use crate::kit::{client, kind, memory, ms, paused, waiting};

/// Reads all metrics. The value of a histogram is the number of its recorded values.
fn read(snapshotter: &Snapshotter) -> HashMap<String, f64> {
    let all = snapshotter.snapshot().into_vec().into_iter();
    all.map(|(key, _, _, value)| {
        let number = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(level) => level.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        (key.key().name().to_owned(), number)
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
    let values_now = read(&snapshotter);
    let value_of = |name: &str| values_now.get(&format!("bandog_{name}")).copied();
    assert_eq!(value_of("acquired_total"), Some(1.0));
    assert_eq!(value_of("refused_total"), Some(1.0));
    assert_eq!(value_of("wait_seconds"), Some(1.0));
    assert_eq!(value_of("held_seconds"), Some(0.0));
    assert_eq!(value_of("renewals_total"), Some(1.0));
    assert_eq!((value_of("holds"), value_of("waiting"), value_of("owed")), (Some(1.0), Some(1.0), Some(0.0)));
    wire.always(Fate::ReplyLost);
    assert_eq!(kind(client.mutex("other").try_lock().await), Some(ErrorKind::Unavailable));
    guard.lost().await;
    waiter.abort();
    assert!(waiter.await.is_err());
    drop(guard);
    wire.heal();
    client.idle().await;
    let values_now = read(&snapshotter);
    let value_of = |name: &str| values_now.get(&format!("bandog_{name}")).copied();
    assert_eq!(value_of("lost_total"), Some(1.0));
    assert_eq!(value_of("held_seconds"), Some(1.0));
    assert!(value_of("reaped_total") > Some(0.0) && value_of("backend_errors_total") > Some(0.0));
    client.close().await.unwrap();
    drop(client);
    tokio::task::yield_now().await;
    let values_now = read(&snapshotter);
    let value_of = |name: &str| values_now.get(&format!("bandog_{name}")).copied();
    assert_eq!((value_of("holds"), value_of("waiting"), value_of("owed")), (Some(0.0), Some(0.0), Some(0.0)));
}

/// The future is dropped before the request is sent, while it is in flight, and after it is answered.
#[tokio::test(start_paused = true)]
async fn a_dropped_downgrade_ends_each_turn_once() {
    for dropped_after in [0, 10, 30, 60] {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let _installed = metrics::set_default_local_recorder(&recorder);
        let ours = client(Delayed::new(memory(), 1, ms(20), ms(20)));
        let writer = ours.rwlock("catalogue").write().await.unwrap();
        drop(time::timeout(ms(dropped_after), writer.downgrade()).await);
        ours.idle().await;
        let values = read(&snapshotter);
        assert_eq!(values["bandog_held_seconds"], values["bandog_acquired_total"], "dropped after {dropped_after} ms");
    }
}
