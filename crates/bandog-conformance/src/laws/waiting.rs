//! Waiting for a lock that somebody else holds.

use bandog_core::Fence;
use tokio::time;

use crate::{
    Law, World,
    kit::{NAME, PATIENCE, is_free, nothing_left, served, take, until, waiter, within},
    wrap::{Counting, Stopped, Which},
};

/// Law 15: a waiter has the lock soon after another client has released it.
pub async fn wait_then_get<W: World>(world: &W) -> Law {
    const ROUNDS: usize = 11;
    let (a, b) = (world.client(), world.client());
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let guard = take(&a, NAME).await?;
        let waiter = waiter(&b).await;
        let released = time::Instant::now();
        guard.release().await?;
        let guard = served(waiter, world.slack()).await?;
        times.push(released.elapsed());
        guard.release().await?;
    }
    times.sort();
    assert!(times[ROUNDS / 2] <= world.prompt(), "waiters had the lock after {times:?}");
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 16: a wait with an end gives `None` when its time is up, not before and not much later, and leaves nothing;
/// beside another waiter of its client as well as alone.
pub async fn wait_timeout<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let guard = take(&a, NAME).await?;
    for round in 0..2 {
        let company = if round == 0 { None } else { Some(waiter(&b).await) };
        // The short ones are over before anybody would look again by itself.
        for wait in [world.ttl() / 8, world.ttl() / 8, world.ttl()] {
            let asked = time::Instant::now();
            let got = within(wait + world.slack(), "a wait", b.mutex(NAME).try_lock_for(wait)).await?;
            assert!(got.is_none());
            assert!(asked.elapsed() >= wait, "a wait of {wait:?} ended after {:?}", asked.elapsed());
        }
        if let Some(company) = company {
            company.abort();
        }
    }
    within(PATIENCE, "idling", b.idle()).await; // Nobody waits any more, and the store knows it.
    guard.release().await?;
    nothing_left(world, &[&a, &b]).await;
    assert!(is_free(&b, NAME).await?);
    Ok(())
}

/// Law 17: to wait for no time is to try: one claim, `None` if it is held, the lock if it is free.
pub async fn zero_timeout_equals_try<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    let (a, b) = (world.client(), world.over(counts.clone()));
    let guard = take(&a, NAME).await?;
    assert!(b.mutex(NAME).try_lock_for(time::Duration::ZERO).await?.is_none());
    b.idle().await;
    assert_eq!((counts.claims(), counts.listens()), (1, 0));
    guard.release().await?;
    let guard = b.mutex(NAME).try_lock_for(time::Duration::ZERO).await?;
    guard.expect("the lock is free").release().await?;
    assert_eq!(counts.claims(), 2);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 18: a wait without an end outlasts a hold that is renewed for much longer than its ttl.
pub async fn infinite_wait<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    let (a, b) = (world.brisk_over(world.ttl() * 2, counts.clone()), world.client());
    let guard = take(&a, NAME).await?;
    let waiter = waiter(&b).await;
    until(|| counts.renewed() >= 8).await; // Renewed at each third of the ttl.
    assert!(!waiter.is_finished());
    assert!(!guard.is_lost());
    guard.release().await?;
    served(waiter, world.slack()).await?.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 19: a waiter whose future is dropped leaves no place in a queue, no hold and no bell.
pub async fn cancel_waiter<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    let (a, b) = (world.client(), world.over(counts.clone()));
    let guard = take(&a, NAME).await?;
    let held = world.left().await;
    let first = waiter(&b).await;
    let second = waiter(&b).await;
    for waiter in [first, second] {
        waiter.abort();
        assert!(waiter.await.is_err());
    }
    until(|| counts.bells() == 0).await;
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

/// Law 22: a grant that arrives after its caller has gone is given back.
pub async fn cancel_race_with_grant<W: World>(world: &W) -> Law {
    let wire = Stopped::new(world.backend());
    let (a, b) = (world.client(), world.over(wire.clone()));
    wire.stop(Which::Answers);
    let asking = tokio::spawn({
        let mutex = b.mutex(NAME);
        async move { mutex.lock().await.map(drop) }
    });
    within(PATIENCE, "the claim", wire.until_held(1)).await;
    assert!(a.show(NAME).await?.held, "it was granted, and nobody knows");
    asking.abort();
    assert!(asking.await.is_err());
    wire.go_on();
    nothing_left(world, &[&b]).await;
    assert!(is_free(&a, NAME).await?);
    Ok(())
}

/// Law 27: a release between a refused claim and the bell costs a waiter nothing: it looks again when it listens.
pub async fn missed_wakeup<W: World>(world: &W) -> Law {
    let ear = Stopped::new(world.backend());
    let counts = Counting::new(ear.clone());
    let (a, b) = (world.client(), world.over(counts.clone()));
    let guard = take(&a, NAME).await?;
    ear.stop(Which::Listening);
    let waiting = tokio::spawn({
        let mutex = b.mutex(NAME);
        async move { mutex.lock().await }
    });
    within(PATIENCE, "listening", ear.until_held(1)).await;
    guard.release().await?;
    let claims = counts.claims();
    let asked = time::Instant::now();
    ear.go_on();
    let guard = served(waiting, world.slack()).await?;
    assert!(asked.elapsed() <= world.prompt() || counts.claims() == claims + 1, "it looked again by chance");
    assert!(guard.fence() > Fence::new(0));
    guard.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}
