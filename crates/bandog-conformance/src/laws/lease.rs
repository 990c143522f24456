//! Holds that expire, and holds that are renewed.

use std::time::Duration;

use bandog_core::{Claim, ClaimId, ClientId, ErrorKind, Leases, Renewal, Verdict};
use tokio::time;

use crate::{
    Law, World,
    kind_kit::{Sole, attempt, each_kind, each_sole, for_only, freed, granted},
    kit::{
        MAX_WAIT, NAME, claim, error_kind, is_free, nothing_left, polled_at_most, release, renew, renewal, take, until,
        verdict, within,
    },
    wrap::{Counting, Fate, Lossy},
};

/// Law 30: a hold that is not renewed expires after its ttl, and not earlier. Then another client gets the lock.
// Promise: L2, M2, MY2, PG2, SQ2
pub async fn expires_after_ttl<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let before = world.clock().now();
    let guard = a.mutex(NAME).lease(world.ttl()).lock().await?;
    let granted = world.clock().now();
    let next = within(world.ttl() + world.slack(), "an expired lease", b.mutex(NAME).lock()).await?;
    let next_granted = world.clock().now();
    assert!(
        next_granted.since(before) >= world.ttl(),
        "the lease expired too early, after {:?}",
        next_granted.since(before)
    );
    assert!(next_granted.since(granted) <= world.ttl() + world.slack());
    assert!(guard.is_lost());
    next.release().await?;
    drop(guard);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 30: the answer to a claim or a renewal contains the duration `valid_for`. Until this duration has passed, the
/// store grants the key to no other claim. This duration is never longer than the requested ttl, but it can be shorter.
/// Soon after this duration, the store grants the key again.
// Promise: L2
pub async fn valid_for_is_kept<W: World>(world: &W) -> Law {
    let result = each_sole(world, async |sole| valid_for_of(world, sole).await).await;
    nothing_left(world, &[]).await;
    result
}

/// The law for one lock.
async fn valid_for_of<W: World>(world: &W, sole: Sole) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    let ttl = world.ttl() + Duration::from_micros(300); // This ttl is not a whole number of milliseconds.
    // A renewal can request a longer or a shorter ttl than the claim.
    for renewed_ttl in [None, Some(ttl * 3 / 2), Some(ttl / 2)] {
        let (held, next) = (sole.claim(ttl), sole.claim(MAX_WAIT));
        let mut before = world.clock().now();
        let Verdict::Granted { mut valid_for, .. } = verdict(&ours, &held).await? else { panic!("the lock is free") };
        assert!(!valid_for.is_zero() && valid_for <= held.ttl, "{valid_for:?} of {:?}", held.ttl);
        let mut longest = valid_for;
        if let Some(ttl) = renewed_ttl {
            let with_ttl = Claim { ttl, ..held.clone() };
            before = world.clock().now();
            let Renewal::Extended { valid_for: renewed_for } = renewal(&ours, &with_ttl).await? else {
                panic!("a renewal was refused, although the hold is valid for {valid_for:?}")
            };
            assert!(!renewed_for.is_zero() && renewed_for <= ttl, "{renewed_for:?} of {ttl:?}");
            (valid_for, longest) = (renewed_for, longest.max(renewed_for));
        }
        bandog_testkit::eventually_async(MAX_WAIT, async || matches!(claim(&theirs, &next).await, Ok(Some(_)))).await;
        let lasted = world.clock().now().since(before);
        assert!(lasted >= valid_for, "renewed for {renewed_ttl:?}: granted again after {lasted:?} of {valid_for:?}");
        assert!(lasted <= longest + world.slack(), "renewed for {renewed_ttl:?}: still held after {lasted:?}");
        assert!(!renew(&ours, &held).await?);
        assert!(release(&theirs, &next).await?);
    }
    Ok(())
}

/// Law 31: if a client renews its hold, the hold lasts for many times its ttl. In this time, no other client gets the
/// lock.
// Promise: L2
pub async fn auto_renew_holds<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    let ttl = world.ttl() * 2;
    // The holds of a `brisk` client expire after this ttl if the client does not renew them.
    let (a, b) = (world.brisk_over(ttl, counts.clone()), world.client());
    let guard = take(&a, NAME).await?;
    let since = world.clock().now();
    while world.clock().now().since(since) < ttl * 3 {
        assert!(!is_free(&b, NAME).await?);
        assert!(!guard.is_lost());
        assert!(guard.remaining() <= ttl);
        time::sleep(ttl / 20).await;
    }
    // `renewed` counts the successful renewals.
    assert!(counts.renewed() >= 6, "only {} renewals have succeeded", counts.renewed());
    guard.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 32: a lease that its holder extends lasts for the new time. Then it expires, and its guard is lost before another
/// client gets the lock.
// Promise: L28
pub async fn extended_lease<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let mut attempts = 0..5;
    let (guard, before) = loop {
        let guard = a.mutex(NAME).lease(world.ttl()).lock().await?;
        let before = world.clock().now();
        match guard.extend(world.ttl() * 3).await {
            // A loaded machine can extend too late.
            Err(error) if error.kind() == ErrorKind::Lost && attempts.next().is_some() => {}
            extended => break extended.map(|()| (guard, before))?,
        }
    };
    while world.clock().now().since(before) < world.ttl() * 2 {
        assert!(!is_free(&b, NAME).await? && !guard.is_lost());
        time::sleep(world.ttl() / 10).await;
    }
    let next = within(world.ttl() * 2 + world.slack(), "an expired lease", b.mutex(NAME).lock()).await?;
    let granted = world.clock().now();
    assert!(guard.is_lost());
    assert!(granted.since(before) >= world.ttl() * 3, "the lease ended after {:?}", granted.since(before));
    drop(guard);
    next.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 36: if a lease has expired and another client holds the lock, a release by the first holder does not free the
/// lock.
// Promise: L16
pub async fn unlock_after_regrant_is_noop<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let stale = a.mutex(NAME).lease(world.ttl()).lock().await?;
    let guard = b.mutex(NAME).lock().await?;
    assert_eq!(error_kind(stale.release().await), Some(ErrorKind::Lost));
    a.idle().await;
    assert!(!is_free(&a, NAME).await?);
    assert_eq!(world.client().show(NAME).await?.client(), Some(b.id()));
    guard.release().await?;

    let backend = world.backend();
    let result = each_sole(world, async |sole| {
        let (stale, next, third) = (sole.claim(world.ttl()), sole.claim(MAX_WAIT), sole.claim(MAX_WAIT));
        assert!(claim(&backend, &stale).await?.is_some());
        bandog_testkit::eventually_async(MAX_WAIT, async || matches!(claim(&backend, &next).await, Ok(Some(_)))).await;
        assert!(!release(&backend, &stale).await?);
        assert!(!renew(&backend, &stale).await?);
        assert!(claim(&backend, &third).await?.is_none());
        assert!(release(&backend, &next).await?);
        Ok(())
    })
    .await;
    nothing_left(world, &[&a, &b]).await;
    result
}

/// Law 37: a holder is identified by its claim, not by its client. So an earlier claim of a client does not affect a
/// later claim of the same client.
// Promise: L16
pub async fn same_host_same_thread_regrant<W: World>(world: &W) -> Law {
    let client = world.client();
    let mut owners = Vec::new();
    for _ in 0..3 {
        let guard = take(&client, NAME).await?;
        owners.extend(client.show(NAME).await?.owner().map(str::to_owned));
        guard.release().await?;
    }
    owners.dedup();
    assert_eq!(owners.len(), 3, "two of three holds have the same owner: {owners:?}");

    let backend = world.backend();
    let result = each_sole(world, async |sole| {
        let (mut earlier, mut later) = (sole.claim(MAX_WAIT), sole.claim(MAX_WAIT));
        let me = ClientId::random();
        (earlier.id, later.id) = (ClaimId { client: me, number: 1 }, ClaimId { client: me, number: 2 });
        assert!(claim(&backend, &earlier).await?.is_some());
        assert!(claim(&backend, &later).await?.is_none());
        assert!(release(&backend, &earlier).await?);
        assert!(claim(&backend, &later).await?.is_some());
        assert!(!release(&backend, &earlier).await?);
        assert!(!renew(&backend, &earlier).await?);
        assert!(renew(&backend, &later).await?);
        assert!(release(&backend, &later).await?);
        Ok(())
    })
    .await;
    nothing_left(world, &[&client]).await;
    result
}

/// Law 43: a lock is not lost if its renewals fail for less than its ttl.
// Promise: L2
pub async fn renew_transient_error<W: World>(world: &W) -> Law {
    // `wire` is a connection to the store. The test chooses when calls fail.
    let wire = Lossy::new(world.backend());
    let counts = Counting::new(wire.clone());
    let ttl = world.ttl() * 2;
    let client = world.brisk_over(ttl, counts.clone());
    let guard = take(&client, NAME).await?;
    let since = world.clock().now();
    for fate in [Fate::Refused, Fate::RequestLost, Fate::ReplyLost] {
        let (lost, renewed) = (wire.lost(), counts.renewed());
        wire.always(fate);
        until(|| wire.lost() > lost).await;
        wire.heal();
        until(|| counts.renewed() > renewed).await; // Waits for a successful renewal.
    }
    while world.clock().now().since(since) < ttl * 2 {
        time::sleep(ttl / 20).await;
        assert!(!guard.is_lost());
    }
    guard.release().await?;
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 44: a client does not renew a hold after its release. It also does not renew the hold of a cancelled call. A
/// thousand cancelled calls leave no data in the store.
pub async fn renew_after_unlock_never<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    let client = world.brisk_over(world.ttl(), counts.clone());
    let mut attempts = 0..5;
    loop {
        let (guard, before) = (take(&client, NAME).await?, counts.renewed());
        until(|| counts.renewed() > before || guard.is_lost()).await;
        match guard.release().await {
            // A loaded machine can renew too late.
            Err(error) if error.kind() == ErrorKind::Lost && attempts.next().is_some() => {}
            released => break released?,
        }
    }
    for polls in 0..1000 {
        if let Some(guard) = polled_at_most(polls % 3, client.mutex(NAME).lock()).await {
            drop(guard?);
        }
    }
    nothing_left(world, &[&client]).await;
    let renewals = counts.renewals(); // This counts all requested renewals, even if they fail.
    time::sleep(world.ttl() * 2).await;
    assert_eq!(counts.renewals(), renewals);
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 47: a jump of the wall clock does not affect the holder, the duration of its lease, or the order of fences.
// Promise: L19, SQ2
pub async fn clock_jump<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let guard = take(&a, NAME).await?;
    let lease = a.mutex("lease").lease(world.ttl()).lock().await?;
    world.jump().await?;
    assert!(!is_free(&b, NAME).await? && !guard.is_lost());
    let next = within(world.ttl() + world.slack(), "an expired lease", b.mutex("lease").lock()).await?;
    assert!(lease.is_lost() && next.fence() > lease.fence());
    guard.release().await?;
    let limit = Duration::from_secs(60);
    let guard = within(limit, "a released lock", b.mutex(NAME).lock()).await?;
    guard.release().await?;
    Ok(())
}

/// Law 98, for locks of every kind: no renewal shortens a hold: not one with a short ttl, alone or in one call with a
/// longer one of the same claim, and not the first one that the store answers.
// Promise: L28
pub async fn renewals_never_shorten<W: World>(world: &W) -> Law {
    const SHORT: Duration = Duration::from_millis(200);
    let backend = world.backend();
    each_kind(world, async |kind| {
        let long = attempt(kind, NAME);
        let short = for_only(SHORT, long.clone());
        for (first, order) in [(&long, &[&short][..]), (&short, &[&long, &short]), (&short, &[&short, &long])] {
            let claims: Vec<_> = order.iter().map(|claim| (*claim).clone()).collect();
            loop {
                let begin = time::Instant::now();
                granted(&backend, first).await?;
                let answers = backend.renew(&claims).await.into_iter().collect::<Result<Vec<_>, _>>()?;
                if answers.iter().all(|answer| matches!(answer, Renewal::Extended { .. })) {
                    break;
                }
                // On a machine that is busy, the first ttl may be over before the renewal.
                assert!(begin.elapsed() >= SHORT, "{kind}: {answers:?}");
                release(&backend, &long).await?;
            }
            time::sleep(SHORT * 3).await;
            assert!(renew(&backend, &long).await?, "{kind}: the hold has ended after {order:?}");
            freed(&backend, &long).await?;
        }
        Ok(())
    })
    .await
}
