//! Locks of the other kinds, latches and records on a Redis Cluster whose slots move all the time.
//!
//! Each task compares what it gets with counters of this process. So a lock that too many tasks hold, or that is lost
//! without notice, or an operation that is done twice or not at all, leaves a wrong number.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bandog_core::{Key, Records, Swap, Swapped};
use bandog_redis::{Redis, RedisOptions};
use bandog_sync::{Client, Guard};
use bandog_testkit::RedisCluster;
use futures_util::future::{BoxFuture, join_all};

use crate::{
    cluster::{operator, operator_url},
    help::SOON,
    moves::keep_moving,
};

/// The time for which slots move.
const LENGTH: Duration = Duration::from_secs(5);
/// Number of slots that move.
const SLOTS: usize = 4;

/// The turns of a test: they end when all slots have moved for a while.
#[derive(Clone, Default)]
struct Turns {
    end: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
}

impl Turns {
    fn go_on(&self) -> bool {
        !self.end.load(SeqCst)
    }

    fn count(&self) {
        self.done.fetch_add(1, SeqCst);
    }
}

/// Runs these tasks, which use names with the hash tags `{0}`, `{1}`, …, while the slots of these tags move.
async fn reshard(cluster: RedisCluster, turns: Turns, tasks: Vec<BoxFuture<'static, ()>>) -> RedisCluster {
    let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let moved = tokio::task::spawn_blocking({
        let end = turns.end.clone();
        move || {
            let names: Vec<_> = (0..SLOTS).map(|number| format!("{{{number}}}")).collect();
            let moves = keep_moving(&cluster, &names, LENGTH);
            end.store(true, SeqCst);
            (cluster, moves)
        }
    });
    let (cluster, moves) = moved.await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let done = turns.done.load(SeqCst);
    println!("{moves} slots moved, {done} turns");
    assert!(moves > 5 && done > 100, "{moves} slots moved, {done} turns");
    cluster
}

/// A client whose releases have a minute: each of them meets many moves on a full machine.
fn client(cluster: &RedisCluster) -> Client {
    let options = RedisOptions::from_url(&operator_url(cluster)).unwrap().timeout(Duration::from_secs(60));
    Client::over(Redis::new(options).unwrap()).unwrap()
}

fn clients(cluster: &RedisCluster) -> [Client; 2] {
    [(); 2].map(|()| client(cluster))
}

/// Uses a hold for a moment. `holders` are all holders of this lock now, and `most` is the maximum of their number.
async fn hold<S>(guard: &Guard<S>, holders: &AtomicI64, most: i64) {
    let before = holders.fetch_add(1, SeqCst);
    assert!((0..most).contains(&before), "{before} others hold the lock");
    tokio::task::yield_now().await;
    assert!(!guard.is_lost(), "a hold was lost");
    holders.fetch_sub(1, SeqCst);
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn fair_mutexes_on_moving_slots_have_one_holder() {
    let (cluster, turns) = (RedisCluster::start(3, 0), Turns::default());
    let (clients, mut tasks) = (clients(&cluster), Vec::new());
    for number in 0..SLOTS {
        let holders = Arc::new(AtomicI64::new(0));
        for task in 0..4 {
            let mutex = clients[task % 2].mutex(format!("{{{number}}}:fair")).fair();
            let (turns, holders) = (turns.clone(), holders.clone());
            let turn = async move {
                let mut last = 0;
                while turns.go_on() {
                    let guard = mutex.lock().await.unwrap();
                    assert!(guard.fence().get() > last, "a fence has not risen");
                    last = guard.fence().get();
                    hold(&guard, &holders, 1).await;
                    turns.count();
                    guard.release().await.unwrap();
                }
            };
            tasks.push(Box::pin(turn) as BoxFuture<'static, ()>);
        }
    }
    reshard(cluster, turns, tasks).await;
}

/// A writer waits all the time, so a reader that is taken for dead lets it in at once. A reader counts as one holder, and
/// a writer as all of them.
// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn readers_on_moving_slots_keep_writers_out() {
    const ALL: i64 = 1000;
    let (cluster, turns) = (RedisCluster::start(3, 0), Turns::default());
    let (clients, mut tasks) = (clients(&cluster), Vec::new());
    for number in 0..SLOTS {
        let holders = Arc::new(AtomicI64::new(0));
        for task in 0..6 {
            // Each reader has a client of its own, so that readers do not share holds.
            let client = clients.get(task).cloned().unwrap_or_else(|| client(&cluster));
            let lock = client.rwlock(format!("{{{number}}}:rw"));
            let (turns, holders) = (turns.clone(), holders.clone());
            let turn = async move {
                while turns.go_on() {
                    let weight = if task < 2 { ALL } else { 1 };
                    if weight == ALL {
                        let guard = lock.write().await.unwrap();
                        let before = holders.fetch_add(ALL, SeqCst);
                        assert_eq!(before, 0, "others hold the lock beside a writer");
                        tokio::task::yield_now().await;
                        assert!(!guard.is_lost(), "a writer was lost");
                        holders.fetch_sub(ALL, SeqCst);
                        guard.release().await.unwrap();
                    } else {
                        let guard = lock.read().await.unwrap();
                        let before = holders.fetch_add(1, SeqCst);
                        assert!((0..ALL).contains(&before), "a writer holds the lock beside a reader");
                        // The slot moves while the reader holds the lock, and a writer waits.
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        assert!(!guard.is_lost(), "a reader was lost");
                        holders.fetch_sub(1, SeqCst);
                        guard.release().await.unwrap();
                    }
                    turns.count();
                }
            };
            tasks.push(Box::pin(turn) as BoxFuture<'static, ()>);
        }
    }
    reshard(cluster, turns, tasks).await;
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn semaphores_on_moving_slots_keep_their_limit() {
    const LIMIT: u32 = 3;
    let (cluster, turns) = (RedisCluster::start(3, 0), Turns::default());
    let (clients, mut tasks) = (clients(&cluster), Vec::new());
    for number in 0..SLOTS {
        let holders = Arc::new(AtomicI64::new(0));
        for task in 0..6 {
            let semaphore = clients[task % 2].semaphore(format!("{{{number}}}:permits"), LIMIT);
            let (turns, holders) = (turns.clone(), holders.clone());
            let turn = async move {
                while turns.go_on() {
                    let guard = semaphore.acquire().await.unwrap();
                    hold(&guard, &holders, LIMIT.into()).await;
                    turns.count();
                    guard.release().await.unwrap();
                }
            };
            tasks.push(Box::pin(turn) as BoxFuture<'static, ()>);
        }
    }
    let _cluster = reshard(cluster, turns, tasks).await;
    for number in 0..SLOTS {
        let all = clients[0].semaphore(format!("{{{number}}}:permits"), LIMIT).permits(LIMIT);
        let guard = all.try_acquire_for(SOON).await.unwrap().expect("a permit was lost");
        guard.release().await.unwrap();
    }
}

/// In each round, each task counts the latch down once, and then waits. So the latch opens when all of them have done so.
// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn latches_on_moving_slots_count_each_operation_once() {
    const TASKS: u64 = 4;
    let (cluster, turns) = (RedisCluster::start(3, 0), Turns::default());
    let clients = clients(&cluster);
    let tasks = (0..SLOTS).map(|number| {
        let (turns, clients) = (turns.clone(), clients.clone());
        let rounds = async move {
            for round in 0.. {
                let name = format!("{{{number}}}:latch:{round}");
                assert!(clients[0].latch(&name).set(TASKS).await.unwrap());
                let counted = Arc::new(AtomicU64::new(0));
                let each = (0..TASKS).map(|task| {
                    let latch = clients[usize::from(task % 2 == 0)].latch(&name);
                    let (turns, counted) = (turns.clone(), counted.clone());
                    async move {
                        counted.fetch_add(1, SeqCst);
                        let left = latch.count_down().await.unwrap();
                        assert!(left < TASKS, "an operation has counted nothing");
                        latch.wait().await.unwrap();
                        assert_eq!(counted.load(SeqCst), TASKS, "the latch opened too early");
                        turns.count();
                    }
                });
                join_all(each).await;
                if !turns.go_on() {
                    return;
                }
            }
        };
        Box::pin(rounds) as BoxFuture<'static, ()>
    });
    let tasks = tasks.collect();
    reshard(cluster, turns, tasks).await;
}

/// Each task increments the number in a record. So each swap that is done adds one, and its version is the only one.
// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn records_on_moving_slots_lose_no_swap() {
    let (cluster, turns) = (RedisCluster::start(3, 0), Turns::default());
    let redis = Arc::new(operator(&cluster));
    let mut tasks = Vec::new();
    let sums: Vec<_> = (0..SLOTS).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let unsure = Arc::new(AtomicU64::new(0));
    for (number, sum) in sums.iter().enumerate() {
        for _ in 0..3 {
            let (turns, redis, sum, unsure) = (turns.clone(), redis.clone(), sum.clone(), unsure.clone());
            let turn = async move {
                while turns.go_on() {
                    match increment(&redis, &record_of(number)).await {
                        Ok(true) => _ = sum.fetch_add(1, SeqCst),
                        Ok(false) => {}
                        Err(error) if error.maybe_applied() => _ = unsure.fetch_add(1, SeqCst),
                        Err(error) => panic!("{error}"),
                    }
                    turns.count();
                }
            };
            tasks.push(Box::pin(turn) as BoxFuture<'static, ()>);
        }
    }
    let _cluster = reshard(cluster, turns, tasks).await;
    let unsure = unsure.load(SeqCst);
    for (number, sum) in sums.iter().enumerate() {
        let (stored, done) = (number_in(&redis, &record_of(number)).await.unwrap().1, sum.load(SeqCst));
        assert!((done..=done + unsure).contains(&stored), "{stored} in the record, {done} swaps, {unsure} unsure");
    }
}

fn record_of(number: usize) -> Key {
    Key::new(format!("{{{number}}}:record")).unwrap()
}

/// The version of a record, and the number in it.
async fn number_in(redis: &Redis, key: &Key) -> bandog_core::Result<(Option<bandog_core::Version>, u64)> {
    let record = redis.read(std::slice::from_ref(key), &[]).await?.records.remove(0)?;
    Ok(record.map_or((None, 0), |record| (Some(record.version), record.value.parse().unwrap())))
}

/// Adds 1 to the number in a record. Returns false if the record has changed in the meantime.
async fn increment(redis: &Redis, key: &Key) -> bandog_core::Result<bool> {
    let (version, number) = number_in(redis, key).await?;
    let swap = Swap::new(key.clone(), version, (number + 1).to_string());
    match redis.swap(&[swap]).await?.each.remove(0)? {
        Swapped::Done(_) => Ok(true),
        Swapped::Differs(_) => Ok(false),
        answer @ (Swapped::Early(_) | Swapped::NotHeld) => panic!("{answer:?}"),
    }
}
