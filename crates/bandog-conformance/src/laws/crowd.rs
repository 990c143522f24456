//! Many waiters, many names, and many tasks.
//!
//! In these laws, a *turn* of a task is the time from a grant of the lock to the release of this lock. A client
//! *starves* if the store has refused its claims for a second. An *offer* is a state of a released lock: for a short
//! time, the store grants the lock only to starving clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{Answer, Claim, Inspect, Kind, Leases, OFFER, Pattern, Step, Verdict};
use bandog_sync::Client;
use tokio::{task::JoinHandle, time};

use crate::{
    Census, Law, Unkept, World,
    kind_kit::needs,
    kit::{
        MAX_WAIT, NAME, bare_claim, claim, guard_of_waiter, nothing_left, release, start_waiter, take, until, within,
    },
    wrap::{Counting, WithoutSubscriptions},
};

/// Law 26: a release wakes only one of a client's waiters. So the release causes one or two claims, and not one claim
/// for each waiter.
pub async fn no_herd<W: World>(world: &W) -> Law {
    const WAITERS: usize = 100;
    let counts = Counting::new(world.backend());
    let (a, b) = (world.client(), world.over(counts.clone()));
    let guard = take(&a, NAME).await?;
    let first = start_waiter(&b).await;
    let others: Vec<_> = (1..WAITERS).map(|_| wait_for(&b)).collect();
    tokio::task::yield_now().await;
    b.idle().await;
    assert_eq!(counts.subscribes(), 1);
    let claims_before = counts.claims();
    guard.release().await?;
    let guard = guard_of_waiter(first, world.slack()).await?;
    b.idle().await;
    let woken = counts.claims() - claims_before;
    // A waiter that polls at the same time can cause another claim.
    assert!(woken <= 3, "one release caused {woken} claims");
    guard.release().await?;
    for other in others {
        within(MAX_WAIT, "a waiter", other).await.expect("the task has panicked")?;
    }
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Starts a task that waits for the lock, and releases the lock at once.
fn wait_for(client: &Client) -> JoinHandle<Result<(), Unkept>> {
    let mutex = client.mutex(NAME);
    tokio::spawn(async move { Ok(mutex.lock().await?.release().await?) })
}

/// Law 29: many waiters for many names need no more connections than one waiter for one name.
pub async fn many_waiters_many_names<W: World>(world: &W) -> Law {
    const WAITERS: usize = 10;
    let names = world.many();
    let (a, b) = (world.client(), world.client());
    let guard = take(&a, NAME).await?;
    let first_waiter = start_waiter(&b).await;
    let before = world.connections().await;
    let mut guards = Vec::new();
    for name in 0..names {
        guards.push(take(&a, &name.to_string()).await?);
    }
    let census = Census::default();
    let waiting: Vec<_> = (0..names * WAITERS)
        .map(|number| {
            let (mutex, census) = (b.mutex((number % names).to_string()), census.clone());
            tokio::spawn(async move {
                let guard = mutex.lock().await?;
                drop(census.enter(&guard));
                guard.release().await
            })
        })
        .collect();
    tokio::task::yield_now().await;
    b.idle().await;
    if let (Ok(before), Ok(after)) = (before, world.connections().await) {
        assert!(after <= before, "the number of connections rose from {before} to {after}");
    }
    drop((guard, guards));
    for waiter in waiting {
        within(MAX_WAIT * 3, "a waiter", waiter).await.expect("the task has panicked")?;
    }
    guard_of_waiter(first_waiter, MAX_WAIT).await?.release().await?;
    assert_eq!(census.entered(), (names * WAITERS) as u64);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 92: tasks of two clients add to counters that only the locks protect. No addition is lost.
// Promise: L1
pub async fn fuzz_lost_update<W: World>(world: &W) -> Law {
    const TASKS: usize = 8;
    const ROUNDS: u64 = 40;
    let clients = [world.client(), world.client()];
    let counters: Arc<[AtomicU64; 2]> = Arc::default();
    let census = Census::default();
    let task = |number: usize| {
        let (client, counters, census) = (clients[number % 2].clone(), Arc::clone(&counters), census.clone());
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                let which = (number + usize::try_from(round % 3).unwrap_or(0)) % 2;
                let guard = client.mutex(["one", "two"][which]).lock().await?;
                let stay = census.enter(&guard);
                let read = counters[which].load(Relaxed);
                tokio::time::sleep(Duration::from_micros(100)).await;
                counters[which].store(read + 1, Relaxed);
                drop(stay);
                guard.release().await?;
            }
            Ok::<_, bandog_core::Error>(())
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    for task in tasks {
        within(MAX_WAIT * 2, "a task", task).await.expect("the task has panicked")?;
    }
    let sum: u64 = counters.iter().map(|counter| counter.load(Relaxed)).sum();
    assert_eq!(sum, TASKS as u64 * ROUNDS);
    nothing_left(world, &[&clients[0], &clients[1]]).await;
    Ok(())
}

/// Law 93: if a hundred tasks wait for one lock, at most one task holds the lock at a time, and within 30 s every task
/// has held the lock.
// Promise: L1
pub async fn parallel_100<W: World>(world: &W) -> Law {
    const TASKS: usize = 100;
    let clients = [world.client(), world.client(), world.client()];
    let (census, inside) = (Census::default(), Arc::new(AtomicU64::new(0)));
    let task = |number: usize| {
        let (mutex, census, inside) = (clients[number % 3].mutex(NAME), census.clone(), Arc::clone(&inside));
        tokio::spawn(async move {
            let guard = mutex.lock().await?;
            let stay = census.enter(&guard);
            assert_eq!(inside.fetch_add(1, Relaxed), 0);
            tokio::time::sleep(Duration::from_millis(1)).await;
            inside.fetch_sub(1, Relaxed);
            drop(stay);
            guard.release().await
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    until(|| census.entered() > 0).await;
    let all = async {
        for task in tasks {
            task.await.expect("the task has panicked")?;
        }
        Ok::<_, bandog_core::Error>(())
    };
    within(Duration::from_secs(30), "all tasks", all).await?;
    assert_eq!(census.entered(), TASKS as u64);
    nothing_left(world, &[&clients[0], &clients[1], &clients[2]]).await;
    Ok(())
}

/// Law 100: a waiter that cannot subscribe gets the lock, although the tasks of another client take the lock
/// repeatedly. The tasks of the other client continue to get the lock, too.
// Promise: L13
pub async fn waiter_without_subscription_is_served<W: World>(world: &W) -> Law {
    const TASKS: u64 = 4;
    const POLLING_TURNS: u64 = 3;
    let (busy, polling) = (world.client(), world.over(WithoutSubscriptions::new(world.backend())));
    let (turns, polling_turns) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks: Vec<_> = (0..TASKS).map(|_| take_turns(&busy, &turns)).collect();
    until(|| turns.load(Relaxed) > TASKS).await;
    tasks.push(take_turns(&polling, &polling_turns));
    let turns_of_both = async {
        for _ in 0..2 {
            let (goal, polling_goal) = (turns.load(Relaxed) + TASKS, polling_turns.load(Relaxed) + POLLING_TURNS);
            until(|| turns.load(Relaxed) >= goal && polling_turns.load(Relaxed) >= polling_goal).await;
        }
    };
    within(MAX_WAIT * 2, "the turns of both clients", turns_of_both).await;
    for task in tasks {
        task.abort();
        assert!(task.await.is_err(), "a task ended before it was aborted");
    }
    nothing_left(world, &[&busy, &polling]).await;
    Ok(())
}

/// Law 100: if the tasks of several clients take the lock repeatedly, every client gets the lock again and again, with
/// or without subscriptions.
// Promise: L13
pub async fn all_clients_are_served<W: World>(world: &W) -> Law {
    const TASKS: usize = 4;
    const TURNS: u64 = 2;
    let fourth = match world.offers() {
        Ok(()) => world.over(WithoutSubscriptions::new(world.backend())),
        Err(_) => world.client(),
    };
    let clients = [world.client(), world.client(), world.client(), fourth];
    let turns: [_; 4] = std::array::from_fn(|_| Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (clients.iter().zip(&turns))
        .flat_map(|(client, turns)| (0..TASKS).map(|_| take_turns(client, turns)))
        .collect();
    let all = async {
        for _ in 0..3 {
            let goals: Vec<_> = turns.iter().map(|turns| turns.load(Relaxed) + TURNS).collect();
            until(|| turns.iter().zip(&goals).all(|(turns, goal)| turns.load(Relaxed) >= *goal)).await;
        }
    };
    within(MAX_WAIT * 3, "the turns of all clients", all).await;
    for task in tasks {
        task.abort();
        assert!(task.await.is_err(), "a task ended before it was aborted");
    }
    nothing_left(world, &[&clients[0], &clients[1], &clients[2], &clients[3]]).await;
    Ok(())
}

/// Law 100: after the store has refused the claim of a starving client, the next release makes one offer: for a short
/// time, the store grants the lock to starving clients only. The store does not show an offer as a hold.
// Promise: L13
pub async fn offer<W: World>(world: &W) -> Law {
    world.offers()?;
    offer_of(world, Kind::Mutex, Kind::Mutex, Kind::Mutex).await
}

/// Law 100, for read-write locks: the release of a writer makes an offer to starving readers and writers. The release
/// of the last reader makes an offer to starving writers.
// Promise: K5
pub async fn offer_of_a_read_write_lock<W: World>(world: &W) -> Law {
    needs(&world.backend(), &[Kind::Write])?;
    world.offers()?;
    for (holder, waiter) in [(Kind::Write, Kind::Write), (Kind::Write, Kind::Read), (Kind::Read, Kind::Write)] {
        for other in [Kind::Write, Kind::Read] {
            offer_of(world, holder, waiter, other).await?;
        }
    }
    Ok(())
}

/// The law for a holder, a starving claim, and an ordinary claim of these kinds.
async fn offer_of<W: World>(world: &W, holder: Kind, waiter: Kind, other: Kind) -> Law {
    let store = world.backend();
    let ask = |kind| Claim { kind, ..bare_claim(NAME, world.slack() * 10) };
    let starving = || Claim { offers: true, ..ask(waiter) };
    // `offers` also has an effect on the release of a claim: if the store has refused a starving client in the
    // meantime, the release makes an offer.
    let generous = || Claim { offers: true, ..ask(holder) };
    // Of several readers, the last one makes the offer.
    let neighbour = matches!(holder, Kind::Read).then(generous);
    let (held, waits) = (ask(holder), starving());
    if let Some(neighbour) = &neighbour {
        assert!(claim(&store, neighbour).await?.is_some());
    }
    let held_fences = claim(&store, &held).await?.expect("the lock is free");
    assert_eq!(claim(&store, &waits).await?, None);
    assert_eq!(claim(&store, &waits).await?, None, "a repeated claim is refused, too");
    let next_holder = generous();
    let passed = store.apply(&[Step::Pass { from: Box::new(held), to: next_holder.clone() }]).await;
    assert!(matches!(passed[..], [Ok(Answer::Claimed(Verdict::Granted { .. }))]), "{passed:?}");
    if let Some(neighbour) = &neighbour {
        assert!(release(&store, neighbour).await?);
    }
    assert!(release(&store, &next_holder).await?);

    // The offer expires soon. On a slow machine it can expire between these calls, so the answers are checked only if
    // all of them came before the offer expired.
    let offered = time::Instant::now();
    let ordinary = ask(other);
    let others = claim(&store, &ordinary).await?;
    let row = store.show(&waits.key).await?;
    let rows = store.list(&Pattern::all()).await?;
    let evicted = store.evict(&waits.key).await?;
    let granted = claim(&store, &waits).await?;
    if offered.elapsed() < OFFER {
        assert_eq!(others, None, "an offer is not for an ordinary claim");
        assert_eq!((row.is_held(), rows, evicted), (false, Vec::new(), None), "an offer is not a hold");
        let mut fences = granted.expect("the offer is for starving clients");
        assert!(fences.take() > Some(held_fences.last()), "{fences:?} after {held_fences:?}");
        assert!(release(&store, &waits).await?);
        let next = ask(other);
        assert!(claim(&store, &next).await?.is_some(), "one refusal causes one offer");
        assert!(release(&store, &next).await?);
    } else {
        // These claims may have been granted after the offer.
        release(&store, &ordinary).await?;
        release(&store, &waits).await?;
    }
    nothing_left(world, &[]).await;

    // A starving client can cancel its claim by releasing it. Then the next release makes no offer.
    let (held, cancelled, next) = (generous(), starving(), ask(other));
    assert!(claim(&store, &held).await?.is_some());
    assert_eq!(claim(&store, &cancelled).await?, None);
    assert!(!release(&store, &cancelled).await?);
    assert!(release(&store, &held).await?);
    assert!(claim(&store, &next).await?.is_some(), "a cancelled claim causes no offer");
    assert!(release(&store, &next).await?);
    nothing_left(world, &[]).await;

    // If the starving client does not claim again, nobody takes the offer. Then the offer expires, and the lock is
    // free.
    let (held, gone, next) = (generous(), starving(), ask(other));
    assert!(claim(&store, &held).await?.is_some());
    assert_eq!(claim(&store, &gone).await?, None);
    assert!(release(&store, &held).await?);
    let is_granted = async || claim(&store, &next).await.is_ok_and(|granted| granted.is_some());
    bandog_testkit::eventually_async(OFFER + world.slack(), is_granted).await;
    assert!(release(&store, &next).await?);
    nothing_left(world, &[]).await;
    Ok(())
}

/// Starts a task that takes the lock repeatedly. `turns` counts its turns.
fn take_turns(client: &Client, turns: &Arc<AtomicU64>) -> JoinHandle<Result<(), Unkept>> {
    let (mutex, turns) = (client.mutex(NAME), Arc::clone(turns));
    tokio::spawn(async move {
        loop {
            let guard = mutex.lock().await?;
            turns.fetch_add(1, Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
            drop(guard);
        }
    })
}
