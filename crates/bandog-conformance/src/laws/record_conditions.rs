//! The conditions of a swap. Every swap has one condition: the version of the record.
//!
//! Most laws of this file are about the two optional conditions: an earliest time and a holding. A holding names a
//! claim and its lock. The holding stands while the claim holds the lock. A swap with a holding succeeds only while
//! the holding stands.

use std::time::{Duration, SystemTime};

use bandog_core::{Answer, Claim, ClaimId, Error, Holding, Leases, Records, Step, Swap, Swapped, Verdict, Version};
use bandog_sync::Client;
use bandog_testkit::eventually_async;
use tokio::time;

use crate::{
    Law, World,
    kit::{MAX_WAIT, NAME, bare_claim, claim, only_answer, take},
    record_kit::{RECORD, delete, get, key, line, must_swap, record_and_history, stands, swap, write},
};

const HOUR: Duration = Duration::from_secs(3600);
/// The resolution of `not_before`, the earliest time of a swap.
const TICK: Duration = Duration::from_millis(1);

/// Law 111: before its earliest time, a swap changes nothing. The answer is the remaining time, by the store's clock.
// Promise: J2, R2, R5
pub async fn record_too_early<W: World>(world: &W) -> Law {
    world.records()?; // This law applies only if the backend supports records.
    let client = world.client();
    // Each line of a record's history has a name, which is called slot. "ok:0" is a slot, and "fine" is the line's
    // text.
    let first = must_swap(&client, Swap { lines: vec![line("ok:0", "fine")], ..write(RECORD, None, "one") }).await?;
    let before = record_and_history(&client, RECORD).await?;
    // For a time more than a hundred years ahead, a store is allowed to return a shorter remaining time.
    let century = HOUR * 24 * 365 * 100;
    for ahead in [Duration::from_secs(20), HOUR, century, century * 10] {
        let not_before = Some(client.records().read(&[], &[]).await?.now + ahead);
        let lines = vec![line("ok:0", "early"), line("ok:1", "early")];
        for early in [write(RECORD, Some(first), "two"), delete(RECORD, Some(first)), write("other", None, "one")] {
            let answer = swap(&client, Swap { not_before, lines: lines.clone(), ..early }).await?;
            let Swapped::Early(remaining) = answer else {
                panic!("a swap {ahead:?} before its earliest time got the answer {answer:?}")
            };
            assert!(remaining <= ahead + TICK, "the remaining time {remaining:?} is longer than {ahead:?}");
            assert!(
                ahead.min(century) <= remaining + world.slack(),
                "the remaining time {remaining:?} is too short for {ahead:?}"
            );
        }
        assert_eq!(record_and_history(&client, RECORD).await?, before);
        assert_eq!(record_and_history(&client, "other").await?, (None, Vec::new()));
    }
    Ok(())
}

/// Law 112: a swap whose earliest time is in the past succeeds. If the store reports a remaining time, the same swap
/// succeeds after this time.
// Promise: R5
pub async fn record_late_enough<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let now = client.records().read(&[], &[]).await?.now;
    let mut version = None;
    for time in [now - TICK, now - HOUR, SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH - HOUR] {
        version = Some(must_swap(&client, Swap { not_before: Some(time), ..write(RECORD, version, "late") }).await?);
    }
    let soon = client.records().read(&[], &[]).await?.now + Duration::from_millis(700);
    let timed = Swap { not_before: Some(soon), ..write(RECORD, version, "in time") };
    if let Swapped::Early(remaining) = swap(&client, timed.clone()).await? {
        assert!(!remaining.is_zero());
        time::sleep(remaining + TICK).await;
        must_swap(&client, timed).await?;
    }
    assert_eq!(get(&client, RECORD).await?.map(|record| record.value), Some("in time".into()));
    assert!(client.records().read(&[], &[]).await?.now >= soon - TICK, "the swap was done before its earliest time");
    Ok(())
}

/// Law 113: a swap with a holding succeeds while the holding's claim holds the lock. Any client can make this swap. If
/// the claim has released the lock, never held it, or never existed, the swap changes nothing.
// Promise: R6
pub async fn record_held<W: World>(world: &W) -> Law {
    world.holdings_of_any_lock()?;
    world.records()?;
    let (a, b) = (world.client(), world.client());
    let (guard, foreign) = (take(&a, NAME).await?, take(&b, "foreign").await?);
    let holding = guard.holding();
    let mut version = None;
    for client in [&a, &b] {
        assert!(stands(client, &holding).await?);
        version =
            Some(must_swap(client, Swap { held: Some(holding.clone()), ..write(RECORD, version, "held") }).await?);
    }
    let ClaimId { client, number } = holding.id;
    // In each of these holdings, the claim does not exist, or the claim is for another lock than the lock of the
    // holding.
    let wrong_holdings = [
        Holding { key: key("foreign"), ..holding.clone() },
        Holding { key: key("never locked"), ..holding.clone() },
        Holding { key: key(NAME), ..foreign.holding() },
        Holding { id: ClaimId { client, number: number + 1 }, ..holding.clone() },
        Holding { id: bare_claim(NAME, MAX_WAIT).id, ..holding.clone() },
    ];
    for wrong_holding in &wrong_holdings {
        assert_not_held(&b, wrong_holding, version).await?;
    }
    guard.release().await?;
    assert_not_held(&a, &holding, version).await?;

    let next = take(&a, NAME).await?;
    assert_not_held(&a, &holding, version).await?;
    must_swap(&a, Swap { held: Some(next.holding()), ..write(RECORD, version, "next") }).await?;
    Ok(())
}

/// Law 114: while the client renews a claim, the holding of this claim stands, even for many times the ttl. After the
/// claim has expired or was evicted, its holding never stands again.
// Promise: R6
pub async fn record_held_no_more<W: World>(world: &W) -> Law {
    world.holdings_of_any_lock()?;
    world.records()?;
    // The holds of a `brisk` client have the short ttl `world.ttl()`. They expire if the client does not renew them.
    let (a, b) = (world.brisk(), world.client());
    let leased = a.mutex(NAME).lease(world.ttl()).lock().await?;
    let mut version = must_swap(&b, Swap { held: Some(leased.holding()), ..write(RECORD, None, "held") }).await?;
    eventually_async(MAX_WAIT, async || matches!(stands(&b, &leased.holding()).await, Ok(false))).await;
    assert_not_held(&b, &leased.holding(), Some(version)).await?;
    let next = take(&b, NAME).await?;
    assert_not_held(&a, &leased.holding(), Some(version)).await?;

    loop {
        let renewed = take(&a, "renewed").await?;
        time::sleep(world.ttl() * 2).await;
        let still_stands = stands(&b, &renewed.holding()).await?;
        let held = Swap { held: Some(renewed.holding()), ..write(RECORD, Some(version), "renewed") };
        if let Swapped::Done(Some(written)) = swap(&b, held).await? {
            version = written;
            if still_stands {
                break;
            }
        }
        // A machine that stops the client for longer than the ttl ends the hold. Then this law says nothing.
        eventually_async(MAX_WAIT, async || renewed.is_lost()).await;
    }
    let version =
        Some(must_swap(&a, Swap { held: Some(next.holding()), ..write(RECORD, Some(version), "next") }).await?);

    a.evict(NAME).await?;
    assert_not_held(&a, &next.holding(), version).await?;
    assert_not_held(&b, &leased.holding(), version).await?;
    Ok(())
}

/// Law 115: a pass gives the lock from one claim to the next. After the pass, the holding of the next claim stands, and
/// the holding of the previous claim does not stand.
// Promise: R6
pub async fn record_held_passed_on<W: World>(world: &W) -> Law {
    world.holdings_of_any_lock()?;
    world.records()?;
    let (backend, client) = (world.backend(), world.client());
    let (from, to) = (bare_claim(NAME, MAX_WAIT), bare_claim(NAME, MAX_WAIT));
    let holding = |claim: &Claim| Holding { key: claim.key.clone(), id: claim.id };
    assert!(claim(&backend, &from).await?.is_some());
    let version = Some(must_swap(&client, Swap { held: Some(holding(&from)), ..write(RECORD, None, "from") }).await?);
    let passed = only_answer(backend.apply(&[Step::Pass { from: Box::new(from.clone()), to: to.clone() }]).await)?;
    assert!(matches!(passed, Answer::Claimed(Verdict::Granted { .. })), "{passed:?}");
    assert_not_held(&client, &holding(&from), version).await?;
    must_swap(&client, Swap { held: Some(holding(&to)), ..write(RECORD, version, "to") }).await?;
    Ok(())
}

/// Law 116: a store checks the conditions in this order: the version, the earliest time, the holding.
// Promise: R7
pub async fn record_conditions_in_order<W: World>(world: &W) -> Law {
    world.holdings_of_any_lock()?;
    world.records()?;
    let client = world.client();
    let first = must_swap(&client, write(RECORD, None, "one")).await?;
    let second = must_swap(&client, write(RECORD, Some(first), "two")).await?;
    let never_sent = bare_claim(NAME, MAX_WAIT);
    let held = Some(Holding { key: never_sent.key, id: never_sent.id });
    let now = client.records().read(&[], &[]).await?.now;
    let (early, late) = (Some(now + HOUR), Some(now - HOUR));
    let try_swap = async |from, not_before| {
        let refused = Swap { not_before, held: held.clone(), ..write(RECORD, Some(from), "three") };
        swap(&client, refused).await
    };
    assert!(matches!(try_swap(first, early).await?, Swapped::Differs(Some(_))));
    assert!(matches!(try_swap(first, late).await?, Swapped::Differs(Some(_))));
    assert!(matches!(try_swap(second, early).await?, Swapped::Early(_)));
    assert_eq!(try_swap(second, late).await?, Swapped::NotHeld);
    assert_eq!(get(&client, RECORD).await?.map(|record| record.version), Some(second));
    Ok(())
}

/// Law 117: a wrong clock of a client has no effect. The store uses its own clock for three purposes: for the time in
/// its answers, for the check of earliest times, and for versions.
// Promise: R5
pub async fn record_wrong_clocks<W: World>(world: &W) -> Law {
    world.records()?;
    let clock = world.clock();
    let wrong = [clock.set_ahead(HOUR), clock.set_back(HOUR), clock.set_to(SystemTime::UNIX_EPOCH)];
    let mut last_version = None;
    for clock in wrong {
        let client = world.options().clock(clock).over(world.backend())?;
        let right = world.client().records().read(&[], &[]).await?.now;
        let now = client.records().read(&[], &[]).await?.now;
        let off = now.duration_since(right).unwrap_or_default();
        assert!(right <= now && off <= world.slack(), "the store's time is wrong by {off:?}");
        let early = Swap { not_before: Some(now + HOUR / 2), ..write(RECORD, last_version, "early") };
        assert!(
            matches!(swap(&client, early).await?, Swapped::Early(_)),
            "the client's wrong clock has an effect: {clock:?}"
        );
        let late = Swap { not_before: Some(now - TICK), ..write(RECORD, last_version, "late") };
        let version = Some(must_swap(&client, late).await?);
        // A version contains the store's time. `Version::after(None, right)` is the version of the time `right`.
        assert!(version > last_version && version >= Some(Version::after(None, right)));
        last_version = version;
    }
    Ok(())
}

/// Asserts that the holding does not stand, and that swaps with this holding change nothing.
async fn assert_not_held(client: &Client, holding: &Holding, from: Option<Version>) -> Result<(), Error> {
    let before = record_and_history(client, RECORD).await?;
    let held = Some(holding.clone());
    let lines = vec![line("ok:0", "not held")];
    for refused in [write(RECORD, from, "not held"), delete(RECORD, from), write("other", None, "not held")] {
        let answer = swap(client, Swap { held: held.clone(), lines: lines.clone(), ..refused }).await?;
        assert_eq!(answer, Swapped::NotHeld, "{holding:?}");
    }
    assert!(!stands(client, holding).await?);
    assert_eq!(record_and_history(client, RECORD).await?, before);
    assert_eq!(record_and_history(client, "other").await?, (None, Vec::new()));
    Ok(())
}
