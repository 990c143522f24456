//! Calls with values that are not allowed fail without any I/O. The error contains the limits of the value.

use std::time::Duration;

use bandog_conformance::wrap::Counting;
use bandog_core::{ErrorKind, MAX_TTL, MIN_TTL};
use bandog_sync::Client;

use crate::kit::{client, kind, memory, paused};

#[tokio::test(start_paused = true)]
async fn names_ttls_and_waits_out_of_bounds_reach_no_store() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    let long = "x".repeat(1025);
    for name in ["", "a\nb", "\0", "\u{1b}[31m", &long] {
        let mutex = client.mutex(name);
        assert_eq!(kind(mutex.lock().await), Some(ErrorKind::Misused), "{name:?}");
        assert_eq!(kind(mutex.try_lock().await), Some(ErrorKind::Misused), "{name:?}");
        assert_eq!(kind(mutex.try_lock_for(Duration::from_secs(1)).await), Some(ErrorKind::Misused), "{name:?}");
        assert_eq!(kind(mutex.run(async |_| ()).await), Some(ErrorKind::Misused), "{name:?}");
        assert_eq!(kind(mutex.by(&client.owner()).lock().await), Some(ErrorKind::Misused), "{name:?}");
    }
    let orders = client.mutex("orders");
    for lease in [Duration::ZERO, MIN_TTL - Duration::from_nanos(1), MAX_TTL + Duration::from_nanos(1)] {
        let error = orders.clone().lease(lease).try_lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused);
        assert!(error.to_string().contains("100 ms and 365 days"), "{error}");
    }
    let error = orders.try_lock_for(MAX_TTL + Duration::from_nanos(1)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Misused && error.to_string().contains("365 days"), "{error}");
    client.idle().await;
    assert_eq!(store.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn values_at_the_bounds_work() {
    let client = client(memory());
    for lease in [MIN_TTL, MAX_TTL] {
        client.mutex("orders").lease(lease).lock().await.unwrap().release().await.unwrap();
    }
    drop(client.mutex("x".repeat(1024)).try_lock_for(MAX_TTL).await.unwrap().unwrap());
}

#[test]
fn a_watchdog_out_of_bounds_makes_no_client() {
    for ttl in [Duration::ZERO, Duration::from_millis(99), Duration::MAX] {
        assert_eq!(kind(Client::options().watchdog(ttl).over(memory())), Some(ErrorKind::Misused));
    }
}

#[test]
fn the_current_runtime_outside_of_one_is_an_error() {
    assert_eq!(kind(paused().over(memory())), Some(ErrorKind::Misused));
}
