//! Caches whose callers go away, and whose store loses its data or its master.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use bandog::grid::{Cache, Grid};
use bandog_testkit::{RedisServer, Sentinels, eventually_async};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::{SOON, dropped::poll_at_most, grid, keys};

const HOUR: Duration = Duration::from_secs(3_600);

fn cache(grid: &Grid) -> Cache<u32, u32> {
    grid.cache("c").unwrap().fresh(HOUR).stale(HOUR)
}

async fn load(cache: &Cache<u32, u32>, key: u32, value: u32) -> u32 {
    *cache.get_or_load(&key, async move |_| Ok::<_, io::Error>(value)).await.unwrap()
}

/// Calls on a thousand keys that are dropped after a random number of polls. Afterwards each key can be loaded at once, and
/// has what was loaded last.
async fn drop_calls(grid: &Grid) {
    let (cache, running) = (cache(grid), Arc::new(AtomicU32::new(0)));
    let tasks = (0..20_u32).map(|task| {
        let (cache, running) = (cache.clone(), running.clone());
        async move {
            for call in task * 500..(task + 1) * 500 {
                drop_call(&cache, call, running.clone()).await;
            }
        }
    });
    join_all(tasks).await;
    let begin = Instant::now();
    for key in 0..1_000 {
        load(&cache, key, 1).await;
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "a fill has an owner that has gone");
    eventually_async(SOON, async || running.load(SeqCst) == 0).await;
    for key in 0..1_000 {
        cache.remove(&key).await.unwrap();
        assert_eq!((load(&cache, key, 1).await, load(&cache, key, 2).await), (1, 1), "{key}");
    }
}

async fn drop_call(cache: &Cache<u32, u32>, call: u32, running: Arc<AtomicU32>) {
    let (key, polls) = (call / 10, fastrand::usize(1..6));
    let load = async move |_| {
        running.fetch_add(1, SeqCst);
        let _ended = Ended(running);
        sleep(Duration::from_millis(fastrand::u64(..3))).await;
        Ok::<_, io::Error>(call)
    };
    match fastrand::u8(..7) {
        0 => _ = poll_at_most(polls, cache.remove(&key).into_future()).await,
        1 => _ = poll_at_most(polls, cache.put(&key, &call).into_future()).await,
        2 => _ = poll_at_most(polls, cache.refresh(&key, load)).await,
        3 if call.is_multiple_of(1_000) => _ = poll_at_most(polls, cache.clear()).await,
        4 => _ = poll_at_most(polls, cache.get(&key)).await,
        _ => _ = poll_at_most(polls, cache.get_or_load(&key, load)).await,
    }
}

/// Counts the end of a load.
struct Ended(Arc<AtomicU32>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_calls_block_no_key_in_memory() {
    drop_calls(&grid("memory:").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_calls_block_no_key_on_redis() {
    let server = RedisServer::start();
    drop_calls(&grid(&server.url()).await).await;
    let lasting: Vec<_> = keys(&server).into_iter().filter(|key| server.pttl(key) == -1).collect();
    assert_eq!(lasting, Vec::<String>::new());
}

/// After FLUSHALL, entries and copies are gone, a load that ran meanwhile is not written, and the cache works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_flushall_nothing_old_is_found() {
    let server = RedisServer::start();
    let (one, two) = (grid(&server.url()).await, grid(&server.url()).await);
    let (one, two) = (cache(&one).near(100), cache(&two));
    load(&one, 1, 1).await;
    eventually_async(SOON, async || {
        one.get(&1).await.unwrap();
        one.stats().near_hits > 0
    })
    .await;
    let running = tokio::spawn({
        let two = two.clone();
        async move {
            let slow = async |_| {
                sleep(Duration::from_millis(300)).await;
                Ok::<_, io::Error>(5)
            };
            *two.get_or_load(&2, slow).await.unwrap()
        }
    });
    eventually_async(SOON, async || two.stats().loads == 1).await;
    server.cmd(&["FLUSHALL"]);
    eventually_async(SOON, async || one.get(&1).await.unwrap().is_none()).await;
    assert_eq!(running.await.unwrap(), 5);
    assert_eq!((one.get(&2).await.unwrap(), two.stats().overtaken_loads), (None, 1));
    assert_eq!((load(&one, 1, 7).await, load(&two, 1, 8).await), (7, 7));
}

/// After a failover, copies of before are gone, changes of the new master are reported, and values are loaded meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failover_copies_follow_the_new_master() {
    let master = RedisServer::start();
    let _replica = RedisServer::replica_of(&master);
    let sentinels = Sentinels::start(3, &master, "shop");
    let (one, two) = (grid(&sentinels.url()).await, grid(&sentinels.url()).await);
    let (one, two) = (cache(&one).near(100), cache(&two));
    load(&one, 1, 1).await;
    eventually_async(SOON, async || {
        one.get(&1).await.unwrap();
        one.stats().near_hits > 0
    })
    .await;
    let old = sentinels.master();
    master.kill();
    // No call fails or hangs meanwhile.
    let until = Instant::now() + SOON;
    let mut slowest = Duration::ZERO;
    while sentinels.master() == old {
        assert!(Instant::now() < until, "no failover");
        let begin = Instant::now();
        load(&one, fastrand::u32(10..), 1).await;
        slowest = slowest.max(begin.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    eventually_async(SOON, async || two.put(&1, &2).await.is_ok()).await;
    let hits = one.stats().near_hits;
    eventually_async(SOON, async || {
        let read = one.get(&1).await;
        read.is_ok_and(|value| value.as_deref() == Some(&2)) && one.stats().near_hits > hits + 1
    })
    .await;
    two.put(&1, &3).await.unwrap();
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(one.get(&1).await.unwrap().as_deref(), Some(&3));
}

/// While the store is away, 64 loads run at the same time. Loads that are made in loads do not wait for them.
#[tokio::test]
async fn loads_in_loads_end_while_the_store_is_away() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let cache = cache(&grid).timeout(Duration::from_millis(100));
    load(&cache, 9_999, 1).await;
    server.kill();
    let calls = (0..200_u32).map(async |key| {
        let inner = cache.clone();
        let outer = async move |_| {
            let inner = inner.get_or_load(&(key + 1_000), async move |_| Ok::<_, io::Error>(key)).await;
            Ok::<_, io::Error>(*inner.unwrap())
        };
        assert_eq!(*cache.get_or_load(&key, outer).await.unwrap(), key);
    });
    tokio::time::timeout(SOON, join_all(calls)).await.expect("all loads end");
}

/// A memory that is full refuses values, and does not hinder reads.
#[tokio::test]
async fn entries_are_read_while_the_memory_is_full() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let cache = cache(&grid);
    load(&cache, 1, 1).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    for key in 2..50 {
        assert_eq!(load(&cache, key, key).await, key);
        assert_eq!(load(&cache, 1, 2).await, 1, "the entry is read");
    }
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    load(&cache, 1_000, 1).await;
    assert_eq!(load(&cache, 1_000, 2).await, 1);
}

/// An entry that is no answer, because it cannot be decoded or has no value, is loaded once by all programs.
#[tokio::test]
async fn an_entry_that_is_no_answer_is_loaded_once() {
    let server = RedisServer::start();
    let url = server.url();
    let grids: Vec<_> = join_all((0..6).map(|_| grid(&url))).await;
    for (key, is_absence) in [(1_u32, true), (2, false)] {
        if is_absence {
            let cache = cache(&grids[0]).none(HOUR);
            let none = cache.get_or_find(&key, async |_| Ok::<_, io::Error>(None)).await.unwrap();
            assert!(none.is_none());
        } else {
            let texts = grids[0].cache::<u32, String>("c").unwrap();
            texts.put(&key, "not a number").await.unwrap();
        }
        let loads = Arc::new(AtomicU32::new(0));
        let calls = grids.iter().flat_map(|grid| (0..5).map(move |_| cache(grid))).map(|cache| {
            let loads = loads.clone();
            async move {
                let load = async move |_| {
                    loads.fetch_add(1, SeqCst);
                    sleep(Duration::from_millis(200)).await;
                    Ok::<_, io::Error>(7)
                };
                assert_eq!(*cache.get_or_load(&key, load).await.unwrap(), 7);
            }
        });
        join_all(calls).await;
        assert_eq!(loads.load(SeqCst), 1, "an absence: {is_absence}");
    }
}

/// A store that stops during a load costs its caller no more than a read.
#[tokio::test]
async fn a_caller_does_not_wait_long_for_the_write() {
    let server = Arc::new(RedisServer::start());
    let grid = grid(&server.url()).await;
    let cache = cache(&grid).timeout(Duration::from_millis(300));
    load(&cache, 1, 1).await;
    let (begin, stopped) = (Instant::now(), server.clone());
    let slow = cache.get_or_load(&2, async move |_| {
        sleep(Duration::from_millis(100)).await;
        stopped.pause();
        Ok::<_, io::Error>(2)
    });
    assert_eq!(*slow.await.unwrap(), 2);
    assert!(begin.elapsed() < Duration::from_millis(2_000), "{:?}", begin.elapsed());
    server.resume();
}
