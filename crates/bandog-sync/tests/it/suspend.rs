//! A machine that was suspended. Its clock has advanced during that time, but its timers have not.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use bandog_core::{Clock, ErrorKind, Memory};
use bandog_sync::Client;

use crate::kit::{kind, soon};

/// After the suspension, a guard reports its loss at the first check. A future that waits for the loss resolves within
/// about a second, because the engine reads the clock each second. The store's clock has advanced, too, so it has
/// already granted the lock to another client.
#[tokio::test]
async fn a_suspended_holder_sees_its_loss_at_once() {
    static SLEPT: AtomicU64 = AtomicU64::new(0);
    let clock = Clock::system_and(&SLEPT);
    let store = Memory::new(clock);
    let ours = Client::options().clock(clock).over(store.clone()).unwrap();
    let guard = ours.mutex("orders").lock().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    // When the client is registered, the engine has nothing to do for ten seconds.
    while ours.members().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    // The test cannot see whether the engine sleeps. If it does not sleep yet, the test proves less, but it does not
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
