//! Fences. A fence is the number of a grant. The names of some laws call it a token. A holder sends its fence with each
//! write to a resource. So the resource can refuse the write of a holder that has lost its lock and has not noticed the
//! loss.

use std::{
    iter,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
};

use bandog_core::{Claim, Fence, MAX_BLOCK};
use bandog_sync::Client;
use tokio::time;

use crate::{
    Law, World,
    kind_kit::each_sole,
    kit::{MAX_WAIT, NAME, assert_again, claim, nothing_left, release, take, within},
};

/// Law 49: a fence is greater than every earlier fence of its key. This is true in three cases: after a client has
/// released the lock, after a lease has expired, and after a hold was removed from the store. In each case, the next
/// holder can be the same client or another client.
// Promise: L5
pub async fn token_monotonic<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let mut last_fence = Fence::new(0);
    let mut assert_greater = |fence: Fence| {
        assert!(fence > last_fence, "the fence {fence} is not greater than the earlier fence {last_fence}");
        last_fence = fence;
    };
    for client in [&a, &b, &a, &a, &b] {
        let guard = take(client, NAME).await?;
        assert_greater(guard.fence());
        guard.release().await?;

        let expired = client.mutex(NAME).lease(world.ttl() / 2).lock().await?;
        assert_greater(expired.fence());
        let next = within(MAX_WAIT, "an expired lease", world.client().mutex(NAME).lock()).await?;
        assert_greater(next.fence());
        next.release().await?;

        let turns = (0..70).map(|_| client.mutex(NAME)).map(|mutex| async move {
            let guard = mutex.lock().await?;
            let fence = guard.fence();
            guard.release().await.map(|()| fence)
        });
        for fence in futures_util::future::try_join_all(turns).await? {
            assert_greater(fence);
        }
    }
    let guard = take(&a, NAME).await?;
    assert_greater(guard.fence());
    world.forget(NAME).await?;
    let next = take(&b, NAME).await?;
    assert_greater(next.fence());
    Ok(())
}

/// Law 49: a grant reserves a block of fences: at least one fence, and at most as many as the claim requested. A
/// repeated claim gets the same block. The fences of a later block are greater.
// Promise: L5
pub async fn fences_of_a_grant<W: World>(world: &W) -> Law {
    let backend = world.backend();
    let result = each_sole(world, async |sole| {
        let mut last_fence = Fence::new(0);
        for requested in [NonZeroU32::MIN, NonZeroU32::MIN.saturating_add(4), MAX_BLOCK] {
            // This test sends its claims directly to the backend. `slack` is the maximum delay of an event on a loaded
            // machine.
            let held = Claim { fences: requested, ..sole.claim(world.slack() * 10) };
            let first = claim(&backend, &held).await?.expect("the lock is free");
            let granted = claim(&backend, &held).await?.expect("the claim holds the lock");
            assert_again(world, &granted, &first);
            let mut block = granted.clone();
            let fences: Vec<_> = iter::from_fn(|| block.take()).collect();
            assert!((1..=MAX_BLOCK.min(requested).get() as usize).contains(&fences.len()), "{requested}: {granted:?}");
            for fence in fences {
                assert!(fence > last_fence, "{fence} after {last_fence}");
                last_fence = fence;
            }
            assert_eq!(last_fence, granted.last());
            assert!(release(&backend, &held).await?);
        }
        Ok(())
    })
    .await;
    nothing_left(world, &[]).await;
    result
}

/// Law 50: the guards of a re-entrant lock have the same fence.
// Promise: L18
pub async fn token_same_on_reentry<W: World>(world: &W) -> Law {
    let client = world.client();
    let owner = client.owner();
    let mutex = client.mutex(NAME).by(&owner);
    let first = mutex.lock().await?;
    let second = mutex.lock().await?;
    let third = mutex.try_lock().await?.expect("an owner could not lock its own lock again");
    assert_eq!(first.fence(), second.fence());
    assert_eq!(first.fence(), third.fence());
    drop(first);
    assert_eq!(mutex.lock().await?.fence(), third.fence());
    let fence = third.fence();
    drop((second, third));
    client.idle().await;
    assert!(mutex.lock().await?.fence() > fence);
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 51: after a store has lost its data, its new fences are greater than its fences before the loss.
// Promise: L5
pub async fn token_after_backend_restart<W: World>(world: &W) -> Law {
    let client = world.client();
    let guard = take(&client, NAME).await?;
    let before = guard.fence();
    guard.release().await?;
    world.restart_empty().await?;
    let guard = within(MAX_WAIT, "a lock after a restart", client.mutex(NAME).lock()).await?;
    assert!(guard.fence() > before, "the fence {} is not greater than {before}", guard.fence());
    guard.release().await?;
    Ok(())
}

/// Law 52: a resource that refuses old fences loses no update, even if its writers pause for longer than their leases.
// Promise: L6
pub async fn fenced_counter<W: World>(world: &W) -> Law {
    const TASKS: u64 = 4;
    const ADDITIONS: u64 = 5;
    let (a, b) = (world.client(), world.client());
    let resource = Fenced::default();

    // One writer pauses for longer than its lease, and does not check its guard before it writes.
    let late = a.mutex(NAME).lease(world.ttl()).lock().await?;
    let read = resource.read(late.fence()).expect("the first fence was refused");
    let next = within(MAX_WAIT, "an expired lease", b.mutex(NAME).lock()).await?;
    // `read` and `newer` are the numbers that the first and the second writer have read.
    let newer = resource.read(next.fence()).expect("a greater fence was refused");
    assert!(!resource.write(late.fence(), read + 1), "a write with an old fence was accepted");
    assert!(resource.write(next.fence(), newer + 1));
    drop((late, next));

    let tasks: Vec<_> = (0..TASKS)
        .map(|seed| {
            let client = if seed % 2 == 0 { a.clone() } else { b.clone() };
            let (resource, ttl) = (resource.clone(), world.ttl());
            tokio::spawn(add(client, resource, seed, ADDITIONS, ttl / 3))
        })
        .collect();
    for task in tasks {
        within(MAX_WAIT * 3, "a writer", task).await.expect("the task has panicked")?;
    }
    assert_eq!(resource.value(), TASKS * ADDITIONS + 1);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Adds one to the number in the resource, again and again, until the resource has accepted `times` additions. Between
/// reading and writing, the task pauses for up to twice the time `lease`.
async fn add(
    client: Client,
    resource: Fenced,
    seed: u64,
    times: u64,
    lease: time::Duration,
) -> bandog_core::Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut done = 0;
    while done < times {
        let guard = client.mutex(NAME).lease(lease.max(time::Duration::from_millis(100))).lock().await?;
        let Some(read) = resource.read(guard.fence()) else { continue };
        time::sleep(lease.mul_f64(random.f64() * 2.0)).await;
        done += u64::from(resource.write(guard.fence(), read + 1));
    }
    Ok(())
}

/// A resource: a number that is protected by fences. A read or a write is refused if its fence is lower than the
/// greatest fence so far.
#[derive(Clone, Default)]
struct Fenced(Arc<Mutex<(Option<Fence>, u64)>>);

impl Fenced {
    /// The number. `None` if the fence is refused.
    fn read(&self, fence: Fence) -> Option<u64> {
        self.with(fence, |value| *value)
    }

    /// Replaces the number. Returns false if the fence is refused.
    fn write(&self, fence: Fence, new: u64) -> bool {
        self.with(fence, |value| *value = new).is_some()
    }

    fn value(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Checks the fence, and then accesses the number. `None` if the fence is refused.
    fn with<T>(&self, fence: Fence, act: impl FnOnce(&mut u64) -> T) -> Option<T> {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.0.is_some_and(|last| fence < last) {
            return None;
        }
        inside.0 = Some(fence);
        Some(act(&mut inside.1))
    }
}
