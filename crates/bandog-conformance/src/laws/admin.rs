//! Operations for operators: the inspection of locks, the registry of clients, and evictions. An eviction takes a lock
//! from its holder.

use std::{
    sync::Mutex,
    time::{Duration, SystemTime},
};

use bandog_core::{
    Backend, BlockedCall, BlockedCalls, Claim, ClaimId, ClientId, Error, ErrorKind, Fence, Inspect, Key, Kind, Leases,
    MAX_WAITS, Member, Pattern, Row,
};
use bandog_testkit::eventually_async;
use tokio::time;

use crate::{
    Law, World,
    ends_itself::EndsItself,
    kind_kit::{Subscribed, each_sole, without_ttl},
    kit::{
        MAX_WAIT, NAME, bare_claim, claim, error_kind, guard_of_waiter, is_free, nothing_left, release, start_waiter,
        take, within,
    },
};

/// Law 95: `show` and `list` report the holder of a lock, its fence and its remaining ttl, or that the lock is free.
pub async fn inspect<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    // `slack` is the maximum delay of an event on a loaded machine. So this lease does not expire during the law.
    let guard = a.mutex(NAME).lease(world.slack() * 10).lock().await?;
    let row = b.show(NAME).await?;
    assert_eq!((row.name.as_str(), row.kind, row.holders.len()), (NAME, Some(Kind::Mutex), 1));
    let holder = &row.holders[0];
    let owner = holder.owner.clone().expect("a held lock has no owner");
    assert!(owner.starts_with(&format!("{}:", a.id())), "the owner {owner} does not begin with its client's id");
    assert!(bandog_core::ClientId::made(&owner), "{owner} is not the owner of a bandog client");
    assert!(holder.fence >= Some(guard.fence()), "the fence is less than the guard's: {holder:?}");
    let ttl = holder.ttl.expect("a lock with a lease has no ttl");
    assert!(!ttl.is_zero() && ttl <= world.slack() * 10);

    let other = take(&a, "other").await?;
    let names = async |pattern: &str| {
        let rows = b.list(Pattern::new(pattern)).await?;
        Ok::<_, bandog_core::Error>(rows.into_iter().map(|row| row.name).collect::<Vec<_>>())
    };
    assert_eq!(names("*").await?, [NAME, "other"]);
    assert_eq!(names("o*r").await?, ["other"]);
    assert_eq!(names("oth?").await?, [""; 0]);
    let rows = b.list(Pattern::new(NAME)).await?;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].owner(), rows[0].fence(), rows[0].is_held()), (Some(owner.as_str()), row.fence(), true));

    let rows = b.holders(&["never", "other", NAME]).await?;
    let reported: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.is_held(), row.client())).collect();
    assert_eq!(reported, [("never", false, None), ("other", true, Some(a.id())), (NAME, true, Some(a.id()))]);
    assert_eq!((rows[2].owner(), rows[2].fence()), (Some(owner.as_str()), row.fence()));

    guard.release().await?;
    other.release().await?;
    for name in [NAME, "never"] {
        assert_eq!(b.show(name).await?, Row::free(&Key::new(name)?));
    }
    assert_eq!(names("*").await?, [""; 0]);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 95: for each client, the registry has the row that the client wrote last. The row stays until the client removes
/// the row, or until the ttl of the row has passed.
pub async fn registry<W: World>(world: &W) -> Law {
    world.registry()?; // This law applies only if the backend supports the registry.
    let (ours, theirs) = (world.backend(), world.backend());
    create_store(&ours).await?;
    let (first, second) = (member("first"), member("second"));
    assert_eq!(theirs.members().await?, []);
    ours.register(&first, world.slack() * 10).await?;
    ours.register(&second, world.slack() * 10).await?;
    assert_eq!(sorted(theirs.members().await?), sorted(vec![first.clone(), second.clone()]));

    let names = (0..MAX_WAITS).map(|number| Key::new(format!("{number}: a \"name\" über all")));
    let waiting = Member { waits: names.collect::<Result<_, _>>()?, blocked: blocked(second.id)?, ..second };
    ours.register(&waiting, world.slack() * 10).await?;
    assert_eq!(
        sorted(theirs.members().await?),
        sorted(vec![first.clone(), waiting.clone()]),
        "the registry does not have the new row"
    );

    // `members_of` returns the rows of the clients with these ids. A client without a row is left out.
    let sought = [waiting.id, ClientId::random()];
    assert_eq!(theirs.members_of(&sought).await?, std::slice::from_ref(&waiting));
    assert_eq!(theirs.members_of(&[]).await?, []);

    // `deregister` succeeds even if the client has no row. So a caller can repeat it.
    for _ in 0..2 {
        theirs.deregister(waiting.id).await?;
        assert_eq!(theirs.members().await?, std::slice::from_ref(&first));
    }
    let asked = time::Instant::now();
    ours.register(&first, world.ttl()).await?;
    let soon = theirs.members().await?;
    assert!(soon == [first] || asked.elapsed() >= world.ttl(), "a row expired before its ttl");
    until_no_rows(world, &theirs).await?;
    Ok(())
}

/// Law 95: `show` and `list` report the client that holds a lock and the clients that wait for it.
pub async fn inspect_who<W: World>(world: &W) -> Law {
    world.registry()?;
    let (a, b, c) = (world.client(), world.client(), world.client());
    let guard = take(&a, NAME).await?;
    let waiting = start_waiter(&b).await;
    let ids = |members: Vec<Member>| members.into_iter().map(|member| member.id).collect::<Vec<_>>();
    let reported = async || {
        let row = c.show(NAME).await.expect("cannot show the lock");
        let clients = (row.member().map(|member| member.id), ids(row.waiters));
        if clients == (Some(a.id()), vec![b.id()]) { Ok(()) } else { Err(clients) }
    };
    eventually_async(MAX_WAIT, reported).await;
    let row = c.list(Pattern::all()).await?.remove(0);
    let holder = row.member().expect("the list does not have the row of the holder's client");
    assert_eq!((holder.id, holder.pid), (a.id(), std::process::id()));

    guard.release().await?;
    guard_of_waiter(waiting, world.slack()).await?.release().await?;
    a.close().await?;
    b.close().await?;
    until_no_rows(world, &world.backend()).await?;
    Ok(())
}

/// Law 94: a notifier of a lock may drop its own subscription, and the store goes on.
pub async fn lock_notifications_end_themselves<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    let held = Mutex::new(bare_claim(NAME, world.slack() * 10));
    let holder = || held.lock().expect("a claim").clone();
    let next = Claim { joins: true, ..bare_claim(NAME, world.slack() * 10) };
    claim(&ours, &holder()).await?.expect("the lock is free");
    assert_eq!(claim(&theirs, &next).await?, None);
    let ends = EndsItself::new();
    let subscription = theirs.subscribe(&next, ends.slot().notifier()).await?;
    let change = async || {
        release(&ours, &holder()).await.expect("an answer");
        let again = bare_claim(NAME, world.slack() * 10);
        claim(&ours, &again).await.expect("an answer");
        *held.lock().expect("a claim") = again;
    };
    ends.ends(subscription, change).await;
    release(&ours, &holder()).await?;
    release(&theirs, &next).await?;
    nothing_left(world, &[]).await;
    Ok(())
}

/// Law 96: after an eviction, a waiter is notified and gets the lock with a greater fence. The evicted holder is
/// notified of the loss and can no longer release the lock.
pub async fn evict<W: World>(world: &W) -> Law {
    // The holds of a `brisk` client have the short ttl `world.ttl()`. They expire if the client does not renew them.
    let (a, b, c) = (world.brisk(), world.client(), world.client());
    can_evict(world).await?;
    assert_eq!(c.evict(NAME).await?, None, "a free lock was evicted");
    let guard = take(&a, NAME).await?;
    let waiting = start_waiter(&b).await;
    let row = c.evict(NAME).await?.expect("a held lock was not evicted");
    assert_eq!((row.name.as_str(), row.client()), (NAME, Some(a.id())));
    assert!(row.fence() >= Some(guard.fence()) && row.holders[0].ttl.is_some(), "wrong fence or no ttl: {row:?}");
    // `prompt` is the usual maximum for this wait, and `slack` is the maximum delay on a loaded machine.
    let next = guard_of_waiter(waiting, world.prompt().max(world.slack())).await?;
    within(world.ttl() + world.slack(), "the loss", guard.lost()).await;
    assert!(next.fence() > guard.fence());
    assert_eq!(error_kind(guard.release().await), Some(ErrorKind::Lost));
    a.idle().await; // Now all requests of `a` have been answered.
    assert!(!is_free(&a, NAME).await?, "the release freed the lock of the next holder");
    next.release().await?;
    assert_eq!(c.evict(NAME).await?, None, "a released lock was evicted");
    nothing_left(world, &[&a, &b, &c]).await;
    Ok(())
}

/// Law 96: an eviction notifies subscribers, as a release does, and reports whether the lock was held.
pub async fn evict_notifies<W: World>(world: &W) -> Law {
    can_evict(world).await?;
    let (ours, theirs) = (world.backend(), world.backend());
    let result = each_sole(world, async |sole| {
        let held = sole.claim(world.slack() * 10);
        let next = Claim { joins: true, ..sole.claim(world.slack() * 10) };
        // A grant gives a block of fences. `last` is the greatest of them.
        let last_fence = claim(&ours, &held).await?.expect("the lock is free").last();
        assert_eq!(claim(&theirs, &next).await?, None);
        let subscribed = Subscribed::with(&theirs, &next).await?;
        let notified_before = subscribed.count();
        let row_before = ours.show(&held.key).await?;
        let row = ours.evict(&held.key).await?.expect("the lock was held");
        let ttl = |row: &Row| row.holders.iter().map(|holder| holder.ttl).max();
        assert!(ttl(&row) <= ttl(&row_before), "{row:?}, and before the eviction {row_before:?}");
        let owner = held.id.to_string();
        assert!(row.holders.iter().any(|holder| holder.owner.as_ref() == Some(&owner)), "{row:?}");
        assert_eq!(row.holders.len(), 1 + sole.neighbours());
        assert_eq!(without_ttl(row), without_ttl(row_before));
        assert_eq!(ours.evict(&held.key).await?, None);
        subscribed.notified_after(notified_before).await;
        drop(subscribed);
        assert!(!release(&ours, &held).await?, "the evicted claim still holds the lock");
        assert!(claim(&theirs, &next).await?.expect("the lock is free").last() > last_fence);
        assert!(release(&theirs, &next).await?);
        Ok(())
    })
    .await;
    nothing_left(world, &[]).await;
    result
}

/// Law 96: an eviction does not change data that other software has written under a lock's name.
pub async fn evict_spares_others<W: World>(world: &W) -> Law {
    can_evict(world).await?;
    let backend = world.backend();
    for name in world.plant().await? {
        let (key, before) = (Key::new(&name)?, world.raw(&name).await?);
        let was_held = backend.show(&key).await.is_ok_and(|row| row.is_held());
        match backend.evict(&key).await {
            Ok(Some(_)) => assert!(was_held, "{name} was evicted, although it was not a held lock"),
            Ok(None) => assert_eq!(world.raw(&name).await?, before),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Denied, "{name}: {error}");
                assert_eq!(world.raw(&name).await?, before);
            }
        }
    }
    Ok(())
}

/// Returns [`crate::Unkept::Cannot`] if the backend does not support eviction.
pub(super) async fn can_evict<W: World>(world: &W) -> Law {
    let backend = world.backend();
    create_store(&backend).await?;
    match backend.evict(&Key::new("nobody's")?).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            Err(crate::Unkept::Cannot("the backend cannot take a lock from its holder"))
        }
        Err(error) => Err(error.into()),
        Ok(evicted) => {
            assert_eq!(evicted, None);
            Ok(())
        }
    }
}

/// Takes and releases a lock, because some stores are created only when their first lock is taken.
async fn create_store(backend: &impl Backend) -> Law {
    let first = bare_claim("first", Duration::from_secs(1));
    claim(backend, &first).await?.expect("the lock was refused, although it was free");
    assert!(release(backend, &first).await?);
    Ok(())
}

/// Waits until all rows of the registry have expired.
async fn until_no_rows<W: World>(world: &W, backend: &W::Backend) -> Law {
    let empty = async || match backend.members().await.expect("cannot read the registry") {
        members if members.is_empty() => Ok(()),
        members => Err(members),
    };
    eventually_async(world.ttl() + world.slack(), empty).await;
    Ok(())
}

/// A row of a client on another machine. The time in the row is a whole number of milliseconds, because the registry
/// keeps times in milliseconds.
fn member(program: &str) -> Member {
    let since = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_000_000_123);
    let (host, program) = ("elsewhere".to_owned(), program.to_owned());
    Member { since, host, pid: 4_000_000_000, program, ..Member::here(ClientId::random()) }
}

/// The published calls of a client with one blocked call.
fn blocked(client: ClientId) -> Result<BlockedCalls, Error> {
    let id = |number| ClaimId { client, number };
    let (key, seen) = (Key::new(" - a \"name\" über all")?, vec![(ClientId::random(), u64::MAX)]);
    let call = BlockedCall { id: id(7), key, is_reader: true, holds: vec![id(5), id(6)], deadlock: vec![id(7)] };
    Ok(BlockedCalls { lends: true, round: 3, seen, calls: vec![call] })
}

fn sorted(mut members: Vec<Member>) -> Vec<Member> {
    members.sort_by_key(|member| member.id);
    members
}

/// Law 99: a hold has exactly the documented layout in the store.
// Promise: RD2
pub async fn golden_layout<W: World>(world: &W) -> Law {
    let client = world.client();
    let ttl = world.slack() * 10;
    let guard = client.mutex(NAME).lease(ttl).lock().await?;
    let row = client.show(NAME).await?;
    let holder = row.holder().expect("the lock has no holder");
    let owner = holder.owner.as_deref().expect("a held lock has no owner");
    // The store keeps the last fence of the block that the grant reserved, and not the fence of the guard.
    let fence = holder.last_fence.unwrap_or(Fence::new(0)).get();
    assert_eq!(holder.fence, Some(guard.fence()));
    world.layout(NAME, owner, fence, ttl).await?;
    guard.release().await?;
    nothing_left(world, &[&client]).await;
    Ok(())
}
