//! Stores that are killed, broken connections, and lost answers.

use std::time::Duration;

use bandog_core::{Error, ErrorKind};
use bandog_sync::{Client, Guard};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    Law, Unkept, World,
    kit::{MAX_WAIT, NAME, error_kind, guard_of_waiter, is_free, nothing_left, start_waiter, take, within},
    wrap::{Fate, Lossy},
};

/// Law 82: when the store restarts without its data, the holder of a lock is notified of the loss, and a waiter gets
/// the lock with a fence that is greater than all earlier fences.
// Promise: L8, MY5, PG5, RD6
pub async fn server_restart<W: World>(world: &W) -> Law {
    // The holds of a `brisk` client have the short ttl `world.ttl()`. They expire if the client does not renew them.
    let (a, b) = (world.brisk(), world.client());
    let guard = take(&a, NAME).await?;
    let waiting = start_waiter(&b).await;
    world.restart_empty().await?;
    let next = guard_of_waiter(waiting, MAX_WAIT).await?;
    within(world.ttl() + world.slack(), "the loss", guard.lost()).await;
    assert!(next.fence() > guard.fence());
    assert_eq!(error_kind(guard.release().await), Some(ErrorKind::Lost));
    next.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 83: if the answer to a claim is lost, the client repeats the claim, and the store grants the claim only once. If
/// the caller drops the future before the answer, the claim leaves no hold, even if the store applies the claim late.
// Promise: L15
pub async fn ambiguous_acquire<W: World>(world: &W) -> Law {
    // `wire` is a connection to the store. The test chooses which calls this connection loses.
    let wire = Lossy::new(world.backend());
    let (a, b) = (world.over(wire.clone()), world.client());
    // If the store has never answered a client, the calls of this client fail during a fault. After the first answer,
    // calls wait until the fault ends. So the client makes one call before the faults.
    take(&a, NAME).await?.release().await?;
    let timeout = bandog_core::Leases::profile(&wire).timeout;
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Late(timeout / 20), Fate::Late(timeout / 2)] {
        wire.next([fate]); // The next request has this fate.
        let guard = within(MAX_WAIT, "a claim whose answer was lost", a.mutex(NAME).lock()).await?;
        assert!(!is_free(&b, NAME).await?);
        guard.release().await?;
        nothing_left(world, &[&a]).await;

        wire.next([fate, Fate::Refused]);
        let asking = tokio::spawn({
            let mutex = a.mutex(NAME);
            async move { mutex.lock().await.map(drop) }
        });
        crate::kit::until(|| wire.pending() == 0).await;
        asking.abort();
        // The call is dropped when its task has ended, and not before. It can have got the lock meanwhile.
        let _ = asking.await;
        nothing_left(world, &[&a]).await;
        assert!(is_free(&b, NAME).await?, "a dropped call left a hold after {fate:?}");
    }
    Ok(())
}

/// Law 83, with faults in the real connection: the store grants a claim, and the answer is lost.
pub async fn ambiguous_acquire_on_the_wire<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let asking = granted_without_answer(world, &a, NAME).await?;
    world.lose_answers(false).await?;
    let guard = guard_of_waiter(asking, MAX_WAIT).await?;
    assert!(!is_free(&b, NAME).await?);

    let dropped = granted_without_answer(world, &a, "dropped").await?;
    dropped.abort();
    let _ = dropped.await;
    world.lose_answers(false).await?;
    guard.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Starts a claim that the store grants while its answers are lost. A claim over a new connection does not reach the store
/// then, so another one follows it.
async fn granted_without_answer<W: World>(
    world: &W,
    client: &Client,
    name: &str,
) -> Result<JoinHandle<Result<Guard, Error>>, Unkept> {
    for _ in 0..5 {
        take(client, name).await?.release().await?;
        let before = world.left().await.len();
        world.lose_answers(true).await?;
        let claim = tokio::spawn({
            let mutex = client.mutex(name);
            async move { mutex.lock().await }
        });
        let granted = async {
            while world.left().await.len() == before {
                sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(MAX_WAIT / 4, granted).await.is_ok() {
            return Ok(claim);
        }
        claim.abort();
        let _ = claim.await;
        world.lose_answers(false).await?;
        within(MAX_WAIT, "the last request of a client", client.idle()).await;
    }
    panic!("the store grants no claim while its answers are lost");
}

/// Law 83, with a stopped store: the store continues after the request timeout, and grants a claim whose caller no
/// longer waits. The client releases the hold of this claim.
// Promise: L15
pub async fn ambiguous_acquire_while_it_stands_still<W: World>(world: &W) -> Law {
    let client = world.client();
    take(&client, NAME).await?.release().await?;
    world.stand_still(true).await?;
    let mutex = client.mutex(NAME);
    let tried = within(MAX_WAIT, "`try_lock` during a standstill", mutex.try_lock()).await;
    assert_eq!(error_kind(tried), Some(ErrorKind::Unavailable));
    world.stand_still(false).await?;
    let guard = within(MAX_WAIT, "a lock after a standstill", mutex.lock()).await?;
    guard.release().await?;
    nothing_left(world, &[&client]).await;

    let guard = take(&client, NAME).await?;
    world.stand_still(true).await?;
    assert_eq!(error_kind(within(MAX_WAIT, "a release", guard.release()).await), Some(ErrorKind::Unavailable));
    world.stand_still(false).await?;
    nothing_left(world, &[&client]).await;
    assert!(is_free(&client, NAME).await?);
    Ok(())
}

/// Law 84: if the answer to a release is lost, the client repeats the release until it succeeds. Then the lock is free.
// Promise: L15
pub async fn ambiguous_release<W: World>(world: &W) -> Law {
    let wire = Lossy::new(world.backend());
    let (a, b) = (world.over(wire.clone()), world.client());
    let timeout = bandog_core::Leases::profile(&wire).timeout;
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Refused, Fate::Late(timeout / 20)] {
        let guard = take(&a, NAME).await?;
        wire.next([fate]);
        within(MAX_WAIT, "a release whose answer was lost", guard.release()).await?;
        assert!(is_free(&b, NAME).await?, "the lock is still held after {fate:?}");
        nothing_left(world, &[&a]).await;
    }
    Ok(())
}

/// Law 85: a broken connection does not affect later calls.
// Promise: RD5
pub async fn broken_connection<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let kept = take(&a, "kept").await?;
    for _ in 0..5 {
        world.cut().await?;
        let guard = within(MAX_WAIT, "a lock after a cut", a.mutex(NAME).lock()).await?;
        world.cut().await?;
        let waiting = start_waiter(&b).await;
        world.cut().await?;
        within(MAX_WAIT, "a release after a cut", guard.release()).await?;
        guard_of_waiter(waiting, MAX_WAIT).await?.release().await?;
    }
    assert!(!kept.is_lost());
    kept.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 86: if clients take, await and release a lock a thousand times, they need no more connections than for the first
/// time.
pub async fn no_connection_leak<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let cycle = async |number: u32| {
        let guard = take(&a, NAME).await?;
        let waiting = if number.is_multiple_of(10) { Some(start_waiter(&b).await) } else { None };
        guard.release().await?;
        match waiting {
            Some(waiting) => guard_of_waiter(waiting, MAX_WAIT).await?.release().await,
            None => Ok(()),
        }
    };
    cycle(0).await?;
    let before = world.connections().await?;
    for number in 0..1000 {
        cycle(number).await?;
    }
    let after = world.connections().await?;
    assert!(after <= before, "the number of connections rose from {before} to {after}");
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}
