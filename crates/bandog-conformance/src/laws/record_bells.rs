//! Subscriptions of records: who hears a swap that rings, and when.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::SystemTime,
};

use bandog_core::{Backend, Error, Holding, Notifier, Records, Subscription, Swap, Swapped};
use bandog_sync::{Client, Notifications};

use crate::{
    Law, Unkept, World,
    child::Child,
    kit::{NAME, PATIENCE, bare_claim, until, within},
    record_kit::{RECORD, delete, done, get, insist, key, rung, swap, write},
    wrap::{Counting, Fate, Lossy, Stopped, Which},
};

/// Law 161: whoever hears a record is rung by each swap that says so: one that creates, replaces or deletes it, by
/// another client or its own. When it rings, the swap can be seen.
pub async fn record_rings<W: World>(world: &W) -> Law {
    world.records()?;
    can_ring(world).await?;
    let (a, b) = (world.client(), world.client());
    let (mut own, mut other) = (hearing(&a).await?, hearing(&b).await?);
    let mut from = None;
    for value in ["one", "two", "three"] {
        let version = done(&a, rung(write(RECORD, from, value))).await?;
        next(&mut own, "a ring of its own").await?;
        next(&mut other, "another's ring").await?;
        assert!(get(&b, RECORD).await?.is_some_and(|record| record.version >= version));
        from = Some(version);
    }
    assert_eq!(swap(&b, rung(delete(RECORD, from))).await?, Swapped::Done(None));
    next(&mut own, "the ring of a deletion").await?;
    assert_eq!(get(&a, RECORD).await?, None);
    Ok(())
}

/// Law 162: swaps that do not say so, that are refused, or of other records, ring nobody; those beside them in a call do.
pub async fn record_rings_only_if_asked<W: World>(world: &W) -> Law {
    world.records()?;
    can_ring(world).await?;
    let (backend, client) = (world.backend(), world.client());
    let (rings, _bell) = counted(&backend).await?;
    let first = done(&client, write(RECORD, None, "silent")).await?;
    let never = bare_claim(NAME, PATIENCE);
    let refused = [
        rung(write(RECORD, None, "another version")),
        Swap {
            not_before: Some(SystemTime::UNIX_EPOCH + PATIENCE * 1_000_000_000),
            ..rung(write(RECORD, Some(first), "early"))
        },
        Swap { held: Some(Holding { key: never.key, id: never.id }), ..rung(write(RECORD, Some(first), "not held")) },
        rung(write("another record", None, "one")),
    ];
    client.swap(&refused).await?;
    let batch =
        [write("neighbour", None, "silent"), rung(write(RECORD, Some(first), "news")), write("last", None, "silent")];
    for swapped in client.swap(&batch).await?.each {
        assert!(matches!(swapped?, Swapped::Done(Some(_))));
    }
    until(|| rings.load(SeqCst) > 0).await;
    assert_eq!(rings.load(SeqCst), 1);
    Ok(())
}

/// Law 163: what rang while nobody asked is not lost, and many rings are one.
pub async fn record_rings_are_kept<W: World>(world: &W) -> Law {
    world.records()?;
    can_ring(world).await?;
    let (a, b) = (world.client(), world.client());
    let (mut rings, backend) = (hearing(&a).await?, world.backend());
    let (count, _bell) = counted(&backend).await?;
    let mut from = None;
    for value in ["one", "two", "three"] {
        from = Some(done(&b, rung(write(RECORD, from, value))).await?);
    }
    until(|| count.load(SeqCst) >= 3).await;
    next(&mut rings, "a ring that came before").await?;
    done(&b, rung(write(RECORD, from, "four"))).await?;
    next(&mut rings, "the next ring").await?;
    Ok(())
}

/// Law 164: a swap between the wish to hear and the bell is not missed, nor one while the store could not be reached.
pub async fn record_rings_when_it_listens<W: World>(world: &W) -> Law {
    world.records()?;
    can_ring(world).await?;
    let (wire, ear) = (Lossy::new(world.backend()), Stopped::new(world.backend()));
    wire.always(Fate::Refused);
    ear.stop(Which::Listening);
    let (a, b, c) = (world.over(wire.clone()), world.over(ear.clone()), world.client());
    let (mut refused, mut held) = (a.subscribe(&key(RECORD))?, b.subscribe(&key(RECORD))?);
    until(|| wire.lost() > 0).await;
    within(PATIENCE, "listening", ear.until_held(1)).await;
    done(&c, rung(write(RECORD, None, "one"))).await?;
    wire.heal();
    ear.go_on();
    next(&mut refused, "the first ring after a refusal").await?;
    next(&mut held, "the first ring after a standstill").await?;
    Ok(())
}

/// Law 165: a connection that broke rings, since it may have swallowed something, and is listened to anew.
pub async fn record_rings_after_a_cut<W: World>(world: &W) -> Law {
    world.records()?;
    can_ring(world).await?;
    let (a, b) = (world.client(), world.client());
    let mut rings = hearing(&a).await?;
    let mut from = None;
    for value in ["one", "two"] {
        world.cut().await?;
        next(&mut rings, "the ring of a new connection").await?;
        from = Some(written(&b, from, value).await?);
        next(&mut rings, "a ring on it").await?;
    }
    Ok(())
}

/// Law 166: a store that died and has forgotten everything rings when it is back, and so do swaps from then on.
pub async fn record_rings_after_a_restart<W: World>(world: &W) -> Law {
    world.records()?;
    can_ring(world).await?;
    let (a, b) = (world.client(), world.client());
    let mut rings = hearing(&a).await?;
    let first = done(&b, write(RECORD, None, "before")).await?;
    world.restart_empty().await?;
    assert_eq!(insist(&a, &write(RECORD, Some(first), "stale")).await, Swapped::Differs(None));
    next(&mut rings, "the ring of a store that is back").await?;
    written(&b, None, "after").await?;
    next(&mut rings, "a ring of it").await?;
    Ok(())
}

/// Law 167: whoever stops hearing leaves no bell, and rings of others go on.
pub async fn record_rings_end<W: World>(world: &W) -> Law {
    world.records()?;
    can_ring(world).await?;
    let counts = Counting::new(world.backend());
    let (a, b) = (world.over(counts.clone()), world.client());
    let (mut stays, ends) = (hearing(&a).await?, hearing(&a).await?);
    assert_eq!(counts.bells(), 2);
    drop(ends);
    until(|| counts.bells() == 1).await;
    done(&b, rung(write(RECORD, None, "one"))).await?;
    next(&mut stays, "a ring").await?;
    drop(a.subscribe(&key("another"))?);
    drop(stays);
    until(|| counts.bells() == 0).await;
    let mut closed = hearing(&a).await?;
    a.close().await?;
    while closed.next().await.is_ok() {}
    assert_eq!(counts.bells(), 0);
    Ok(())
}

/// Law 168: a swap of another process rings, too.
pub async fn record_rings_of_processes<W: World>(world: &W) -> Law {
    world.records()?;
    can_ring(world).await?;
    let client = world.client();
    let mut rings = hearing(&client).await?;
    let mut child = Child::start(world, PATIENCE)?;
    for round in 1..=3 {
        child.tell("ring");
        next(&mut rings, "another process's ring").await?;
        child.says("rung");
        assert_eq!(get(&client, RECORD).await?.map(|record| record.value), Some(round.to_string()));
    }
    Ok(())
}

/// Whether the backend can ring at all.
async fn can_ring<W: World>(world: &W) -> Result<(), Unkept> {
    let bell = world.backend().subscribe_record(&key(RECORD), Notifier::new(|| {})).await?;
    if bell.is_silent() { Err(Unkept::Cannot("it has no bells")) } else { Ok(()) }
}

/// The rings of a record to which the store listens.
async fn hearing(client: &Client) -> Result<Notifications, Error> {
    let mut rings = client.subscribe(&key(RECORD))?;
    next(&mut rings, "the ring that says that it listens").await?;
    Ok(rings)
}

async fn next(rings: &mut Notifications, what: &str) -> Result<(), Error> {
    within(PATIENCE, what, rings.next()).await
}

/// Counts the rings of a bare backend.
async fn counted(backend: &impl Backend) -> Result<(Arc<AtomicUsize>, Subscription), Error> {
    let count = Arc::new(AtomicUsize::new(0));
    let rings = Arc::clone(&count);
    let bell = backend.subscribe_record(&key(RECORD), Notifier::new(move || _ = rings.fetch_add(1, SeqCst))).await?;
    Ok((count, bell))
}

/// Writes until it is written, over connections that broke.
async fn written(
    client: &Client,
    from: Option<bandog_core::Version>,
    value: &str,
) -> Result<bandog_core::Version, Error> {
    match insist(client, &rung(write(RECORD, from, value))).await {
        Swapped::Done(Some(version)) => Ok(version),
        Swapped::Differs(Some(record)) if record.value == value => Ok(record.version),
        answer => panic!("{answer:?}"),
    }
}
