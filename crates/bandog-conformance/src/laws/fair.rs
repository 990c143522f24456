//! Fair mutexes. The store keeps a queue of the waiting claims. The place of a claim in the queue lasts for
//! [`PLACE`], counted from the last time at which the claim was sent again or renewed.

use std::time::Duration;

use bandog_core::{Claim, Kind, PLACE, Renewal};
use bandog_testkit::eventually_async;

use crate::{
    Law, World,
    kind_kit::{Subscribed, assert_free, attempt, freed, granted, left_queue, needs, refused, waiting},
    kit::{NAME, claim, nothing_left, renew, renewal},
};

/// A new claim that gets a place in the queue if it is refused.
fn waiter() -> Claim {
    waiting(Kind::Fair, NAME)
}

/// Law 23: the store grants a fair mutex in the order in which the waiting claims got their places. The order in which
/// the claims are repeated has no effect. Each refusal says how many claims are before this claim in the queue.
// Promise: K1
pub async fn fair_order<W: World>(world: &W) -> Law {
    const WAITERS: usize = 6;
    let ours = world.backend();
    let theirs = world.peer(&ours);
    needs(&ours, &[Kind::Fair])?;
    let mut holder = waiter();
    granted(&ours, &holder).await?;
    let waiters: [Claim; WAITERS] = std::array::from_fn(|_| waiter());
    for (ahead, waiter) in waiters.iter().enumerate() {
        assert_eq!(refused(&theirs, waiter).await?.1, u32::try_from(ahead).ok());
    }
    for (served, next) in waiters.iter().enumerate() {
        freed(&ours, &holder).await?;
        for (ahead, later) in waiters[served..].iter().enumerate().skip(1).rev() {
            assert_eq!(refused(&ours, later).await?.1, u32::try_from(ahead).ok());
        }
        granted(&theirs, next).await?;
        holder = next.clone();
    }
    freed(&ours, &holder).await?;
    nothing_left(world, &[]).await;
    Ok(())
}

/// Law 23: a claim without a place, such as a `try_lock`, is refused while another claim has a place, even if the lock
/// is free. The refused claim gets no place.
// Promise: K1
pub async fn fair_try_respects_the_queue<W: World>(world: &W) -> Law {
    let store = world.backend();
    needs(&store, &[Kind::Fair])?;
    let (holder, first, second) = (waiter(), waiter(), waiter());
    let tried = attempt(Kind::Fair, NAME);
    granted(&store, &holder).await?;
    assert_eq!(refused(&store, &tried).await?.1, None, "a try has no place");
    assert_eq!(refused(&store, &first).await?.1, Some(0));
    assert_eq!(refused(&store, &second).await?.1, Some(1));
    freed(&store, &holder).await?;
    refused(&store, &tried).await?;
    granted(&store, &first).await?;
    refused(&store, &tried).await?;
    freed(&store, &first).await?;
    refused(&store, &tried).await?;
    granted(&store, &second).await?;
    assert!(!left_queue(&store, &tried).await?);
    freed(&store, &second).await?;
    granted(&store, &tried).await?;
    freed(&store, &tried).await?;
    nothing_left(world, &[]).await;
    Ok(())
}

/// Law 24: a waiter whose client has died delays the queue for [`PLACE`], counted from its last claim or renewal.
/// Several dead waiters together cause the same delay, and not one delay each. A waiter whose client is alive keeps its
/// place, because its client renews the claim.
// Promise: K2
pub async fn fair_dead_waiters<W: World>(world: &W) -> Law {
    let (store, clock) = (world.backend(), world.clock());
    needs(&store, &[Kind::Fair])?;
    let (holder, dead) = (waiter(), [waiter(), waiter(), waiter()]);
    let (alive, patient, late) = (waiter(), waiter(), waiter());
    granted(&store, &holder).await?;
    let before = clock.now();
    for claim in dead.iter().chain([&alive, &patient]) {
        refused(&store, claim).await?;
    }
    let renewed = async |claim: &Claim| match renewal(&store, claim).await {
        Ok(Renewal::Waiting { .. }) => {}
        answer => panic!("the place was not kept: {answer:?}"),
    };
    // This client dies after its first renewal.
    renewed(&dead[1]).await;
    freed(&store, &holder).await?;
    let served = async || {
        renewed(&patient).await;
        match claim(&store, &alive).await {
            Ok(granted) => granted.ok_or("the dead waiters still have places"),
            Err(error) => panic!("{error}"),
        }
    };
    eventually_async(PLACE + world.slack(), served).await;
    let waited = clock.now().since(before);
    // A store can round times to milliseconds.
    assert!(waited + Duration::from_millis(2) >= PLACE, "the places expired after {waited:?}");
    for claim in &dead {
        assert_eq!(renewal(&store, claim).await?, Renewal::Gone);
    }

    // `patient` was only renewed, and is still the first in the queue.
    assert_eq!(refused(&store, &late).await?.1, Some(1));
    freed(&store, &alive).await?;
    refused(&store, &late).await?;
    granted(&store, &patient).await?;
    freed(&store, &patient).await?;
    assert!(left_queue(&store, &late).await?);
    assert_free(&store, Kind::Fair, NAME).await
}

/// Law 24: the renewal of a claim says when the claim is next: it is the first one of the queue, and the lock is free.
/// So a client learns this although several dead waiters were before its claim, and no release notifies it. The dead
/// waiters in the middle of the queue delay the claim by one [`PLACE`] in total.
// Promise: K2
pub async fn fair_renewal_says_next<W: World>(world: &W) -> Law {
    let (store, clock) = (world.backend(), world.clock());
    needs(&store, &[Kind::Fair])?;
    let (holder, first, dead, alive) = (waiter(), waiter(), [waiter(), waiter(), waiter()], waiter());
    granted(&store, &holder).await?;
    let before = clock.now();
    for claim in [&first].into_iter().chain(&dead).chain([&alive]) {
        refused(&store, claim).await?;
    }
    let is_next = async |claim: &Claim| match renewal(&store, claim).await {
        Ok(Renewal::Waiting { is_next }) => is_next.then_some(()).ok_or("it is not next"),
        answer => panic!("the place was not kept: {answer:?}"),
    };
    assert_eq!(is_next(&first).await, Err("it is not next"), "the lock is held");
    freed(&store, &holder).await?;
    assert_eq!(is_next(&first).await, Ok(()));
    assert_eq!(is_next(&alive).await, Err("it is not next"), "other claims are before it");
    granted(&store, &first).await?;
    assert_eq!(is_next(&alive).await, Err("it is not next"), "the lock is held again");
    freed(&store, &first).await?;
    eventually_async(PLACE + world.slack(), async || is_next(&alive).await).await;
    let waited = clock.now().since(before);
    // A store can round times to milliseconds.
    assert!(waited + Duration::from_millis(2) >= PLACE, "the places expired after {waited:?}");
    granted(&store, &alive).await?;
    assert_eq!(renewal(&store, &dead[0]).await?, Renewal::Gone);
    freed(&store, &alive).await?;
    assert_free(&store, Kind::Fair, NAME).await
}

/// Law 25: a release of a waiting claim removes its place. The other claims keep their order. If the claim is sent
/// again, it gets a place at the end of the queue.
// Promise: K2
pub async fn fair_leave<W: World>(world: &W) -> Law {
    let store = world.backend();
    needs(&store, &[Kind::Fair])?;
    let (holder, first, second, third) = (waiter(), waiter(), waiter(), waiter());
    granted(&store, &holder).await?;
    for waiter in [&first, &second, &third] {
        refused(&store, waiter).await?;
    }
    assert!(left_queue(&store, &second).await?);
    assert!(!left_queue(&store, &second).await?, "the second release does nothing");
    assert!(!renew(&store, &second).await?);
    assert_eq!(refused(&store, &third).await?.1, Some(1));
    assert_eq!(refused(&store, &second).await?.1, Some(2), "a new place is at the end");
    freed(&store, &holder).await?;
    assert!(left_queue(&store, &first).await?);
    refused(&store, &second).await?;
    granted(&store, &third).await?;
    assert!(left_queue(&store, &second).await?);
    freed(&store, &third).await?;
    assert_free(&store, Kind::Fair, NAME).await?;
    nothing_left(world, &[]).await;
    Ok(())
}

/// Law 25: if the lock is free and the first claim of the queue leaves the queue, the next claim is notified.
// Promise: K2
pub async fn fair_leave_notifies<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    needs(&ours, &[Kind::Fair])?;
    let (holder, first, second) = (waiter(), waiter(), waiter());
    granted(&ours, &holder).await?;
    refused(&ours, &first).await?;
    refused(&theirs, &second).await?;
    freed(&ours, &holder).await?;
    let subscribed = Subscribed::with(&theirs, &second).await?;
    let before = subscribed.count();
    assert!(left_queue(&ours, &first).await?);
    subscribed.notified_after(before).await;
    granted(&theirs, &second).await?;
    freed(&theirs, &second).await
}

/// Law 26: a release of a fair mutex notifies the next claim of the queue. The other claims are not notified, because
/// they cannot get the lock. A backend may seldom notify them all the same: the topics of SQLite share 512 slots, and
/// the ids of claims, which select the slots, are random.
// Promise: K3
pub async fn fair_notifies_the_next<W: World>(world: &W) -> Law {
    const WAITERS: usize = 16;
    let ours = world.backend();
    let theirs = world.peer(&ours);
    needs(&ours, &[Kind::Fair])?;
    let mut holder = waiter();
    granted(&ours, &holder).await?;
    let mut waiters = Vec::new();
    for _ in 0..WAITERS {
        let waiter = waiter();
        refused(&theirs, &waiter).await?;
        waiters.push((Subscribed::with(&theirs, &waiter).await?, waiter));
    }
    let counts = || waiters.iter().map(|(subscribed, _)| subscribed.count()).collect::<Vec<_>>();
    // A subscription can notify once when it begins.
    let before = counts();
    let (mut last, mut too_early) = (before.clone(), 0);
    for (turn, (subscribed, next)) in waiters.iter().enumerate() {
        freed(&ours, &holder).await?;
        subscribed.notified_after(before[turn]).await;
        // A subscription to a free lock does not make the next release notify all claims.
        drop(Subscribed::with(&theirs, next).await?);
        granted(&theirs, next).await?;
        holder = next.clone();
        let now = counts();
        too_early += usize::from(now[turn + 1..] != last[turn + 1..]);
        last = now;
    }
    if world.notifies_the_next_only().is_ok() {
        assert!(too_early < WAITERS / 2, "{too_early} of {WAITERS} releases notified claims that were not next");
    }
    freed(&ours, &holder).await
}
