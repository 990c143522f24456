//! A machine that was suspended: its clock has advanced, its timers have not.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use bandog_core::{Clock, ErrorKind, Memory};
use bandog_sync::Client;

use crate::kit::{kind, soon};

/// Guards see the loss at their first check. Futures that wait for it resolve within the second in which the engine
/// reads the clock. The store, whose clock has advanced too, has granted the lock to another client by then.
#[tokio::test]
async fn a_suspended_holder_sees_its_loss_at_once() {
    static SLEPT: AtomicU64 = AtomicU64::new(0);
    let clock = Clock::system_and(&SLEPT);
    let store = Memory::new(clock);
    let ours = Client::options().clock(clock).over(store.clone()).unwrap();
    let guard = ours.mutex("orders").lock().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    // After that nothing else wakes the engine for ten seconds.
    while ours.members().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    // The test cannot observe that the engine sleeps. If it does not sleep yet, this test proves less, and does not
    // fail.
    tokio::time::sleep(Duration::from_millis(50)).await;
    SLEPT.fetch_add(60_000_000_000, Relaxed);
    let woke = Instant::now();
    assert!(guard.is_lost() && guard.remaining().is_zero());
    let theirs = Client::options().clock(clock).over(store).unwrap();
    let next = theirs.mutex("orders").try_lock().await.unwrap().expect("the lease has expired");
    assert!(next.fence() > guard.fence());
    soon(lost).await.unwrap();
    assert!(woke.elapsed() < Duration::from_secs(2), "lost after {:?}", woke.elapsed());
    assert_eq!(kind(guard.release().await), Some(ErrorKind::Lost));
    assert!(!next.is_lost());
}
