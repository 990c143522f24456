//! `expiring(grace)`: a warning before the loss.

use bandog_conformance::wrap::{Stopped, Which};
use bandog_core::Clock;
use futures_util::FutureExt;
use tokio::time;

use crate::kit::{client, memory, ms, paused};

/// The warning comes `grace` before the loss, to the millisecond. Several graces of one guard come each at its own
/// time.
#[tokio::test(start_paused = true)]
async fn it_comes_its_grace_before_the_loss() {
    let client = client(memory());
    let guard = client.mutex("orders").lease(ms(10_000)).lock().await.unwrap();
    let deadline = Clock::tokio().now() + guard.remaining();
    let warned = |grace| {
        let expiring = guard.expiring(ms(grace));
        async move {
            expiring.await;
            deadline.since(Clock::tokio().now()).as_millis()
        }
    };
    let before = tokio::join!(warned(1000), warned(9000), warned(1), warned(1000));
    assert_eq!(before, (1000, 9000, 1, 1000));
    assert!(!guard.is_lost());
    guard.lost().await;
    assert!(guard.is_lost());
}

/// A grace longer than the remaining time warns at once, and one of zero warns with the loss.
#[tokio::test(start_paused = true)]
async fn graces_at_the_bounds() {
    let client = client(memory());
    let guard = client.mutex("orders").lease(ms(1000)).lock().await.unwrap();
    assert!(guard.expiring(ms(1000)).now_or_never().is_some());
    let expiring = guard.expiring(ms(0));
    assert!(expiring.clone().now_or_never().is_none());
    expiring.await;
    assert!(guard.is_lost());
}

/// Renewals delay the warning; when they fail, it comes.
#[tokio::test(start_paused = true)]
async fn renewals_move_it_on() {
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

/// A warning that one turn has asked for does not reach the next turn of the same hold.
#[tokio::test(start_paused = true)]
async fn a_turn_that_was_passed_on_has_no_earlier_warnings() {
    let client = client(memory());
    let first = client.mutex("orders").lock().await.unwrap();
    let expiring = first.expiring(ms(29_999));
    let next = crate::kit::waiting(&client, "orders").await;
    first.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(time::timeout(ms(100_000), expiring).await.is_err());
    drop(next);
}
