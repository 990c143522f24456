//! Locks that child processes of the test hold. These processes exit, are killed, or are stopped.

use std::time::Duration;

use bandog_core::{Backend, Kind};
use bandog_sync::Client;
use bandog_testkit::eventually_async;

use crate::{
    Law, World,
    child::Child,
    kind_kit::attempt,
    kit::{MAX_WAIT, NAME, guard_of_waiter, is_free, release, start_waiter, within},
};

/// The ttl of a child's hold that expires during the law.
const TTL: Duration = Duration::from_millis(500);

/// The ttl of a child's hold that must not expire, also on a machine on which the child does not run for seconds.
const LONG_TTL: Duration = MAX_WAIT;

/// Law 79: at most one process holds a lock at a time. So no addition to a counter in a file is lost if the lock
/// protects the file.
// Promise: L1, MY1, PG1, RD1, SQ1
pub async fn cross_process_exclusion<W: World>(world: &W) -> Law {
    const ADDITIONS: u32 = 25;
    let client = world.client();
    let mut child = Child::start(world, LONG_TTL)?;
    child.send("lock");
    let fence: u64 = child.says("locked").parse().expect("the fence is not a number");
    assert!(!is_free(&client, NAME).await?);
    let waiting = start_waiter(&client).await;
    child.send("release");
    child.says("released");
    let guard = guard_of_waiter(waiting, MAX_WAIT).await?;
    assert!(guard.fence().get() > fence);
    guard.release().await?;

    let counter = child.make_counter();
    let mut others = [Child::start(world, LONG_TTL)?, Child::start(world, LONG_TTL)?];
    let mut children: Vec<_> = std::iter::once(&mut child).chain(&mut others).collect();
    for child in &mut children {
        child.send(&format!("add {ADDITIONS} {}", counter.display()));
    }
    for child in &children {
        child.says_within(MAX_WAIT * 3, "added");
    }
    let sum: u32 = std::fs::read_to_string(&counter).expect("cannot read the counter").parse().expect("not a number");
    assert_eq!(sum, ADDITIONS * 3);
    Ok(())
}

/// Law 80: when the process of a holder is killed, the next waiter gets the lock within the ttl plus one second.
// Promise: L4
pub async fn kill_holder<W: World>(world: &W) -> Law {
    let client = world.client();
    let mut child = Child::start(world, TTL)?;
    child.send("lock");
    child.says("locked");
    let waiting = start_waiter(&client).await;
    child.kill();
    guard_of_waiter(waiting, TTL + Duration::from_secs(1) + world.slack() / 2).await?.release().await?;
    Ok(())
}

/// Law 81: when the process of a holder exits without a release, the next waiter gets the lock within the ttl.
// Promise: L4
pub async fn holder_exits<W: World>(world: &W) -> Law {
    let client = world.client();
    let mut child = Child::start(world, TTL)?;
    child.send("lock");
    child.says("locked");
    let waiting = start_waiter(&client).await;
    child.send("exit");
    guard_of_waiter(waiting, TTL + world.slack()).await?.release().await?;
    Ok(())
}

/// Stops a child at a moment when the child does not block the store or the lock [`NAME`]. If a child is stopped while it
/// writes to the file of a store, other processes cannot use the store. If it is stopped inside a transaction of a
/// database, other transactions wait for the row of the lock. In these cases, this function continues the child, and then
/// stops the child again.
pub(super) async fn stop_between_requests(child: &mut Child, client: &Client, backend: &impl Backend, kind: Kind) {
    for _ in 0..20 {
        child.stop();
        let uses_store = client.mutex("another").try_lock().await;
        // A release changes nothing, as this claim holds nothing. But it waits for the row of the lock.
        let uses_lock = release(backend, &attempt(kind, NAME)).await;
        match (uses_store, uses_lock) {
            (Ok(_), Ok(_)) => return,
            (Err(_), _) | (_, Err(_)) => child.go_on(),
        }
    }
    panic!("the child blocked the store at each of 20 stops");
}

/// Law 46: if a process was stopped for longer than the ttl of its lock, the process notices the loss as soon as it
/// continues. A resource that checks fences refuses the write of this process, because the next holder has a greater
/// fence.
// Promise: L6, L27
pub async fn paused_process<W: World>(world: &W) -> Law {
    let client = world.client();
    let mut child = Child::start(world, TTL)?;
    child.send("lock");
    let old_fence: u64 = child.says("locked").parse().expect("the fence is not a number");
    stop_between_requests(&mut child, &client, &world.backend(), Kind::Mutex).await;
    let guard = within(TTL + world.slack(), "the lock of a stopped holder", client.mutex(NAME).lock()).await?;
    assert!(guard.fence().get() > old_fence, "the new fence {} is not greater than {old_fence}", guard.fence());
    // The command is in the child's pipe before the child continues. So the child checks its guard as soon as it
    // continues.
    child.send("check");
    child.go_on();
    assert_eq!(child.says("checked"), "lost");
    eventually_async(MAX_WAIT, async || child.has_said("loss")).await;
    child.send("release");
    assert_eq!(child.says("not released"), "Lost");
    assert!(!guard.is_lost());
    guard.release().await?;
    Ok(())
}
