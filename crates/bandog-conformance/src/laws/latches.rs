//! Count-down latches: counters that are set once and counted down to zero. A latch is *open* if its count is zero or
//! if it does not exist.

use std::{
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bandog_core::{
    ClientId, Error, ErrorKind, LatchAction, LatchAnswer, LatchOperation, LatchRow, Latches, Leases, OperationId,
    Pattern,
};
use bandog_sync::Client;
use tokio::{task::JoinHandle, time};

use crate::{
    Law, World,
    child::Child,
    kit::{MAX_WAIT, NAME, answered_in_time, until, within},
    record_kit::key,
    wrap::{Counting, Delayed, Fate, Lossy, WithoutSubscriptions},
};

/// Law 181: the first call sets the count of a latch. Further calls change nothing until the latch is open. Then the
/// latch can be set again.
// Promise: CL1
pub async fn latch_set_once<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, b) = (world.client().latch(NAME), world.client().latch(NAME));
    assert_eq!(a.count().await?, 0);
    assert!(a.set(2).await?);
    assert!(!b.set(5).await? && !a.set(2).await?);
    assert_eq!(b.count().await?, 2);
    assert_eq!(b.count_down().await?, 1);
    assert!(!a.set(9).await?);
    assert_eq!(a.count_down().await?, 0);
    assert!(b.set(5).await?);
    assert_eq!(a.count().await?, 5);
    for wrong in [0, (1 << 53) + 1] {
        assert_eq!(a.set(wrong).await.expect_err("the count is wrong").kind(), ErrorKind::Misused);
        assert_eq!(a.count_down_by(wrong).await.expect_err("the number is wrong").kind(), ErrorKind::Misused);
    }
    assert_eq!(b.count().await?, 5);
    Ok(())
}

/// Law 182: a call that waits for a latch returns when the count reaches zero, and not earlier. If the backend has
/// notifications, the call returns promptly.
// Promise: CL2
pub async fn latch_opens_at_zero<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, counts) = (world.client(), Counting::new(world.backend()));
    let b = world.over(counts.clone());
    within(MAX_WAIT, "a wait for an open latch", b.latch(NAME).wait()).await?;
    let mut delays = Vec::new();
    for _ in 0..5 {
        a.latch(NAME).set(2).await?;
        let waiter = waiting(&b, &counts).await;
        assert_eq!(a.latch(NAME).count_down().await?, 1);
        assert!(!answered_in_time(async || b.latch(NAME).wait_for(Duration::from_millis(20)).await).await?);
        assert!(!waiter.is_finished());
        let opened = world.clock().now();
        assert_eq!(a.latch(NAME).count_down().await?, 0);
        ended(waiter).await?;
        delays.push(world.clock().now().since(opened));
        until(|| counts.subscriptions() == 0).await;
    }
    delays.sort_unstable();
    // See `World::prompt`.
    assert!(delays[1] <= world.prompt(), "{delays:?}");
    Ok(())
}

/// Law 183: the store applies an operation once, even if the client sends the operation several times. A repetition has
/// the same answer as the first attempt, even if the latch is open or was set again in the meantime.
// Promise: CL3
pub async fn latch_operation_counts_once<W: World>(world: &W) -> Law {
    world.records()?;
    let (one, other) = (world.backend(), world.backend());
    let client = ClientId::random();
    let operation = |number, action| LatchOperation {
        key: key(NAME),
        id: OperationId { client, number },
        action,
        remember: MAX_WAIT,
        forget_before: 0,
    };
    let number = |number| NonZeroU64::new(number).expect("a number above 0");
    let changed = |has_changed, count| Some(LatchAnswer { has_changed, count });
    let set = operation(1, LatchAction::Set(number(3)));
    let refused = operation(2, LatchAction::Set(number(8)));
    let down = operation(3, LatchAction::CountDown(number(1)));
    for backend in [&one, &other, &one] {
        assert_eq!(backend.change_latch(&set).await?, changed(true, 3));
        assert_eq!(backend.change_latch(&refused).await?, changed(false, 3));
    }
    for backend in [&one, &other, &one] {
        assert_eq!(backend.change_latch(&down).await?, changed(true, 2));
    }
    // The same number of another client is another operation.
    let mut others = down.clone();
    others.id.client = ClientId::random();
    assert_eq!(other.change_latch(&others).await?, changed(true, 1));
    let last = operation(4, LatchAction::CountDown(number(1)));
    for backend in [&one, &other] {
        assert_eq!(backend.change_latch(&last).await?, changed(true, 0));
    }
    // The latch is open, and no repetition sets it again.
    assert_eq!(one.change_latch(&set).await?, changed(true, 0));
    assert_eq!(one.change_latch(&refused).await?, changed(false, 0));
    // A repetition of an operation that found an open latch does not count either.
    let early = operation(5, LatchAction::CountDown(number(1)));
    assert_eq!(one.change_latch(&early).await?, changed(false, 0));
    assert_eq!(one.change_latch(&operation(6, LatchAction::Set(number(2)))).await?, changed(true, 2));
    for repeated in [&early, &down, &last] {
        assert_eq!(other.change_latch(repeated).await?.map(|answer| answer.count), Some(2));
    }
    let delete = operation(7, LatchAction::Delete);
    assert_eq!(one.change_latch(&delete).await?, changed(true, 0));
    assert_eq!(one.change_latch(&operation(8, LatchAction::Set(number(4)))).await?, changed(true, 4));
    assert_eq!(other.change_latch(&delete).await?, changed(true, 4));
    // The store may forget operations 1 to 6 of this client, and no other operation.
    let down = LatchOperation { forget_before: 7, ..operation(9, LatchAction::CountDown(number(1))) };
    for repeated in [&down, &delete, &others, &down] {
        assert_eq!(other.change_latch(repeated).await?, changed(true, 3));
    }
    assert_eq!(other.latch_count(&key(NAME)).await?, 3);
    Ok(())
}

/// Law 184: a count never goes below zero. A count-down of an open latch changes nothing, so a latch that is set later
/// has its full count.
// Promise: CL4
pub async fn latch_below_zero<W: World>(world: &W) -> Law {
    world.records()?;
    let latch = world.client().latch(NAME);
    assert_eq!(latch.count_down().await?, 0);
    assert!(latch.set(3).await?);
    assert_eq!(latch.count_down_by(10).await?, 0);
    assert_eq!((latch.count_down().await?, latch.count().await?), (0, 0));
    assert!(latch.set(1).await?);
    assert_eq!(latch.count().await?, 1);
    Ok(())
}

/// Law 185: a deletion opens a latch, and wakes the calls that wait for it.
// Promise: CL5
pub async fn latch_deleted<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, counts) = (world.client(), Counting::new(world.backend()));
    let b = world.over(counts.clone());
    assert!(!a.latch(NAME).delete().await?);
    a.latch(NAME).set(7).await?;
    let waiter = waiting(&b, &counts).await;
    assert!(a.latch(NAME).delete().await?);
    ended(waiter).await?;
    assert!(!b.latch(NAME).delete().await?);
    assert!(a.latch(NAME).set(1).await?);
    Ok(())
}

/// Law 186: 64 parties of several clients count down and wait. No party continues before all have counted down, and all
/// continue after that.
// Promise: CL2
pub async fn latch_parties<W: World>(world: &W) -> Law {
    const PARTIES: u64 = 64;
    world.records()?;
    let clients: Vec<Client> = (0..4).map(|_| world.client()).collect();
    let started = Arc::new(AtomicU64::new(0));
    assert!(clients[0].latch(NAME).set(PARTIES).await?);
    let party = |client: &Client| {
        let (latch, started) = (client.latch(NAME), Arc::clone(&started));
        tokio::spawn(async move {
            started.fetch_add(1, SeqCst);
            latch.count_down().await?;
            latch.wait().await?;
            Ok::<_, Error>(started.load(SeqCst))
        })
    };
    let parties: Vec<_> = clients.iter().cycle().take(64).map(party).collect();
    for party in parties {
        let seen = within(MAX_WAIT * 3, "a party", party).await.expect("the task does not panic")?;
        assert_eq!(seen, PARTIES, "a party continued before all had counted down");
    }
    assert_eq!(clients[0].latch(NAME).count().await?, 0);
    Ok(())
}

/// Law 187: if the request or the answer of an operation is lost, the client repeats the operation. The operation is
/// still applied once, even if the first attempt reaches the store late.
// Promise: CL3
pub async fn latch_lost_answer<W: World>(world: &W) -> Law {
    world.records()?;
    let wire = Lossy::new(world.backend());
    let (lossy, reader) = (world.over(wire.clone()).latch(NAME), world.client().latch(NAME));
    let late = wire.profile().timeout / 20;
    let fates = [Fate::ReplyLost, Fate::RequestLost, Fate::Refused, Fate::Late(late), Fate::Late(Duration::ZERO)];
    let mut expected = 20;
    wire.next([Fate::ReplyLost]);
    assert!(lossy.set(expected).await?, "the repetition of a call that has set the latch has the same answer");
    for fate in fates {
        wire.next([fate]);
        expected -= 2;
        assert_eq!(lossy.count_down_by(2).await?, expected, "{fate:?}");
        assert_eq!(wire.pending(), 0);
        time::sleep(late * 2).await; // By then the late attempt has reached the store.
        assert_eq!(reader.count().await?, expected, "{fate:?}");
    }
    wire.next(fates);
    assert_eq!(lossy.count_down().await?, expected - 1);
    wire.next([Fate::ReplyLost]);
    assert!(lossy.delete().await?);
    wire.always(Fate::ReplyLost);
    let error = within(MAX_WAIT, "an operation without answers", lossy.count_down()).await.expect_err("no answer");
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true));
    Ok(())
}

/// Law 188: several clients count down over connections that delay and lose calls at random. Each call that returns is
/// counted exactly once.
// Promise: CL3
pub async fn latch_lossy_crowd<W: World>(world: &W) -> Law {
    const COUNT: u64 = 1_000;
    const CALLS: u64 = 15;
    world.records()?;
    let max_delay = Duration::from_millis(3);
    let reader = world.client().latch(NAME);
    assert!(reader.set(COUNT).await?);
    let party = |seed: u64| {
        let wire = Lossy::new(Delayed::new(world.backend(), seed, max_delay, max_delay));
        let latch = world.over(wire.clone()).latch(NAME);
        tokio::spawn(async move {
            latch.count().await?; // This read connects to the store before the faults begin.
            wire.at_random(seed, 0.3, max_delay * 10);
            for _ in 0..CALLS {
                latch.count_down().await?;
            }
            Ok::<_, Error>(wire.lost())
        })
    };
    let mut lost = 0;
    for party in (1..=4).map(party).collect::<Vec<_>>() {
        lost += within(MAX_WAIT * 3, "a party", party).await.expect("the task does not panic")?;
    }
    assert!(lost > 0, "no call was lost");
    time::sleep(max_delay * 20).await; // By then the last late operation has reached the store.
    assert_eq!(reader.count().await?, COUNT - 4 * CALLS);
    Ok(())
}

/// Law 189: a wait ends at its limit, or when its future is dropped. Then its subscription ends too. A close of the
/// client ends all waits.
// Promise: CL6
pub async fn latch_wait_ends<W: World>(world: &W) -> Law {
    world.records()?;
    let counts = Counting::new(world.backend());
    let client = world.over(counts.clone());
    let latch = client.latch(NAME);
    latch.set(1).await?;
    assert!(!latch.wait_for(Duration::ZERO).await?);
    let (limit, began) = (Duration::from_millis(50), world.clock().now());
    let wait = async || within(MAX_WAIT, "a wait with a limit", latch.wait_for(limit)).await;
    assert!(!answered_in_time(wait).await?);
    assert!(world.clock().now().since(began) >= limit);
    let dropped = waiting(&client, &counts).await;
    dropped.abort();
    until(|| counts.subscriptions() == 0).await;
    let closed = waiting(&client, &counts).await;
    client.close().await?;
    let ended = within(MAX_WAIT, "the end of a wait", closed).await.expect("the task does not panic");
    assert_eq!(ended.expect_err("the client was closed").kind(), ErrorKind::Closed);
    assert_eq!(world.client().latch(NAME).count().await?, 1, "a wait changes nothing");
    Ok(())
}

/// Law 190: a client that cannot subscribe polls, so its waiting calls return nevertheless.
// Promise: CL2
pub async fn latch_without_subscription<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, b) = (world.client(), world.over(WithoutSubscriptions::new(world.backend())));
    a.latch(NAME).set(1).await?;
    let latch = b.latch(NAME);
    latch.count().await?; // This read connects to the store before the short wait begins.
    let waiter = tokio::spawn(async move { latch.wait().await });
    assert!(!answered_in_time(async || b.latch(NAME).wait_for(Duration::from_millis(20)).await).await?);
    a.latch(NAME).count_down().await?;
    ended(waiter).await?;
    Ok(())
}

/// Law 191: if all connections break while a call waits, the call still returns when the latch becomes open, even if
/// that happens before the client has subscribed again.
// Promise: CL2
pub async fn latch_after_a_cut<W: World>(world: &W) -> Law {
    world.records()?;
    world.cut().await?; // The law does not apply if the world has no connections.
    let (a, counts) = (world.client(), Counting::new(world.backend()));
    let b = world.over(counts.clone());
    for _ in 0..3 {
        a.latch(NAME).set(1).await?;
        let waiter = waiting(&b, &counts).await;
        world.cut().await?;
        a.latch(NAME).count_down().await?;
        ended(waiter).await?;
        until(|| counts.subscriptions() == 0).await;
    }
    Ok(())
}

/// Law 192: after a store has lost its data, all latches are open, and waiting calls return.
// Promise: CL8
pub async fn latch_restart_empty<W: World>(world: &W) -> Law {
    world.records()?;
    let counts = Counting::new(world.backend());
    let client = world.over(counts.clone());
    client.latch(NAME).set(3).await?;
    world.restart_empty().await?;
    assert!(client.latch(NAME).set(2).await?, "the latch is open after the loss");
    let waiter = waiting(&client, &counts).await;
    world.restart_empty().await?;
    ended(waiter).await?;
    assert!(client.latch(NAME).set(1).await?);
    Ok(())
}

/// Law 193: a call that waits also returns if another process counts down.
// Promise: CL2
pub async fn latch_of_another_process<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let mut child = Child::start(world, MAX_WAIT)?;
    client.latch(NAME).set(2).await?;
    let latch = client.latch(NAME);
    let waiter = tokio::spawn(async move { latch.wait().await });
    for left in [1, 0] {
        child.send("count_down");
        child.says("counted");
        assert_eq!(client.latch(NAME).count().await?, left);
    }
    ended(waiter).await?;
    Ok(())
}

/// Law 194: two names are two latches, and the prefix of a client is part of the name. A name that is not allowed is
/// refused.
// Promise: CL1
pub async fn latch_names<W: World>(world: &W) -> Law {
    world.records()?;
    let plain = world.client();
    let prefixed = world.options().prefix("shop:").over(world.backend())?;
    for name in ["a", "A", "a{b}c", "{a}", "中文 name", "a/b"] {
        assert!(plain.latch(name).set(2).await?, "{name}");
        assert!(prefixed.latch(name).set(1).await?, "{name}");
        assert_eq!(plain.latch(format!("shop:{name}")).count().await?, 1, "{name}");
        assert_eq!(prefixed.latch(name).count_down().await?, 0, "{name}");
        assert_eq!(plain.latch(name).count().await?, 2, "{name}");
    }
    for wrong in ["", "tab\t", &"x".repeat(1025)] {
        assert_eq!(plain.latch(wrong).set(1).await.expect_err("the name is wrong").kind(), ErrorKind::Misused);
        assert_eq!(plain.latch(wrong).wait().await.expect_err("the name is wrong").kind(), ErrorKind::Misused);
    }
    Ok(())
}

/// Law 195: a list has each latch that is not open, with its count, sorted by name. It has no latch that is open, no
/// lock, and no other record. The prefix of a client is part of the pattern, and not of the names.
// Promise: CL9
pub async fn latch_list<W: World>(world: &W) -> Law {
    world.records()?;
    let (client, prefixed) = (world.client(), world.options().prefix("shop:").over(world.backend())?);
    assert_eq!(client.list_latches(Pattern::all()).await?, []);
    for (name, count) in [("parts", 3), ("a{b}c", 2), ("open", 1), ("part-2", 4), ("deleted", 5)] {
        assert!(client.latch(name).set(count).await?);
    }
    assert!(prefixed.latch("parts").set(7).await?);
    client.latch("parts").count_down().await?;
    client.latch("open").count_down().await?;
    client.latch("deleted").delete().await?;
    client.latch("never set").count_down().await?;
    let guard = client.mutex("a lock").lock().await?;
    let barrier = client.barrier("phase", 1).wait().await?;
    assert!(barrier.is_leader());
    let row = |name: &str, count| LatchRow { name: name.to_owned(), count };
    let all = client.list_latches(Pattern::all()).await?;
    assert_eq!(all, [row("a{b}c", 2), row("part-2", 4), row("parts", 2), row("shop:parts", 7)]);
    assert_eq!(client.list_latches(Pattern::new("part?")).await?, [row("parts", 2)]);
    assert_eq!(prefixed.list_latches(Pattern::all()).await?, [row("parts", 7)]);
    // The mutex of the barrier's call is released in the background.
    client.idle().await;
    let locks = client.list(Pattern::all()).await?;
    assert_eq!(locks.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["a lock"]);
    guard.release().await?;
    Ok(())
}

/// Starts a call that waits for the latch, and waits until the backend has answered the call's subscription.
async fn waiting<B: bandog_core::Backend>(client: &Client, counts: &Counting<B>) -> JoinHandle<Result<(), Error>> {
    let (latch, before) = (client.latch(NAME), counts.subscribes());
    let waiter = tokio::spawn(async move { latch.wait().await });
    until(|| counts.subscribes() > before).await;
    client.idle().await;
    waiter
}

/// Waits until the call has returned.
async fn ended(waiter: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    within(MAX_WAIT, "a call that waits for an open latch", waiter).await.expect("the task does not panic")
}
