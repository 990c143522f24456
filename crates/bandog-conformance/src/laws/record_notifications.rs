//! Subscriptions to records. A swap with `notifies` notifies the subscribers of its record. In this file, such a swap
//! is called a *notifying swap*.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::SystemTime,
};

use bandog_core::{Backend, Error, Holding, Notifier, Records, Subscription, Swap, Swapped};
use bandog_sync::{Client, Notifications};

use crate::{
    Law, Unkept, World,
    child::Child,
    ends_itself::EndsItself,
    kit::{MAX_WAIT, NAME, bare_claim, until, within},
    record_kit::{RECORD, delete, get, key, must_swap, notifying, swap, swap_until_answered, write},
    wrap::{Counting, Fate, Lossy, Stopped, Which},
};

/// Law 161: a notifying swap that creates, replaces or deletes a record notifies all subscribers of the record,
/// including the subscribers of the client that made the swap. When the notification comes, the swap is visible.
// Promise: R12
pub async fn record_notified<W: World>(world: &W) -> Law {
    world.records()?; // This law applies only if the backend supports records.
    can_notify(world).await?;
    let (a, b) = (world.client(), world.client());
    let (mut own, mut other) = (subscribed(&a).await?, subscribed(&b).await?);
    let mut from = None;
    for value in ["one", "two", "three"] {
        let version = must_swap(&a, notifying(write(RECORD, from, value))).await?;
        next(&mut own, "a notification of its own swap").await?;
        next(&mut other, "a notification of another client's swap").await?;
        assert!(get(&b, RECORD).await?.is_some_and(|record| record.version >= version));
        from = Some(version);
    }
    assert_eq!(swap(&b, notifying(delete(RECORD, from))).await?, Swapped::Done(None));
    next(&mut own, "the notification of a deletion").await?;
    assert_eq!(get(&a, RECORD).await?, None);
    Ok(())
}

/// Law 162: a subscriber is not notified of a swap without `notifies`, of a refused swap, or of a swap of another
/// record. If a call has several swaps, the subscriber is notified only of the notifying swaps of its record.
// Promise: R13
pub async fn record_notified_only_if_asked<W: World>(world: &W) -> Law {
    world.records()?;
    can_notify(world).await?;
    let (backend, client) = (world.backend(), world.client());
    let (notifications, _subscription) = count_notifications(&backend).await?;
    let first = must_swap(&client, write(RECORD, None, "silent")).await?;
    let never_sent = bare_claim(NAME, MAX_WAIT);
    let refused = [
        notifying(write(RECORD, None, "another version")),
        Swap {
            not_before: Some(SystemTime::UNIX_EPOCH + MAX_WAIT * 1_000_000_000),
            ..notifying(write(RECORD, Some(first), "early"))
        },
        Swap {
            held: Some(Holding { key: never_sent.key, id: never_sent.id }),
            ..notifying(write(RECORD, Some(first), "not held"))
        },
        notifying(write("another record", None, "one")),
    ];
    client.records().swap(&refused).await?;
    let batch = [
        write("neighbour", None, "silent"),
        notifying(write(RECORD, Some(first), "notifying")),
        write("last", None, "silent"),
    ];
    for swapped in client.records().swap(&batch).await?.each {
        assert!(matches!(swapped?, Swapped::Done(Some(_))));
    }
    until(|| notifications.load(SeqCst) > 0).await;
    assert_eq!(notifications.load(SeqCst), 1);
    Ok(())
}

/// Law 163: if a notification comes while no call waits for notifications, the notification is kept for the next call.
/// Several kept notifications become one.
// Promise: R12
pub async fn record_notifications_are_kept<W: World>(world: &W) -> Law {
    world.records()?;
    can_notify(world).await?;
    let (a, b) = (world.client(), world.client());
    let (mut notifications, backend) = (subscribed(&a).await?, world.backend());
    let (count, _subscription) = count_notifications(&backend).await?;
    let mut from = None;
    for value in ["one", "two", "three"] {
        let before = count.load(SeqCst);
        from = Some(must_swap(&b, notifying(write(RECORD, from, value))).await?);
        // Two notifications that come close together can become one. So the test waits after each swap.
        until(|| count.load(SeqCst) > before).await;
    }
    next(&mut notifications, "a notification that came before").await?;
    must_swap(&b, notifying(write(RECORD, from, "four"))).await?;
    next(&mut notifications, "the next notification").await?;
    Ok(())
}

/// Law 164: a subscriber is also notified of a swap that was done before the store confirmed the subscription, or while
/// the client could not reach the store.
// Promise: R12
pub async fn record_notified_when_it_subscribes<W: World>(world: &W) -> Law {
    world.records()?;
    can_notify(world).await?;
    let (wire, stopped) = (Lossy::new(world.backend()), Stopped::new(world.backend()));
    wire.always(Fate::Refused);
    stopped.stop(Which::Subscriptions);
    let (a, b, c) = (world.over(wire.clone()), world.over(stopped.clone()), world.client());
    let (mut refused, mut held) = (a.records().subscribe(&key(RECORD))?, b.records().subscribe(&key(RECORD))?);
    until(|| wire.lost() > 0).await;
    within(MAX_WAIT, "the subscription request", stopped.until_held(1)).await;
    must_swap(&c, notifying(write(RECORD, None, "one"))).await?;
    wire.heal();
    stopped.go_on();
    next(&mut refused, "the first notification after a refusal").await?;
    next(&mut held, "the first notification after the store continues").await?;
    Ok(())
}

/// Law 165: after a connection broke, each subscriber is notified, because an earlier notification might have been
/// lost. The subscription continues on a new connection.
// Promise: R12
pub async fn record_notified_after_a_cut<W: World>(world: &W) -> Law {
    world.records()?;
    can_notify(world).await?;
    let (a, b) = (world.client(), world.client());
    let mut notifications = subscribed(&a).await?;
    let mut from = None;
    for value in ["one", "two"] {
        world.cut().await?;
        next(&mut notifications, "the notification of a new connection").await?;
        from = Some(swap_repeatedly(&b, from, value).await?);
        next(&mut notifications, "a notification on the new connection").await?;
    }
    Ok(())
}

/// Law 166: after a store was killed, lost its data and was started again, each subscriber is notified. Later swaps
/// notify the subscribers as before.
// Promise: R12
pub async fn record_notified_after_a_restart<W: World>(world: &W) -> Law {
    world.records()?;
    can_notify(world).await?;
    let (a, b) = (world.client(), world.client());
    let mut notifications = subscribed(&a).await?;
    let first = must_swap(&b, write(RECORD, None, "before")).await?;
    world.restart_empty().await?;
    assert_eq!(swap_until_answered(&a, &write(RECORD, Some(first), "stale")).await, Swapped::Differs(None));
    next(&mut notifications, "the notification that the store was restarted").await?;
    swap_repeatedly(&b, None, "after").await?;
    next(&mut notifications, "a notification of a later swap").await?;
    Ok(())
}

/// Law 167: a subscription ends when its subscriber is dropped. Other subscribers are still notified.
pub async fn record_notifications_end<W: World>(world: &W) -> Law {
    world.records()?;
    can_notify(world).await?;
    let counts = Counting::new(world.backend());
    let (a, b) = (world.over(counts.clone()), world.client());
    let (mut stays, ends) = (subscribed(&a).await?, subscribed(&a).await?);
    assert_eq!(counts.subscriptions(), 2);
    drop(ends);
    until(|| counts.subscriptions() == 1).await;
    must_swap(&b, notifying(write(RECORD, None, "one"))).await?;
    next(&mut stays, "a notification").await?;
    drop(a.records().subscribe(&key("another"))?);
    drop(stays);
    until(|| counts.subscriptions() == 0).await;
    let mut closed = subscribed(&a).await?;
    a.close().await?;
    while closed.next().await.is_ok() {}
    assert_eq!(counts.subscriptions(), 0);
    Ok(())
}

/// Law 168: a subscriber is also notified of the swaps of another process.
// Promise: R12
pub async fn record_notified_by_processes<W: World>(world: &W) -> Law {
    world.records()?;
    can_notify(world).await?;
    let client = world.client();
    let mut notifications = subscribed(&client).await?;
    let mut child = Child::start(world, MAX_WAIT)?;
    for round in 1..=3 {
        child.send("notify");
        next(&mut notifications, "a notification of another process's swap").await?;
        child.says("notified");
        assert_eq!(get(&client, RECORD).await?.map(|record| record.value), Some(round.to_string()));
    }
    Ok(())
}

/// Law 169: a notifier of a record may drop its own subscription, and the store goes on.
pub async fn record_notifications_end_themselves<W: World>(world: &W) -> Law {
    world.records()?;
    can_notify(world).await?;
    let (backend, client) = (world.backend(), world.client());
    let ends = EndsItself::new();
    let subscription = backend.subscribe_record(&key(RECORD), ends.slot().notifier()).await?;
    let version = Mutex::new(None);
    let change = async || {
        let from = *version.lock().expect("a version");
        let written = swap(&client, notifying(write(RECORD, from, "next"))).await.expect("a swap");
        let Swapped::Done(now) = written else { panic!("nobody else writes this record: {written:?}") };
        *version.lock().expect("a version") = now;
    };
    ends.ends(subscription, change).await;
    Ok(())
}

/// Returns [`Unkept::Cannot`] if the backend does not support notifications. Then the law does not apply.
async fn can_notify<W: World>(world: &W) -> Result<(), Unkept> {
    let subscription = world.backend().subscribe_record(&key(RECORD), Notifier::new(|| {})).await?;
    if subscription.is_silent() { Err(Unkept::Cannot("the backend has no notifications")) } else { Ok(()) }
}

/// Subscribes to the record, and waits until the store has confirmed the subscription.
async fn subscribed(client: &Client) -> Result<Notifications, Error> {
    let mut notifications = client.records().subscribe(&key(RECORD))?;
    next(&mut notifications, "the notification that confirms the subscription").await?;
    Ok(notifications)
}

/// Waits for the next notification. If the timeout passes, panics with a message that contains `what`.
async fn next(notifications: &mut Notifications, what: &str) -> Result<(), Error> {
    within(MAX_WAIT, what, notifications.next()).await
}

/// Subscribes to the record with a direct call of a backend. The returned number counts the notifications.
async fn count_notifications(backend: &impl Backend) -> Result<(Arc<AtomicUsize>, Subscription), Error> {
    let count = Arc::new(AtomicUsize::new(0));
    let notifications = Arc::clone(&count);
    let subscription =
        backend.subscribe_record(&key(RECORD), Notifier::new(move || _ = notifications.fetch_add(1, SeqCst))).await?;
    Ok((count, subscription))
}

/// Makes a notifying swap, and returns the new version. If the connection breaks, this function repeats the swap.
async fn swap_repeatedly(
    client: &Client,
    from: Option<bandog_core::Version>,
    value: &str,
) -> Result<bandog_core::Version, Error> {
    match swap_until_answered(client, &notifying(write(RECORD, from, value))).await {
        Swapped::Done(Some(version)) => Ok(version),
        Swapped::Differs(Some(record)) if record.value == value => Ok(record.version),
        answer => panic!("the swap got the answer {answer:?}"),
    }
}
