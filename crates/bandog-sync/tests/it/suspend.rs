//! A machine that was suspended: its clock has gone on, its timers have not.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use bandog_core::{Clock, ErrorKind, Memory};
use bandog_sync::Client;

use crate::kit::{kind, soon};

/// Holders are told by their first look, and those who only wait to be told within the second in which the engine looks
/// at the clock; the store, whose clock has gone on too, has given the lock to another by then.
#[tokio::test]
async fn a_suspended_holder_knows_at_once() {
    static SLEPT: AtomicU64 = AtomicU64::new(0);
    let clock = Clock::system_and(&SLEPT);
    let store = Memory::new(clock);
    let ours = Client::options().clock(clock).over(store.clone()).unwrap();
    let guard = ours.mutex("orders").lock().await.unwrap();
    let told = tokio::spawn(guard.lost());
    // After that nothing else wakes the engine for ten seconds.
    while ours.members().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    // Nothing tells that the engine sleeps. If it does not yet, this test proves less, and does not fail.
    tokio::time::sleep(Duration::from_millis(50)).await;
    SLEPT.fetch_add(60_000_000_000, Relaxed);
    let woke = Instant::now();
    assert!(guard.is_lost() && guard.remaining().is_zero());
    let theirs = Client::options().clock(clock).over(store).unwrap();
    let next = theirs.mutex("orders").try_lock().await.unwrap().expect("the lease has ended");
    assert!(next.fence() > guard.fence());
    soon(told).await.unwrap();
    assert!(woke.elapsed() < Duration::from_secs(2), "told after {:?}", woke.elapsed());
    assert_eq!(kind(guard.release().await), Some(ErrorKind::Lost));
    assert!(!next.is_lost());
}
