//! How a holder is notified that it has lost its lock.

use std::time::Duration;

use bandog_core::ErrorKind;
use futures_util::FutureExt;
use tokio::time;

use crate::{
    Law, World,
    kit::{MAX_WAIT, NAME, error_kind, guard_of_waiter, is_free, nothing_left, start_waiter, take, within},
    wrap::{Stopped, Which},
};

/// Law 39: when a hold was removed from the store, the holder is notified of the loss at its next renewal.
// Promise: L8, L27
pub async fn lost_signal_on_kill<W: World>(world: &W) -> Law {
    // The holds of a `brisk` client have the short ttl `world.ttl()`. They expire if the client does not renew them.
    let client = world.brisk();
    let guard = take(&client, NAME).await?;
    assert!(guard.lost().now_or_never().is_none());
    world.forget(NAME).await?;
    within(world.ttl() / 3 + world.slack(), "the loss", guard.lost()).await;
    assert!(guard.is_lost());
    assert!(guard.remaining().is_zero());
    drop(guard);
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 40: after a loss, every call of `lost` completes immediately.
// Promise: L9
pub async fn lost_signal_already_lost<W: World>(world: &W) -> Law {
    let client = world.client();
    let guard = client.mutex(NAME).lease(world.ttl()).lock().await?;
    let early = guard.lost();
    within(world.ttl() + world.slack(), "the loss", early.clone()).await;
    for lost in [guard.lost(), guard.lost(), early] {
        assert!(lost.now_or_never().is_some());
    }
    assert!(guard.expiring(world.ttl() / 2).now_or_never().is_some());
    Ok(())
}

/// Law 41: a lock that is released or dropped is never reported as lost.
// Promise: L10
pub async fn lost_signal_not_on_release<W: World>(world: &W) -> Law {
    // A lease that a loaded machine does not outlast before the release.
    let lease = world.ttl() + world.slack();
    let client = world.brisk_over(lease, world.backend());
    let released = take(&client, "released").await?;
    let leased = client.mutex("leased").lease(lease).lock().await?;
    let dropped = take(&client, "dropped").await?;
    let waiting = [released.lost(), leased.lost(), dropped.lost()];
    let late = waiting.clone();
    released.release().await?;
    leased.release().await?;
    drop(dropped);
    let [a, b, c] = waiting;
    let reported = time::timeout(lease + world.ttl(), futures_util::future::select_all([a, b, c])).await;
    assert!(reported.is_err(), "a released lock was reported as lost");
    for lost in late {
        assert!(lost.now_or_never().is_none(), "a lock that was released long ago was reported as lost");
    }
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 42: a holder that cannot reach the store is notified of the loss before another client can get the lock.
// Promise: L7
pub async fn lost_before_server_expiry<W: World>(world: &W) -> Law {
    // `wire` is a connection to the store. The test can stop all requests on it.
    let wire = Stopped::new(world.backend());
    let (a, b) = (world.brisk_over(world.ttl(), wire.clone()), world.client());
    let guard = take(&a, NAME).await?;
    wire.stop(Which::Requests);
    // From now on, no renewal can extend the hold. So the client reports the loss at the time `loss`.
    let loss = world.clock().now() + guard.remaining();
    let notified = tokio::spawn(guard.lost());
    let next = within(world.ttl() + world.slack(), "the next holder", b.mutex(NAME).lock()).await?;
    assert!(guard.is_lost(), "two clients believe that they hold the lock");
    // The time `loss` is 5 ms before the earliest time at which the hold can expire in the store. Rounding can make
    // this difference 1 ms shorter. So at least 4 ms must pass between the loss and the next grant.
    let between = world.clock().now().since(loss);
    assert!(between >= Duration::from_millis(4), "only {between:?} passed between the loss and the next grant");
    within(world.slack(), "the notification of the loss", notified).await.expect("the task has panicked");
    next.release().await?;
    wire.go_on();
    drop(guard);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 45: a lost guard stays lost, even if the same client takes the lock again.
// Promise: L9
pub async fn lost_never_resurrects<W: World>(world: &W) -> Law {
    let (a, b) = (world.brisk(), world.client());
    let old = take(&a, NAME).await?;
    world.forget(NAME).await?;
    within(world.ttl() + world.slack(), "the loss", old.lost()).await;
    let new = within(MAX_WAIT, "a free lock", a.mutex(NAME).lock()).await?;
    assert!(new.fence() > old.fence());
    assert!(old.is_lost() && !new.is_lost());
    assert_eq!(error_kind(old.release().await), Some(ErrorKind::Lost));
    a.idle().await;
    assert!(!is_free(&b, NAME).await?, "the release of the old guard freed the new hold");
    assert!(!new.is_lost());
    new.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 48: a release after a loss fails with `ErrorKind::Lost`. `run` fails in the same way if the lock is lost while
/// its body runs.
// Promise: L9
pub async fn release_after_loss<W: World>(world: &W) -> Law {
    let client = world.client();
    let guard = client.mutex(NAME).lease(world.ttl()).lock().await?;
    guard.lost().await;
    let error = guard.release().await.expect_err("a release succeeded after a loss");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.key().map(bandog_core::Key::as_str), Some(NAME));
    let mutex = client.mutex(NAME).lease(world.ttl());
    let run = mutex.run(async |_| std::future::pending::<()>().await);
    assert_eq!(error_kind(within(MAX_WAIT, "`run` after a loss", run).await), Some(ErrorKind::Lost));
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 96: when an operator removes a hold from the store, a waiter gets the lock with a greater fence, and the holder
/// is notified of the loss.
// Promise: L8
pub async fn force_unlock<W: World>(world: &W) -> Law {
    let (a, b) = (world.brisk(), world.client());
    for _ in 0..5 {
        let guard = take(&a, NAME).await?;
        let waiting = start_waiter(&b).await;
        world.forget(NAME).await?;
        // The removal sends no notification. The waiter polls within a second, and then finds the free lock.
        let next = guard_of_waiter(waiting, Duration::from_secs(1) + world.slack()).await?;
        within(world.ttl() + world.slack(), "the loss", guard.lost()).await;
        assert!(next.fence() > guard.fence());
        assert_eq!(error_kind(guard.release().await), Some(ErrorKind::Lost));
        a.idle().await;
        if is_free(&a, NAME).await? {
            // On a loaded machine, the lease can be over before the removal, which then removes the hold of the waiter.
            assert_eq!(error_kind(next.release().await), Some(ErrorKind::Lost));
            continue;
        }
        next.release().await?;
        nothing_left(world, &[&a, &b]).await;
        return Ok(());
    }
    panic!("the lock was free five times, although the waiter had got it");
}
