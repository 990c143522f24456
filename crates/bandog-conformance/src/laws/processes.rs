//! Holders in other processes, which may be killed or stopped.

use std::time::Duration;

use bandog_sync::Client;
use bandog_testkit::eventually_async;

use crate::{
    Law, World,
    child::Child,
    kit::{NAME, PATIENCE, is_free, served, waiter, within},
};

/// How long a child's hold lasts when nobody renews it.
const TTL: Duration = Duration::from_millis(500);

/// Law 79: processes exclude each other: what one holds, the other does not get, and a counter in a file loses nothing.
pub async fn cross_process_exclusion<W: World>(world: &W) -> Law {
    const ADDITIONS: u32 = 25;
    let client = world.client();
    let mut child = Child::start(world, TTL)?;
    child.tell("lock");
    let fence: u64 = child.says("locked").parse().expect("a fence");
    assert!(!is_free(&client, NAME).await?);
    let waiting = waiter(&client).await;
    child.tell("release");
    child.says("released");
    let guard = served(waiting, PATIENCE).await?;
    assert!(guard.fence().get() > fence);
    guard.release().await?;

    let counter = child.counter();
    let mut others = [Child::start(world, TTL)?, Child::start(world, TTL)?];
    let mut children: Vec<_> = std::iter::once(&mut child).chain(&mut others).collect();
    for child in &mut children {
        child.tell(&format!("add {ADDITIONS} {}", counter.display()));
    }
    for child in &children {
        child.says("added");
    }
    let sum: u32 = std::fs::read_to_string(&counter).expect("the counter").parse().expect("a number");
    assert_eq!(sum, ADDITIONS * 3);
    Ok(())
}

/// Law 80: when a holder is killed, the next waiter has the lock within its ttl and a second.
pub async fn kill_holder<W: World>(world: &W) -> Law {
    let client = world.client();
    let mut child = Child::start(world, TTL)?;
    child.tell("lock");
    child.says("locked");
    let waiting = waiter(&client).await;
    child.kill();
    served(waiting, TTL + Duration::from_secs(1) + world.slack() / 2).await?.release().await?;
    Ok(())
}

/// Law 81: when a holder's process ends without giving the lock back, the next waiter has it within its ttl.
pub async fn holder_exits<W: World>(world: &W) -> Law {
    let client = world.client();
    let mut child = Child::start(world, TTL)?;
    child.tell("lock");
    child.says("locked");
    let waiting = waiter(&client).await;
    child.tell("exit");
    served(waiting, TTL + world.slack()).await?.release().await?;
    Ok(())
}

/// Stops a child when it keeps nobody out of the store: inside a write to a file it may keep everybody out, which is
/// another matter.
async fn stop_between_requests(child: &mut Child, client: &Client) {
    for _ in 0..20 {
        child.stop();
        match client.mutex("another").try_lock().await {
            Ok(_) => return,
            Err(_) => child.go_on(),
        }
    }
    panic!("the child kept everybody out at each of 20 stops");
}

/// Law 46: a holder that was stopped past its ttl knows of its loss as soon as it goes on, and a store that checks
/// fences refuses its write.
pub async fn paused_process<W: World>(world: &W) -> Law {
    let client = world.client();
    let mut child = Child::start(world, TTL)?;
    child.tell("lock");
    let stale: u64 = child.says("locked").parse().expect("a fence");
    stop_between_requests(&mut child, &client).await;
    let guard = within(TTL + world.slack(), "the lock of a stopped holder", client.mutex(NAME).lock()).await?;
    assert!(guard.fence().get() > stale, "a store that has seen {} refuses {stale}", guard.fence());
    child.tell("look"); // It lies in its pipe until the child goes on, so it is the first thing that the child does.
    child.go_on();
    assert_eq!(child.says("looked"), "lost");
    eventually_async(PATIENCE, async || child.heard("told")).await;
    child.tell("release");
    assert_eq!(child.says("not released"), "Lost");
    assert!(!guard.is_lost());
    guard.release().await?;
    Ok(())
}
