//! While one side (Java or Rust) holds the lock, the other side does not get it.

use crate::rig::{Rig, TTL};

// Promise: X1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_java_holds_is_busy_for_us() {
    let rig = Rig::start(TTL).await;
    assert_eq!(rig.java.ask("a", &["lock", "orders"]), "held");
    assert!(rig.ours.mutex("orders").try_lock().await.expect("answered").is_none());

    let row = rig.ours.show("orders").await.expect("answered");
    assert!(row.is_held());
    assert_eq!(row.owner(), rig.owner("orders").as_deref());
    assert_eq!(row.fence(), None, "a plain lock of Java has a fence");

    assert_eq!(rig.java.ask("a", &["unlock", "orders"]), "freed");
    let guard = rig.ours.mutex("orders").try_lock().await.expect("answered").expect("free");
    guard.release().await.expect("released");
}

// Promise: X1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_we_hold_is_busy_for_java() {
    let rig = Rig::start(TTL).await;
    let guard = rig.ours.mutex("orders").lock().await.expect("granted");
    assert_eq!(rig.java.ask("a", &["try", "orders"]), "busy");
    assert_eq!(rig.java.ask("a", &["try-for", "orders", "300"]), "busy");
    let refused = rig.java.ask("a", &["unlock", "orders"]);
    assert!(refused.starts_with("error IllegalMonitorStateException"), "{refused}");
    assert!(!guard.is_lost());

    guard.release().await.expect("released");
    assert_eq!(rig.java.ask("a", &["try", "orders"]), "held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_java_took_twice_is_busy_until_java_has_released_it_twice() {
    let rig = Rig::start(TTL).await;
    assert_eq!(rig.java.ask("a", &["lock", "orders"]), "held");
    assert_eq!(rig.java.ask("a", &["lock", "orders"]), "held");
    let waiting = rig.ours_waits("orders");

    assert_eq!(rig.java.ask("a", &["unlock", "orders"]), "freed");
    assert!(rig.ours.mutex("orders").try_lock().await.expect("answered").is_none());
    assert!(!waiting.is_finished());

    assert_eq!(rig.java.ask("a", &["unlock", "orders"]), "freed");
    waiting.await.expect("no panic").0.release().await.expect("released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_thread_of_java_is_another_owner() {
    let rig = Rig::start(TTL).await;
    assert_eq!(rig.java.ask("a", &["lock", "orders"]), "held");
    assert_eq!(rig.java.ask("b", &["try", "orders"]), "busy");
    let refused = rig.java.ask("b", &["unlock", "orders"]);
    assert!(refused.starts_with("error IllegalMonitorStateException"), "{refused}");
    assert!(rig.ours.mutex("orders").try_lock().await.expect("answered").is_none());
}
