//! Waiting for a lock that another client holds.

use bandog_core::Fence;
use tokio::time;

use crate::{
    Law, World,
    kit::{
        MAX_WAIT, NAME, answered_in_time, guard_of_waiter, is_free, nothing_left, start_waiter, take, until, within,
    },
    wrap::{Counting, Stopped, Which},
};

/// Law 15: after a client has released the lock, a waiter of another client soon has the lock.
// Promise: L11
pub async fn wait_then_get<W: World>(world: &W) -> Law {
    const ROUNDS: usize = 11;
    let (a, b) = (world.client(), world.client());
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let guard = take(&a, NAME).await?;
        let waiter = start_waiter(&b).await;
        let released = time::Instant::now();
        guard.release().await?;
        let guard = guard_of_waiter(waiter, world.slack()).await?;
        times.push(released.elapsed());
        guard.release().await?;
    }
    times.sort();
    // See `World::prompt`.
    assert!(times[ROUNDS / 4] <= world.prompt(), "the times between release and grant were {times:?}");
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 16: a wait with a limit returns `None` when the limit has passed, not earlier and not much later. The wait
/// leaves no data in the store. This law also holds if another call of the same client waits at the same time.
// Promise: L12
pub async fn wait_timeout<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let guard = take(&a, NAME).await?;
    for round in 0..2 {
        let other_waiter = if round == 0 { None } else { Some(start_waiter(&b).await) };
        // The short limits pass before the waiter polls again.
        for wait in [world.ttl() / 8, world.ttl() / 8, world.ttl()] {
            let got = answered_in_time(async || {
                let asked = time::Instant::now();
                let got = within(wait + world.slack(), "a wait", b.mutex(NAME).try_lock_for(wait)).await?;
                assert!(asked.elapsed() >= wait, "a wait of {wait:?} ended after {:?}", asked.elapsed());
                Ok(got)
            });
            assert!(got.await?.is_none());
        }
        if let Some(other_waiter) = other_waiter {
            other_waiter.abort();
            let _ = other_waiter.await;
        }
    }
    // When `idle` returns, all waiters have ended, and the store has removed their data.
    within(MAX_WAIT, "the last request", b.idle()).await;
    guard.release().await?;
    nothing_left(world, &[&a, &b]).await;
    assert!(is_free(&b, NAME).await?);
    Ok(())
}

/// Law 17: `try_lock_for` with a wait of zero does the same as `try_lock`: it makes one claim, and returns the guard if
/// the lock is free and `None` if the lock is held.
// Promise: L12
pub async fn zero_timeout_equals_try<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    let (a, b) = (world.client(), world.over(counts.clone()));
    let guard = take(&a, NAME).await?;
    assert!(b.mutex(NAME).try_lock_for(time::Duration::ZERO).await?.is_none());
    b.idle().await;
    assert_eq!((counts.claims(), counts.subscribes()), (1, 0));
    guard.release().await?;
    let guard = b.mutex(NAME).try_lock_for(time::Duration::ZERO).await?;
    guard.expect("the lock was refused, although it was free").release().await?;
    assert_eq!(counts.claims(), 2);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 18: a wait without a limit continues while the holder renews its hold, even for longer than the ttl.
pub async fn infinite_wait<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    // The ttl is long enough that a loaded machine does not renew the hold too late.
    let (a, b) = (world.brisk_over(world.ttl() * 4, counts.clone()), world.client());
    let guard = take(&a, NAME).await?;
    let waiter = start_waiter(&b).await;
    // `renewed` counts the successful renewals. The client renews its hold after each third of the ttl.
    until(|| counts.renewed() >= 5 || guard.is_lost()).await;
    assert!(!guard.is_lost(), "lost after {} renewals", counts.renewed());
    assert!(!waiter.is_finished());
    guard.release().await?;
    guard_of_waiter(waiter, world.slack()).await?.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 19: when the future of a waiter is dropped, the waiter no longer waits. Neither a hold nor a subscription of the
/// waiter stays in the store.
// Promise: L14
pub async fn cancel_waiter<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    let (a, b) = (world.client(), world.over(counts.clone()));
    let guard = take(&a, NAME).await?;
    let held = world.left().await;
    let first = start_waiter(&b).await;
    let second = start_waiter(&b).await;
    for waiter in [first, second] {
        waiter.abort();
        assert!(waiter.await.is_err());
    }
    until(|| counts.subscriptions() == 0).await;
    b.idle().await;
    bandog_testkit::eventually_async(world.slack(), async || match world.left().await {
        left if left == held => Ok(()),
        left => Err(left),
    })
    .await;
    guard.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 22: if a grant arrives after the future of its call was dropped, the client releases the lock.
// Promise: L14
pub async fn cancel_race_with_grant<W: World>(world: &W) -> Law {
    // `wire` is a connection to the store. The test can hold back all answers on it.
    let wire = Stopped::new(world.backend());
    let (a, b) = (world.client(), world.over(wire.clone()));
    wire.stop(Which::Answers);
    let asking = tokio::spawn({
        let mutex = b.mutex(NAME);
        async move { mutex.lock().await.map(drop) }
    });
    within(MAX_WAIT, "the claim", wire.until_held(1)).await;
    assert!(a.show(NAME).await?.is_held(), "the store has not granted the claim");
    asking.abort();
    assert!(asking.await.is_err());
    wire.go_on();
    nothing_left(world, &[&b]).await;
    assert!(is_free(&a, NAME).await?);
    Ok(())
}

/// Law 27: a lock can be released after a waiter's claim was refused and before the waiter has subscribed. Then the
/// waiter gets no notification of this release. But the waiter is not delayed, because it repeats its claim as soon as
/// it has subscribed.
// Promise: L11
pub async fn missed_wakeup<W: World>(world: &W) -> Law {
    let stopped = Stopped::new(world.backend());
    let counts = Counting::new(stopped.clone());
    let (a, b) = (world.client(), world.over(counts.clone()));
    let guard = take(&a, NAME).await?;
    stopped.stop(Which::Subscriptions);
    let waiting = tokio::spawn({
        let mutex = b.mutex(NAME);
        async move { mutex.lock().await }
    });
    within(MAX_WAIT, "the subscription request", stopped.until_held(1)).await;
    guard.release().await?;
    let claims = counts.claims();
    let asked = time::Instant::now();
    stopped.go_on();
    let guard = guard_of_waiter(waiting, world.slack()).await?;
    assert!(
        asked.elapsed() <= world.prompt() || counts.claims() == claims + 1,
        "the waiter found the free lock only when it polled"
    );
    assert!(guard.fence() > Fence::new(0));
    guard.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}
