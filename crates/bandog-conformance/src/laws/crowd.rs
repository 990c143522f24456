//! Many waiters, many names, many tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{Answer, Claim, Inspect, Leases, OFFER, Pattern, Step, Verdict};
use bandog_sync::Client;
use tokio::{task::JoinHandle, time};

use crate::{
    Census, Law, Unkept, World,
    kit::{NAME, PATIENCE, bare_claim, claim, nothing_left, release, served, take, until, waiter, within},
    wrap::{Counting, Deaf},
};

/// Law 26: one release wakes one of a client's waiters, however many wait: one or two claims, not one for each.
pub async fn no_herd<W: World>(world: &W) -> Law {
    const WAITERS: usize = 100;
    let counts = Counting::new(world.backend());
    let (a, b) = (world.client(), world.over(counts.clone()));
    let guard = take(&a, NAME).await?;
    let first = waiter(&b).await;
    let others: Vec<_> = (1..WAITERS).map(|_| wait_for(&b)).collect();
    tokio::task::yield_now().await;
    b.idle().await;
    assert_eq!(counts.listens(), 1);
    let before = counts.claims();
    guard.release().await?;
    let guard = served(first, world.slack()).await?;
    b.idle().await;
    let woken = counts.claims() - before;
    assert!(woken <= 3, "one release made {woken} claims"); // Who looks again by chance at this moment makes one more.
    guard.release().await?;
    for other in others {
        within(PATIENCE, "a waiter", other).await.expect("it goes on")?;
    }
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

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
    let one = waiter(&b).await;
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
        assert!(after <= before, "{before} connections became {after}");
    }
    drop((guard, guards));
    for waiter in waiting {
        within(PATIENCE * 3, "a waiter", waiter).await.expect("it goes on")?;
    }
    served(one, PATIENCE).await?.release().await?;
    assert_eq!(census.entered(), (names * WAITERS) as u64);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 92: eight tasks of two clients, two locks, counters that only the locks protect: no addition is lost.
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
        within(PATIENCE * 2, "a task", task).await.expect("it goes on")?;
    }
    let sum: u64 = counters.iter().map(|counter| counter.load(Relaxed)).sum();
    assert_eq!(sum, TASKS as u64 * ROUNDS);
    nothing_left(world, &[&clients[0], &clients[1]]).await;
    Ok(())
}

/// Law 93: of a hundred tasks at one lock, never two are in, and all have been in within half a minute.
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
            task.await.expect("it goes on")?;
        }
        Ok::<_, bandog_core::Error>(())
    };
    within(Duration::from_secs(30), "a hundred turns", all).await?;
    assert_eq!(census.entered(), TASKS as u64);
    nothing_left(world, &[&clients[0], &clients[1], &clients[2]]).await;
    Ok(())
}

/// Law 100: a waiter that cannot subscribe to releases is served beside a client whose tasks take the lock again and
/// again, and so are they.
pub async fn deaf_waiter_is_served<W: World>(world: &W) -> Law {
    const TASKS: u64 = 4;
    const SERVED: u64 = 3;
    let (busy, deaf) = (world.client(), world.over(Deaf::new(world.backend())));
    let (turns, served) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks: Vec<_> = (0..TASKS).map(|_| take_turns(&busy, &turns)).collect();
    until(|| turns.load(Relaxed) > TASKS).await;
    tasks.push(take_turns(&deaf, &served));
    let both = async {
        for _ in 0..2 {
            let (theirs, ours) = (turns.load(Relaxed) + TASKS, served.load(Relaxed) + SERVED);
            until(|| turns.load(Relaxed) >= theirs && served.load(Relaxed) >= ours).await;
        }
    };
    within(PATIENCE * 2, "both", both).await;
    for task in tasks {
        task.abort();
        assert!(task.await.is_err(), "it goes on until it is ended");
    }
    nothing_left(world, &[&busy, &deaf]).await;
    Ok(())
}

/// Law 100: no client starves beside several whose tasks take the lock again and again, whether it can subscribe to
/// releases or not.
pub async fn all_clients_are_served<W: World>(world: &W) -> Law {
    const TASKS: usize = 4;
    const SERVED: u64 = 2;
    let deaf = world.over(Deaf::new(world.backend()));
    let clients = [world.client(), world.client(), world.client(), deaf];
    let turns: [_; 4] = std::array::from_fn(|_| Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (clients.iter().zip(&turns))
        .flat_map(|(client, turns)| (0..TASKS).map(|_| take_turns(client, turns)))
        .collect();
    let all = async {
        for _ in 0..3 {
            let goals: Vec<_> = turns.iter().map(|turns| turns.load(Relaxed) + SERVED).collect();
            until(|| turns.iter().zip(&goals).all(|(turns, goal)| turns.load(Relaxed) >= *goal)).await;
        }
    };
    within(PATIENCE * 3, "all", all).await;
    for task in tasks {
        task.abort();
        assert!(task.await.is_err(), "it goes on until it is ended");
    }
    nothing_left(world, &[&clients[0], &clients[1], &clients[2], &clients[3]]).await;
    Ok(())
}

/// Law 100: a claim that says that its client starves is refused while another claim holds the key, and noted: the next
/// release offers the key to such claims alone, once. An offer is no hold that anybody sees, and it ends by itself.
pub async fn offer<W: World>(world: &W) -> Law {
    let store = world.backend();
    let ttl = world.slack() * 10;
    let ask = || bare_claim(NAME, ttl);
    let starving = || Claim { offers: true, ..ask() };
    let generous = starving; // A release that makes an offer, if a claim has asked for one.
    let (holder, waiter) = (ask(), starving());
    let held = claim(&store, &holder).await?.expect("it is free");
    assert_eq!(claim(&store, &waiter).await?, None);
    assert_eq!(claim(&store, &waiter).await?, None, "it may ask again and again");
    let heir = generous();
    let passed = store.apply(&[Step::Pass { from: holder.clone(), to: heir.clone() }]).await;
    assert!(matches!(passed[..], [Ok(Answer::Claimed(Verdict::Granted { .. }))]), "{passed:?}");
    assert!(release(&store, &heir).await?);

    // The offer is over soon, and time may pass between two calls: only what is asked within it is judged.
    let offered = time::Instant::now();
    let others = claim(&store, &ask()).await?;
    let row = store.show(&waiter.key).await?;
    let rows = store.list(&Pattern::all()).await?;
    let evicted = store.evict(&waiter.key).await?;
    let granted = claim(&store, &waiter).await?;
    if offered.elapsed() < OFFER {
        assert_eq!(others, None, "an ordinary claim waits");
        assert_eq!((row.held, row.owner, rows, evicted), (false, None, Vec::new(), None), "nobody holds an offer");
        let mut fences = granted.expect("the offer is for such claims");
        assert!(fences.take() > Some(held.last()), "{fences:?} after {held:?}");
        assert!(release(&store, &waiter).await?);
        let next = ask();
        assert!(claim(&store, &next).await?.is_some(), "one refusal is one offer");
        assert!(release(&store, &next).await?);
    }
    nothing_left(world, &[]).await;

    let (holder, quitter, next) = (generous(), starving(), ask());
    assert!(claim(&store, &holder).await?.is_some());
    assert_eq!(claim(&store, &quitter).await?, None);
    assert!(!release(&store, &quitter).await?);
    assert!(release(&store, &holder).await?);
    assert!(claim(&store, &next).await?.is_some(), "a claim that was given up asks for no offer");
    assert!(release(&store, &next).await?);
    nothing_left(world, &[]).await;

    let (holder, gone, next) = (generous(), starving(), ask());
    assert!(claim(&store, &holder).await?.is_some());
    assert_eq!(claim(&store, &gone).await?, None);
    assert!(release(&store, &holder).await?);
    let released = time::Instant::now();
    while claim(&store, &next).await?.is_none() {
        time::sleep(Duration::from_millis(10)).await;
        assert!(released.elapsed() < OFFER + world.slack(), "an offer that nobody takes ends");
    }
    assert!(release(&store, &next).await?);
    nothing_left(world, &[]).await;
    Ok(())
}

/// A task that takes the lock again and again, and counts its turns.
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
