//! Several locks that one call takes together ([`bandog_sync::all`]).

use std::{collections::BTreeSet, time::Duration};

use bandog_core::{Inspect, Pattern};
use bandog_sync::{All, AnyLock, Client, SharedHold, all};

use super::admin::can_evict;
use crate::{
    Law, World,
    kind_kit::{KINDS, needs},
    kit::{MAX_WAIT, answered_in_time, error_kind, nothing_left, within},
};

/// The names of the locks, in the order of their keys.
const NAMES: [&str; 3] = ["account", "book", "copy"];
/// The number of permits of the semaphore.
const PERMITS: u32 = 2;

/// One lock of each family.
fn locks(client: &Client) -> [AnyLock; 3] {
    let [account, book, copy] = NAMES;
    let permits = client.semaphore(copy, PERMITS).permits(PERMITS);
    [client.mutex(account).into(), AnyLock::write(&client.rwlock(book)).into(), permits.into()]
}

/// The names that are held.
async fn held(backend: &impl Inspect) -> Result<BTreeSet<String>, bandog_core::Error> {
    Ok(backend.list(&Pattern::all()).await?.into_iter().map(|row| row.name).collect())
}

/// Law 75: a call for several locks gets all of them or none. It has one deadline. A release frees all of them.
// Promise: K17
pub async fn all_or_nothing<W: World>(world: &W) -> Law {
    const WAIT: Duration = Duration::from_millis(400);
    let (ours, theirs, backend) = (world.client(), world.client(), world.backend());
    needs(&backend, &KINDS)?;
    for (name, lock) in NAMES.into_iter().zip(locks(&theirs)) {
        let busy_lock = all([lock]).lock().await?;
        let busy_only = BTreeSet::from([name.to_owned()]);
        assert!(all(locks(&ours)).try_lock().await?.is_none());
        ours.idle().await;
        assert_eq!(held(&backend).await?, busy_only, "after a refusal");
        let refused = answered_in_time(async || {
            let began = world.clock().now();
            let granted = all(locks(&ours)).try_lock_for(WAIT).await?;
            let waited = world.clock().now().since(began);
            // The remaining time of the last lock can be rounded to milliseconds.
            let earliest = WAIT - Duration::from_millis(2);
            assert!((earliest..WAIT + world.slack()).contains(&waited), "the call waited {waited:?}");
            Ok(granted)
        });
        assert!(refused.await?.is_none());
        ours.idle().await;
        assert_eq!(held(&backend).await?, busy_only, "after the deadline");
        let waiting = all(locks(&ours));
        let waiting = tokio::spawn(async move { waiting.lock().await });
        busy_lock.release().await?;
        let guard = within(MAX_WAIT, "the call that waits", waiting).await.expect("the task does not panic")?;
        assert_eq!(guard.guards().iter().map(|guard| guard.key()).collect::<Vec<_>>(), NAMES);
        assert_eq!(held(&backend).await?.len(), NAMES.len());
        guard.release().await?;
        assert!(held(&backend).await?.is_empty(), "after the release");
    }
    nothing_left(world, &[&ours, &theirs]).await;
    Ok(())
}

/// Takes locks again and again.
async fn circle(locks: All<SharedHold>, turns: u32) -> Result<(), bandog_core::Error> {
    for _ in 0..turns {
        let guard = locks.lock().await?;
        tokio::task::yield_now().await;
        guard.release().await?;
    }
    Ok(())
}

/// Law 76: calls that name the same locks in opposite orders do not deadlock, over one client each and over several
/// clients.
// Promise: K17
pub async fn all_in_opposite_orders<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.client(), world.client());
    // Without notifications, each turn can take as long as a poll.
    let turns = if world.prompt() < Duration::from_millis(500) { 8 } else { 2 };
    needs(&world.backend(), &KINDS)?;
    let forward = locks(&ours);
    let mut backward = locks(&theirs);
    backward.reverse();
    // The locks of the third and the fourth call belong to two clients.
    let [first, second, third] = locks(&ours);
    let [one, two, three] = locks(&theirs);
    let mixed = [first, two, third];
    let reversed = [three, second, one];
    let calls =
        [all(forward), all(backward), all(mixed), all(reversed)].map(|locks| tokio::spawn(circle(locks, turns)));
    for call in calls {
        within(MAX_WAIT, "calls in opposite orders", call).await.expect("the task does not panic")?;
    }
    nothing_left(world, &[&ours, &theirs]).await;
    Ok(())
}

/// Laws 77 and 78: when one of several locks is lost, the guard of all of them is lost. The release then reports the
/// loss, and releases the other locks nevertheless.
// Promise: K17
pub async fn all_are_lost_with_one<W: World>(world: &W) -> Law {
    let (ours, theirs, backend) = (world.brisk(), world.client(), world.backend());
    needs(&backend, &KINDS)?;
    can_evict(world).await?;
    for lost in NAMES {
        let guard = all(locks(&ours)).lock().await?;
        theirs.evict(lost).await?;
        within(world.ttl() + world.slack(), "the loss", guard.lost()).await;
        assert!(guard.is_lost());
        let others: BTreeSet<_> = NAMES.into_iter().filter(|name| *name != lost).map(str::to_owned).collect();
        assert_eq!(held(&backend).await?, others, "the other locks are held until the release");
        let error = guard.release().await.expect_err("a release succeeded after a loss");
        assert_eq!(error.key().map(bandog_core::Key::as_str), Some(lost));
        assert_eq!(error_kind(Err::<(), _>(error)), Some(bandog_core::ErrorKind::Lost));
        assert!(held(&backend).await?.is_empty(), "after the loss of {lost}");
    }
    nothing_left(world, &[&ours, &theirs]).await;
    Ok(())
}
