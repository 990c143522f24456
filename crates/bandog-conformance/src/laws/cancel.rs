//! Futures that are dropped at any await.

use std::time::Duration;

use bandog_sync::{Client, Mutex};
use tokio::time;

use crate::{
    Census, Law, World,
    kit::{MAX_WAIT, is_free, nothing_left, polled_at_most, take, within},
    wrap::Delayed,
};

/// Law 20: a caller can drop the future of its call at any await. Even then, no lock stays held, no data stay in the
/// store, and two tasks never hold the lock at the same time.
// Promise: L14, Z6
pub async fn cancel_at_every_await<W: World>(world: &W) -> Law {
    const TASKS: u64 = 6;
    const ROUNDS: usize = 60;
    /// Maximum time that a call gets on a fast store.
    const PATIENCE: Duration = Duration::from_millis(8);
    let slow_backend = |seed| Delayed::new(world.backend(), seed, Duration::from_millis(1), Duration::from_millis(3));
    let clients = [world.over(slow_backend(1)), world.over(slow_backend(2))];
    // Some calls must complete, so on a slow store or machine the calls get more time. The first call may be slower.
    take(&clients[0], "one").await?.release().await?;
    let start = time::Instant::now();
    take(&clients[0], "one").await?.release().await?;
    let patience = start.elapsed().max(PATIENCE);
    let census = Census::default(); // The census panics if two tasks hold the same lock.
    let task = |seed: u64| {
        let (client, census) = (clients[usize::from(seed.is_multiple_of(2))].clone(), census.clone());
        tokio::spawn(async move { some_calls(&client, &census, seed, ROUNDS, patience).await })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    for task in tasks {
        within(MAX_WAIT, "a task that drops futures of calls", task).await.expect("a task has panicked")?;
    }
    assert!(census.entered() > 0);
    let [a, b] = &clients;
    nothing_left(world, &[a, b]).await;
    assert!(is_free(a, "one").await? && is_free(b, "two").await?);
    Ok(())
}

/// Makes one call after another. The future of most calls is dropped before the call has completed.
async fn some_calls(
    client: &Client,
    census: &Census,
    seed: u64,
    rounds: usize,
    patience: Duration,
) -> bandog_core::Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..rounds {
        let mutex = client.mutex(if random.bool() { "one" } else { "two" });
        let (polls, patience) = (random.usize(1..5), patience.mul_f64(random.f64()));
        let call = one_call(&mutex, census, random.fork());
        if let Ok(Some(result)) = time::timeout(patience, polled_at_most(polls, call)).await {
            result?;
        }
    }
    Ok(())
}

/// Takes the lock with a random method, and then releases the lock or drops the guard.
async fn one_call(mutex: &Mutex, census: &Census, mut random: fastrand::Rng) -> bandog_core::Result<()> {
    let guard = match random.u8(..4) {
        0 => Some(mutex.lock().await?),
        1 => mutex.try_lock().await?,
        2 => mutex.try_lock_for(Duration::from_secs(1)).await?,
        _ => return mutex.run(async |guard| drop(census.enter(guard))).await,
    };
    let Some(guard) = guard else { return Ok(()) };
    let stay = census.enter(&guard);
    tokio::task::yield_now().await;
    drop(stay);
    if random.bool() { guard.release().await } else { Ok(()) }
}
