//! `expiring(grace)` resolves when the time `grace` is left before the lock is lost. This is called a *warning*.

use bandog_conformance::wrap::{Stopped, Which};
use bandog_core::Clock;
use futures_util::FutureExt;
use tokio::time;

use crate::kit::{client, memory, ms, paused};

/// The warning comes exactly `grace` before the loss. A guard can have several warnings with different values of
/// `grace`.
#[tokio::test(start_paused = true)]
async fn a_warning_comes_grace_before_the_loss() {
    let client = client(memory());
    let guard = client.mutex("orders").lease(ms(10_000)).lock().await.unwrap();
    let deadline = Clock::tokio().now() + guard.remaining();
    let left_at_warning = |grace| {
        let expiring = guard.expiring(ms(grace));
        async move {
            expiring.await;
            deadline.since(Clock::tokio().now()).as_millis()
        }
    };
    let left = tokio::join!(left_at_warning(1000), left_at_warning(9000), left_at_warning(1), left_at_warning(1000));
    assert_eq!(left, (1000, 9000, 1, 1000));
    assert!(!guard.is_lost());
    guard.lost().await;
    assert!(guard.is_lost());
}

/// If `grace` is longer than the remaining time, the warning comes immediately. If `grace` is zero, the warning comes
/// together with the loss.
#[tokio::test(start_paused = true)]
async fn a_long_grace_warns_immediately_and_a_zero_grace_at_the_loss() {
    let client = client(memory());
    let guard = client.mutex("orders").lease(ms(1000)).lock().await.unwrap();
    assert!(guard.expiring(ms(1000)).now_or_never().is_some());
    let expiring = guard.expiring(ms(0));
    assert!(expiring.clone().now_or_never().is_none());
    expiring.await;
    assert!(guard.is_lost());
}

/// Each renewal moves the warning to a later time. If renewals fail, the warning comes.
#[tokio::test(start_paused = true)]
async fn renewals_delay_a_warning() {
    let wire = Stopped::new(memory());
    let client = paused().watchdog(ms(3000)).over(wire.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    let expiring = guard.expiring(ms(500));
    assert!(time::timeout(ms(30_000), expiring.clone()).await.is_err());
    wire.stop(Which::Requests);
    expiring.await;
    assert!(!guard.is_lost());
    assert!(guard.remaining() <= ms(500) && guard.remaining() >= ms(490), "{:?}", guard.remaining());
}

/// A caller asks for a warning, and then its hold goes to the next call of the client. The warning of the first caller
/// never comes.
#[tokio::test(start_paused = true)]
async fn a_warning_of_one_turn_does_not_reach_the_next() {
    let client = client(memory());
    let first = client.mutex("orders").lock().await.unwrap();
    let expiring = first.expiring(ms(29_999));
    let next = crate::kit::waiting(&client, "orders").await;
    first.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(time::timeout(ms(100_000), expiring).await.is_err());
    drop(next);
}
