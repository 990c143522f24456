//! Semaphores. A semaphore has a *limit*: the number of its permits. A claim takes all of its permits or none. A client
//! *starves* if it has waited for a second or more; its claims then have a place, which other claims respect.

use std::time::Duration;

use bandog_core::{Claim, ErrorKind, Key, Kind, Leases, PLACE};

use crate::{
    Law, World,
    kind_kit::{
        LONG, Subscribed, attempt, for_only, freed, granted, granted_within, left_queue, needs, number, permits,
        refused, row, starving, waiting,
    },
    kit::{NAME, assert_again, claim, error_kind, release, renew},
};

/// A new claim for `take` permits of `of`.
fn take(take: u32, of: u32) -> Claim {
    attempt(permits(take, of), NAME)
}

/// Law 68: claims get permits until the limit is reached, and never more. A released permit can be taken again.
// Promise: K8
pub async fn limit_is_reached_and_never_exceeded<W: World>(world: &W) -> Law {
    const LIMIT: u32 = 5;
    let (ours, theirs) = (world.backend(), world.backend());
    needs(&ours, &[permits(1, LIMIT)])?;
    let mut holders = Vec::new();
    let mut last_fence = None;
    for number in 0..LIMIT {
        let holder = take(1, LIMIT);
        let backend = if number % 2 == 0 { &ours } else { &theirs };
        let fences = granted(backend, &holder).await?;
        assert!(Some(fences.last()) > last_fence, "{fences:?} after {last_fence:?}");
        last_fence = Some(fences.last());
        holders.push((world.peer(backend), holder));
    }
    assert_eq!(row(&ours, &holders[0].1).await?.holders.len(), LIMIT as usize);
    for (backend, holder) in &mut holders {
        let next = take(1, LIMIT);
        refused(&ours, &next).await?;
        refused(&theirs, &next).await?;
        freed(backend, holder).await?;
        granted(&ours, &next).await?;
        (*backend, *holder) = (world.peer(&ours), next);
    }
    refused(&ours, &take(1, LIMIT)).await?;
    for (backend, holder) in &holders {
        freed(backend, holder).await?;
    }
    assert_eq!(row(&ours, &holders[0].1).await?.holders, []);
    Ok(())
}

/// Law 69: all permits can be taken and released again and again. Repeated claims, renewals and releases neither take
/// nor return a permit twice. A released permit notifies waiters.
// Promise: K8
pub async fn drain_and_refill<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    needs(&ours, &[permits(1, 3)])?;
    for _ in 0..3 {
        let (one, two, waits) = (take(1, 3), take(2, 3), take(3, 3));
        let fences = granted(&ours, &one).await?;
        granted(&ours, &two).await?;
        assert_again(world, &granted(&ours, &one).await?, &fences);
        assert!(renew(&ours, &one).await? && renew(&ours, &two).await?);
        refused(&theirs, &waits).await?;
        let subscribed = Subscribed::with(&theirs, &waits).await?;
        let before = subscribed.count();
        freed(&ours, &two).await?;
        subscribed.notified_after(before).await;
        assert!(!release(&ours, &two).await? && !renew(&ours, &two).await?);
        refused(&theirs, &waits).await?;
        let last_two = take(2, 3);
        granted(&theirs, &last_two).await?;
        refused(&ours, &take(1, 3)).await?;
        freed(&theirs, &last_two).await?;
        freed(&ours, &one).await?;
        granted(&theirs, &waits).await?;
        refused(&ours, &take(1, 3)).await?;
        freed(&theirs, &waits).await?;
    }
    Ok(())
}

/// Law 70: a claim for several permits gets all of them or none. A refused claim holds no permit. A claim for more
/// permits than the limit fails, and changes nothing.
// Promise: K8
pub async fn permits_all_or_none<W: World>(world: &W) -> Law {
    let store = world.backend();
    needs(&store, &[permits(1, 5)])?;
    let (three, also_three, two) = (take(3, 5), take(3, 5), take(2, 5));
    granted(&store, &three).await?;
    refused(&store, &also_three).await?;
    granted(&store, &two).await?;
    refused(&store, &also_three).await?;
    freed(&store, &two).await?;
    refused(&store, &also_three).await?;
    freed(&store, &three).await?;
    granted(&store, &also_three).await?;
    assert_eq!(error_kind(claim(&store, &take(6, 5)).await), Some(ErrorKind::Misused));
    granted(&store, &two).await?;
    refused(&store, &take(1, 5)).await?;
    freed(&store, &also_three).await?;
    freed(&store, &two).await
}

/// Law 70: a starving claim for many permits has a place, so claims for fewer permits do not keep it waiting forever.
/// The place ends when the claim is granted, when it is released, or [`PLACE`] after its client has died.
// Promise: K8
pub async fn starving_claim_for_many_permits<W: World>(world: &W) -> Law {
    let (ours, theirs, clock) = (world.backend(), world.backend(), world.clock());
    needs(&ours, &[permits(1, 3)])?;
    let (first, second, many, small) = (take(1, 3), take(1, 3), starving(permits(3, 3), NAME), take(1, 3));
    granted(&ours, &first).await?;
    granted(&ours, &second).await?;
    // A claim that does not starve has no place.
    refused(&theirs, &waiting(permits(3, 3), NAME)).await?;
    granted(&ours, &small).await?;
    freed(&ours, &small).await?;
    refused(&theirs, &many).await?;
    refused(&ours, &small).await?;
    assert!(renew(&ours, &first).await?, "a holder is not affected");
    freed(&ours, &first).await?;
    refused(&ours, &small).await?;
    freed(&ours, &second).await?;
    refused(&ours, &small).await?;
    granted(&theirs, &many).await?;
    freed(&theirs, &many).await?;
    granted(&ours, &small).await?;

    let (many, next) = (starving(permits(3, 3), NAME), take(1, 3));
    refused(&theirs, &many).await?;
    refused(&ours, &next).await?;
    let subscribed = Subscribed::with(&ours, &next).await?;
    let before = subscribed.count();
    assert!(left_queue(&theirs, &many).await?);
    subscribed.notified_after(before).await;
    granted(&ours, &next).await?;
    freed(&ours, &next).await?;

    let since = clock.now();
    let dead = starving(permits(3, 3), NAME);
    refused(&theirs, &dead).await?;
    refused(&ours, &next).await?;
    granted_within(PLACE + world.slack(), &ours, &next).await;
    let waited = clock.now().since(since);
    // A store can round times to milliseconds.
    assert!(waited + Duration::from_millis(2) >= PLACE, "the place expired after {waited:?}");
    freed(&ours, &next).await?;
    freed(&ours, &small).await
}

/// Law 70: while a starving claim has a place, other claims are refused although permits are free. When it gets its
/// permits and others remain, the clients of the other claims are notified.
// Promise: K8
pub async fn starving_grant_notifies<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    needs(&ours, &[permits(1, 3)])?;
    let (holder, waits) = (take(3, 3), take(1, 3));
    let starves = starving(permits(2, 3), NAME);
    granted(&ours, &holder).await?;
    refused(&ours, &starves).await?;
    refused(&theirs, &waits).await?;
    let subscribed = Subscribed::with(&theirs, &waits).await?;
    let before = subscribed.count();
    freed(&ours, &holder).await?;
    if world.offers().is_ok() {
        // A store with a queue notifies only the first claim of the queue.
        subscribed.notified_after(before).await;
    }
    refused(&theirs, &waits).await?;
    let before = subscribed.count();
    granted(&ours, &starves).await?;
    subscribed.notified_after(before).await;
    granted(&theirs, &waits).await?;
    freed(&ours, &starves).await?;
    freed(&theirs, &waits).await
}

/// Law 71: the permits of a holder whose client has died return after the ttl, and not earlier. Other holders keep
/// their permits.
// Promise: K9
pub async fn crash_returns_permits<W: World>(world: &W) -> Law {
    let (store, clock) = (world.backend(), world.clock());
    needs(&store, &[permits(1, 5)])?;
    let ttl = world.ttl();
    // The ttl of the renewed holder is longer, so that a slow machine does not renew it too late.
    let (kept, renewed, next) = (take(1, 5), for_only(ttl * 4, take(1, 5)), take(3, 5));
    let dead = for_only(ttl, take(3, 5));
    let before = clock.now();
    granted(&store, &dead).await?;
    granted(&store, &renewed).await?;
    granted(&store, &kept).await?;
    let (retry_after, _) = refused(&store, &next).await?;
    assert!(retry_after <= ttl + world.slack(), "{retry_after:?}");
    let served = async || {
        assert!(matches!(renew(&store, &renewed).await, Ok(true)), "a renewed holder lost its permit");
        matches!(claim(&store, &next).await, Ok(Some(_)))
    };
    bandog_testkit::eventually_async(ttl + world.slack(), served).await;
    let lasted = clock.now().since(before);
    // A store can round times to milliseconds.
    assert!(lasted + Duration::from_millis(2) >= ttl, "the permits returned after {lasted:?}");
    assert!(!renew(&store, &dead).await? && !release(&store, &dead).await?);
    refused(&store, &take(1, 5)).await?;
    for holder in [&kept, &renewed, &next] {
        freed(&store, holder).await?;
    }
    Ok(())
}

/// Law 72: the limit can change while claims wait. If it rises, the waiting claims are notified and get the new
/// permits. If it falls below the number of taken permits, no claim gets a permit until enough permits are released.
/// Claims that name the limit before the last change are accepted. The limit can also be set before the first claim.
// Promise: K10
pub async fn limit_change_while_waiting<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    needs(&ours, &[permits(1, 2)])?;
    let (first, waits) = (take(2, 2), take(1, 2));
    granted(&ours, &first).await?;
    refused(&theirs, &waits).await?;
    let subscribed = Subscribed::with(&theirs, &waits).await?;
    let before = subscribed.count();
    let key = Key::new(NAME)?;
    assert_eq!(ours.set_limit(&key, number(3)).await?, Some(2), "the limit before");
    subscribed.notified_after(before).await;
    granted(&theirs, &waits).await?;
    let shown = row(&ours, &first).await?.kind;
    assert!(matches!(shown, Some(Kind::Permits { of, .. }) if of == number(3)), "the present limit: {shown:?}");
    refused(&ours, &take(1, 3)).await?;

    assert_eq!(ours.set_limit(&key, number(1)).await?, Some(3));
    for of in [1, 3] {
        refused(&theirs, &take(1, of)).await?;
    }
    assert_eq!(
        error_kind(claim(&theirs, &take(1, 2)).await),
        Some(ErrorKind::Misused),
        "the limit before the last two changes"
    );
    assert_eq!(error_kind(claim(&theirs, &take(2, 3)).await), Some(ErrorKind::Misused), "more permits than the limit");
    assert!(renew(&ours, &first).await?, "a holder keeps its permits");
    freed(&ours, &first).await?;
    refused(&theirs, &take(1, 1)).await?;
    freed(&theirs, &waits).await?;
    let last = take(1, 1);
    granted(&theirs, &last).await?;
    // A change to the present limit is not a change. The limit before it is still accepted.
    assert_eq!(ours.set_limit(&key, number(1)).await?, Some(1));
    refused(&ours, &take(1, 3)).await?;
    freed(&world.peer(&theirs), &last).await?;

    let unused = "unused";
    assert_eq!(ours.set_limit(&Key::new(unused)?, number(4)).await?, None, "a new semaphore");
    assert_eq!(error_kind(claim(&theirs, &attempt(permits(1, 3), unused)).await), Some(ErrorKind::Misused));
    let holder = attempt(permits(4, 4), unused);
    granted(&theirs, &holder).await?;
    freed(&theirs, &holder).await
}

/// Law 73: a claim that names another limit than the store's fails, and the error contains both numbers. The claim
/// changes nothing. The limit cannot be set while a lock of another family has the name.
// Promise: K10
pub async fn limit_mismatch<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    needs(&ours, &[permits(1, 41)])?;
    let holder = take(1, 41);
    granted(&ours, &holder).await?;
    let before = row(&ours, &holder).await?;
    for asked in [take(1, 67), starving(permits(50, 67), NAME), take(1, 40)] {
        let error = claim(&theirs, &asked).await.expect_err("the claim names another limit");
        assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
        let Kind::Permits { of, .. } = asked.kind else { panic!("{asked:?}") };
        let text = error.to_string();
        assert!(text.contains("41") && text.contains(&of.to_string()), "{text}");
    }
    assert_eq!(row(&ours, &holder).await?, before);
    let rest = take(40, 41);
    granted(&theirs, &rest).await?;
    refused(&theirs, &take(1, 41)).await?;
    freed(&theirs, &rest).await?;
    freed(&ours, &holder).await?;

    // The limit stays when no claim holds a permit.
    assert_eq!(error_kind(claim(&theirs, &take(1, 67)).await), Some(ErrorKind::Misused));

    let mutex = attempt(Kind::Mutex, "mutex");
    granted(&ours, &mutex).await?;
    assert_eq!(error_kind(theirs.set_limit(&mutex.key, number(3)).await), Some(ErrorKind::Denied));
    freed(&ours, &mutex).await
}

/// Law 74: the limit can be any number up to 2³² − 1.
// Promise: K8
pub async fn huge_limit<W: World>(world: &W) -> Law {
    let store = world.backend();
    needs(&store, &[permits(1, u32::MAX)])?;
    let holders = [1, 999, 1000].map(|permits| for_only(LONG, take(permits, u32::MAX)));
    for holder in &holders {
        granted(&store, holder).await?;
    }
    let key = Key::new(NAME)?;
    store.set_limit(&key, number(2000)).await?;
    refused(&store, &take(1, 2000)).await?;
    store.set_limit(&key, number(u32::MAX)).await?;
    let next = take(1, u32::MAX);
    granted(&store, &next).await?;
    for holder in holders.iter().chain([&next]) {
        freed(&store, holder).await?;
    }
    assert_eq!(row(&store, &next).await?.holders, []);
    Ok(())
}
