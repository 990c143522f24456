//! What an operator sees.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use bandog_core::{Backend, ClientId, ErrorKind, Fence, Inspect, Key, Leases, MAX_WAITS, Member, Notifier, Pattern};
use bandog_testkit::eventually_async;
use tokio::time;

use crate::{
    Law, World,
    kit::{
        NAME, PATIENCE, bare_claim, claim, is_free, kind, nothing_left, release, served, take, until, waiter, within,
    },
};

/// Law 95: a look tells who holds a lock, with which fence, and for how long; and that nobody holds it.
pub async fn inspect<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let guard = a.mutex(NAME).lease(world.slack() * 10).lock().await?;
    let row = b.show(NAME).await?;
    assert_eq!((row.name.as_str(), row.held), (NAME, true));
    let owner = row.owner.expect("a held lock has an owner");
    assert!(owner.starts_with(&format!("{}:", a.id())), "{owner}");
    assert!(bandog_core::ClientId::made(&owner));
    assert!(row.fence >= Some(guard.fence()), "{:?}", row.fence);
    let ttl = row.ttl.expect("a lease has an end");
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
    assert_eq!((rows[0].owner.as_deref(), rows[0].fence, rows[0].held), (Some(owner.as_str()), row.fence, true));

    let rows = b.holders(&["never", "other", NAME]).await?;
    let told: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.held, row.client())).collect();
    assert_eq!(told, [("never", false, None), ("other", true, Some(a.id())), (NAME, true, Some(a.id()))]);
    assert_eq!((&rows[2].owner, rows[2].fence), (&Some(owner), row.fence));

    guard.release().await?;
    other.release().await?;
    let row = b.show(NAME).await?;
    assert_eq!((row.held, row.owner, row.ttl), (false, None, None));
    assert!(!b.show("never").await?.held);
    assert_eq!(names("*").await?, [""; 0]);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 95: the registry tells of a client what it said last of itself, until it is withdrawn or its ttl is over.
pub async fn registry<W: World>(world: &W) -> Law {
    world.registry()?;
    let (ours, theirs) = (world.backend(), world.backend());
    was_used(&ours).await?;
    let (first, second) = (member("first"), member("second"));
    assert_eq!(theirs.members().await?, []);
    ours.announce(&first, world.slack() * 10).await?;
    ours.announce(&second, world.slack() * 10).await?;
    assert_eq!(sorted(theirs.members().await?), sorted(vec![first.clone(), second.clone()]));

    let names = (0..MAX_WAITS).map(|number| Key::new(format!("{number}: a \"name\" über all")));
    let waiting = Member { waits: names.collect::<Result<_, _>>()?, ..second };
    ours.announce(&waiting, world.slack() * 10).await?;
    assert_eq!(sorted(theirs.members().await?), sorted(vec![first.clone(), waiting.clone()]), "what it said last");

    // Members are also found by their ids; an id without a row gives no member.
    let sought = [waiting.id, ClientId::random()];
    assert_eq!(theirs.members_of(&sought).await?, std::slice::from_ref(&waiting));
    assert_eq!(theirs.members_of(&[]).await?, []);

    // Every call may be repeated, and a client that is not there can be withdrawn.
    for _ in 0..2 {
        theirs.withdraw(waiting.id).await?;
        assert_eq!(theirs.members().await?, std::slice::from_ref(&first));
    }
    let asked = time::Instant::now();
    ours.announce(&first, world.ttl()).await?;
    let soon = theirs.members().await?;
    assert!(soon == [first] || asked.elapsed() >= world.ttl(), "a row ended before its ttl");
    gone(world, &theirs).await?;
    Ok(())
}

/// Law 95: a look tells who holds a lock and who waits for it, as long as they do.
pub async fn inspect_who<W: World>(world: &W) -> Law {
    world.registry()?;
    let (a, b, c) = (world.client(), world.client(), world.client());
    let guard = take(&a, NAME).await?;
    let waiting = waiter(&b).await;
    let ids = |members: Vec<Member>| members.into_iter().map(|member| member.id).collect::<Vec<_>>();
    let told = async || {
        let row = c.show(NAME).await.expect("a look");
        let seen = (row.holder.map(|member| member.id), ids(row.waiters));
        if seen == (Some(a.id()), vec![b.id()]) { Ok(()) } else { Err(seen) }
    };
    eventually_async(PATIENCE, told).await;
    let row = c.list(Pattern::all()).await?.remove(0);
    let holder = row.holder.expect("the list tells it too");
    assert_eq!((holder.id, holder.pid), (a.id(), std::process::id()));

    guard.release().await?;
    served(waiting, world.slack()).await?.release().await?;
    a.close().await?;
    b.close().await?;
    gone(world, &world.backend()).await?;
    Ok(())
}

/// Law 96: a lock that is taken by force can be had by others, who are rung; its holder is told, cannot free it any
/// more, and fences rise.
pub async fn evict<W: World>(world: &W) -> Law {
    let (a, b, c) = (world.brisk(), world.client(), world.client());
    evictable(world).await?;
    assert_eq!(c.evict(NAME).await?, None, "nobody held it");
    let guard = take(&a, NAME).await?;
    let waiting = waiter(&b).await;
    let row = c.evict(NAME).await?.expect("somebody held it");
    assert_eq!((row.name.as_str(), row.held, row.client()), (NAME, true, Some(a.id())));
    assert!(row.fence >= Some(guard.fence()) && row.ttl.is_some(), "{row:?}");
    let next = served(waiting, world.prompt().max(world.slack())).await?;
    within(world.ttl() + world.slack(), "being told", guard.lost()).await;
    assert!(next.fence() > guard.fence());
    assert_eq!(kind(guard.release().await), Some(ErrorKind::Lost));
    a.idle().await;
    assert!(!is_free(&a, NAME).await?, "the lock of one who was not evicted");
    next.release().await?;
    assert_eq!(c.evict(NAME).await?, None, "it was given back");
    nothing_left(world, &[&a, &b, &c]).await;
    Ok(())
}

/// Law 96: an eviction rings whoever listens, as a release does, and tells whether somebody held the key.
pub async fn evict_rings<W: World>(world: &W) -> Law {
    evictable(world).await?;
    let (ours, theirs) = (world.backend(), world.backend());
    let held = bare_claim(NAME, world.slack() * 10);
    let first = claim(&ours, &held).await?.expect("it is free").last();
    let rings = Arc::new(AtomicUsize::new(0));
    let notifier = Notifier::new({
        let rings = Arc::clone(&rings);
        move || {
            rings.fetch_add(1, Relaxed);
        }
    });
    let bell = theirs.subscribe(&held.key, notifier).await?;
    let before = rings.load(Relaxed);
    let before_it = ours.show(&held.key).await?;
    let row = ours.evict(&held.key).await?.expect("somebody held it");
    assert_eq!((&row.owner, row.fence), (&before_it.owner, before_it.fence));
    assert_eq!(row.owner, Some(held.id.to_string()));
    assert!(row.held && row.ttl <= before_it.ttl, "{row:?}, and before {before_it:?}");
    assert_eq!(ours.evict(&held.key).await?, None);
    if !bell.is_silent() {
        until(|| rings.load(Relaxed) > before).await;
    }
    drop(bell);
    assert!(!release(&ours, &held).await?, "its claim does not hold it any more");
    let next = bare_claim(NAME, world.slack() * 10);
    assert!(claim(&theirs, &next).await?.expect("it is free").last() > first);
    assert!(release(&theirs, &next).await?);
    nothing_left(world, &[]).await;
    Ok(())
}

/// Law 96: what is no lock is not freed by force.
pub async fn evict_spares_others<W: World>(world: &W) -> Law {
    evictable(world).await?;
    let backend = world.backend();
    for name in world.plant().await? {
        let (key, before) = (Key::new(&name)?, world.raw(&name).await?);
        let was_held = backend.show(&key).await.is_ok_and(|row| row.held);
        match backend.evict(&key).await {
            Ok(Some(_)) => assert!(was_held, "{name} was no lock that somebody held"),
            Ok(None) => assert_eq!(world.raw(&name).await?, before),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Denied, "{name}: {error}");
                assert_eq!(world.raw(&name).await?, before);
            }
        }
    }
    Ok(())
}

/// Whether the backend can take a lock from its holder at all.
async fn evictable<W: World>(world: &W) -> Law {
    let backend = world.backend();
    was_used(&backend).await?;
    match backend.evict(&Key::new("nobody's")?).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            Err(crate::Unkept::Cannot("it cannot take a lock from its holder"))
        }
        Err(error) => Err(error.into()),
        Ok(released) => {
            assert_eq!(released, None);
            Ok(())
        }
    }
}

/// A store may be made by its first lock.
async fn was_used(backend: &impl Backend) -> Law {
    let first = bare_claim("first", Duration::from_secs(1));
    claim(backend, &first).await?.expect("it is free");
    assert!(release(backend, &first).await?);
    Ok(())
}

/// Waits until the registry is empty. Rows end by themselves.
async fn gone<W: World>(world: &W, backend: &W::Backend) -> Law {
    let empty = async || match backend.members().await.expect("a look at the registry") {
        members if members.is_empty() => Ok(()),
        members => Err(members),
    };
    eventually_async(world.ttl() + world.slack(), empty).await;
    Ok(())
}

/// A client of another machine, to the millisecond, since that is what a registry keeps.
fn member(program: &str) -> Member {
    let since = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_000_000_123);
    let (host, program) = ("elsewhere".to_owned(), program.to_owned());
    let (prefix, waits) = (String::new(), Vec::new());
    Member { id: ClientId::random(), host, pid: 4_000_000_000, program, since, prefix, waits }
}

fn sorted(mut members: Vec<Member>) -> Vec<Member> {
    members.sort_by_key(|member| member.id);
    members
}

/// Law 99: a hold lies in the store as the documentation says, to the byte.
pub async fn golden_layout<W: World>(world: &W) -> Law {
    let client = world.client();
    let ttl = world.slack() * 10;
    let guard = client.mutex(NAME).lease(ttl).lock().await?;
    let row = client.show(NAME).await?;
    let owner = row.owner.expect("a held lock has an owner");
    let fence = row.last_fence.unwrap_or(Fence::new(0)).get();
    assert_eq!(row.fence, Some(guard.fence()));
    world.layout(NAME, &owner, fence, ttl).await?;
    guard.release().await?;
    nothing_left(world, &[&client]).await;
    Ok(())
}
