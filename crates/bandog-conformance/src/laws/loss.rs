//! Holders that have lost their lock are told, and stay told.

use std::time::Duration;

use bandog_core::ErrorKind;
use futures_util::FutureExt;
use tokio::time;

use crate::{
    Law, World,
    kit::{NAME, PATIENCE, is_free, kind, nothing_left, served, take, waiter, within},
    wrap::{Stopped, Which},
};

/// Law 39: when its hold is taken away in the store, a holder is told by the next renewal.
pub async fn lost_signal_on_kill<W: World>(world: &W) -> Law {
    let client = world.brisk();
    let guard = take(&client, NAME).await?;
    assert!(guard.lost().now_or_never().is_none());
    world.forget(NAME).await?;
    within(world.ttl() / 3 + world.slack(), "being told", guard.lost()).await;
    assert!(guard.is_lost());
    assert!(guard.remaining().is_zero());
    drop(guard);
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 40: who asks late is told at once, as often as they ask.
pub async fn lost_signal_already_lost<W: World>(world: &W) -> Law {
    let client = world.client();
    let guard = client.mutex(NAME).lease(world.ttl()).lock().await?;
    let early = guard.lost();
    within(world.ttl() + world.slack(), "being told", early.clone()).await;
    for lost in [guard.lost(), guard.lost(), early] {
        assert!(lost.now_or_never().is_some());
    }
    assert!(guard.expiring(world.ttl() / 2).now_or_never().is_some());
    Ok(())
}

/// Law 41: a lock that is released, or dropped, has not been lost: nobody is told so, however late they look.
pub async fn lost_signal_not_on_release<W: World>(world: &W) -> Law {
    let client = world.brisk();
    let released = take(&client, "released").await?;
    let leased = client.mutex("leased").lease(world.ttl()).lock().await?;
    let dropped = take(&client, "dropped").await?;
    let waiting = [released.lost(), leased.lost(), dropped.lost()];
    let late = waiting.clone();
    released.release().await?;
    leased.release().await?;
    drop(dropped);
    let [a, b, c] = waiting;
    let told = time::timeout(world.ttl() * 3, futures_util::future::select_all([a, b, c])).await;
    assert!(told.is_err(), "a released lock was called lost");
    for lost in late {
        assert!(lost.now_or_never().is_none(), "a lock that was released long ago was called lost");
    }
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 42: a holder that is cut off from the store is told strictly before anybody else is let in.
pub async fn lost_before_server_expiry<W: World>(world: &W) -> Law {
    let wire = Stopped::new(world.backend());
    let (a, b) = (world.brisk_over(world.ttl(), wire.clone()), world.client());
    let guard = take(&a, NAME).await?;
    wire.stop(Which::Requests);
    let deadline = world.clock().now() + guard.remaining(); // No renewal can move it any more.
    let told = tokio::spawn(guard.lost());
    let next = within(world.ttl() + world.slack(), "the next holder", b.mutex(NAME).lock()).await?;
    assert!(guard.is_lost(), "two believe that they hold the lock");
    let ahead = world.clock().now().since(deadline);
    assert!(ahead >= Duration::from_millis(4), "told {ahead:?} before the next was let in"); // 5, less what is rounded.
    within(world.slack(), "the task that is told", told).await.expect("it goes on");
    next.release().await?;
    wire.go_on();
    drop(guard);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 45: what was lost stays lost, although the same client takes the lock again.
pub async fn lost_never_resurrects<W: World>(world: &W) -> Law {
    let (a, b) = (world.brisk(), world.client());
    let old = take(&a, NAME).await?;
    world.forget(NAME).await?;
    within(world.ttl() + world.slack(), "being told", old.lost()).await;
    let new = within(PATIENCE, "a free lock", a.mutex(NAME).lock()).await?;
    assert!(new.fence() > old.fence());
    assert!(old.is_lost() && !new.is_lost());
    assert_eq!(kind(old.release().await), Some(ErrorKind::Lost));
    a.idle().await;
    assert!(!is_free(&b, NAME).await?, "the old guard's end freed the new hold");
    assert!(!new.is_lost());
    new.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 48: a release after a loss is an error value that says so; so is the end of a body that ran under the lock.
pub async fn release_after_loss<W: World>(world: &W) -> Law {
    let client = world.client();
    let guard = client.mutex(NAME).lease(world.ttl()).lock().await?;
    guard.lost().await;
    let error = guard.release().await.expect_err("it was lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.key().map(bandog_core::Key::as_str), Some(NAME));
    let mutex = client.mutex(NAME).lease(world.ttl());
    let run = mutex.run(async |_| std::future::pending::<()>().await);
    assert_eq!(kind(within(PATIENCE, "the body's end", run).await), Some(ErrorKind::Lost));
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 96: a lock that an operator frees in the store can be had by others; its holder is told, and fences rise.
pub async fn force_unlock<W: World>(world: &W) -> Law {
    let (a, b) = (world.brisk(), world.client());
    let guard = take(&a, NAME).await?;
    let waiting = waiter(&b).await;
    world.forget(NAME).await?;
    // Nobody rings, so it looks again within a second.
    let next = served(waiting, Duration::from_secs(1) + world.slack()).await?;
    within(world.ttl() + world.slack(), "being told", guard.lost()).await;
    assert!(next.fence() > guard.fence());
    assert_eq!(kind(guard.release().await), Some(ErrorKind::Lost));
    a.idle().await;
    assert!(!is_free(&a, NAME).await?);
    next.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}
