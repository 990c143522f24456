//! Caches: who loads, when, and what callers get meanwhile.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use bandog::grid::{Cache, ClientGrid, Grid, LoadError};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async, moves::move_slot};
use futures_util::future::join_all;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::{
    sync::{Notify, Semaphore},
    time::{sleep, timeout},
};

use crate::{SOON, grid, keys};

const MINUTE: Duration = Duration::from_secs(60);

/// A source of values that counts its loads, and gives a value when it may.
#[derive(Clone)]
pub(crate) struct Source {
    loads: Arc<AtomicU32>,
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) started: Arc<Notify>,
}

impl Source {
    pub(crate) fn open() -> Self {
        Self::with(1_000_000)
    }

    pub(crate) fn closed() -> Self {
        Self::with(0)
    }

    fn with(permits: usize) -> Self {
        Self { loads: Arc::default(), gate: Arc::new(Semaphore::new(permits)), started: Arc::default() }
    }

    pub(crate) fn loads(&self) -> u32 {
        self.loads.load(SeqCst)
    }

    /// A load: its value is its number, and it ends when the gate is open.
    pub(crate) fn load(&self) -> impl Future<Output = io::Result<u32>> + Send + use<> {
        let source = self.clone();
        async move {
            let number = source.loads.fetch_add(1, SeqCst) + 1;
            source.started.notify_one();
            source.gate.acquire().await.map_err(io::Error::other)?.forget();
            Ok(number)
        }
    }
}

fn cache(grid: &Grid) -> Cache<String, u32> {
    grid.cache("c").unwrap().fresh(MINUTE)
}

async fn get(cache: &Cache<String, u32>, source: &Source) -> Result<u32, LoadError<io::Error>> {
    let source = source.clone();
    let value = timeout(SOON, cache.get_or_load(&"k".to_owned(), move |_| source.load())).await;
    value.expect("an answer in time").map(|value| *value)
}

fn spawned(cache: &Cache<String, u32>, source: &Source) -> tokio::task::JoinHandle<Result<u32, LoadError<io::Error>>> {
    let (cache, source) = (cache.clone(), source.clone());
    tokio::spawn(async move { get(&cache, &source).await })
}

// Promise: CA1
#[tokio::test]
async fn a_thousand_callers_of_a_cold_key_load_once() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let (cache, source) = (cache(&grid(&url).await), Source::closed());
        let callers: Vec<_> = (0..1_000).map(|_| spawned(&cache, &source)).collect();
        source.started.notified().await;
        source.gate.add_permits(1);
        for value in join_all(callers).await {
            assert_eq!(value.unwrap().unwrap(), 1);
        }
        assert_eq!((source.loads(), get(&cache, &source).await.unwrap()), (1, 1));
        assert_eq!(cache.stats().loads, 1);
    }
}

// Promise: CA1
#[tokio::test]
async fn a_cluster_of_processes_loads_once() {
    let server = RedisServer::start();
    let source = Source::closed();
    let mut callers = Vec::new();
    for _ in 0..10 {
        let cache = cache(&grid(&server.url()).await);
        callers.extend((0..100).map(|_| spawned(&cache, &source)));
    }
    source.started.notified().await;
    sleep(Duration::from_millis(50)).await;
    source.gate.add_permits(1);
    for value in join_all(callers).await {
        assert_eq!(value.unwrap().unwrap(), 1);
    }
    assert_eq!(source.loads(), 1);
}

// Promise: CA2
#[tokio::test]
async fn a_caller_that_comes_after_a_removal_never_gets_what_was_loaded_before() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let (own, other) = (grid(&url).await, grid(&url).await);
        // In memory, each connection is a store of its own.
        let other = if url == "memory:" { own.clone() } else { other };
        let (cache, remover) = (cache(&own), cache(&other));
        let old = Source::closed();
        let early = spawned(&cache, &old);
        old.started.notified().await;
        remover.remove("k").await.unwrap();
        let (new, late) = (Source::open(), Source::closed());
        let value = get(&cache, &new).await.unwrap();
        assert_eq!((value, new.loads()), (1, 1), "the caller did not wait for the load that began before");
        old.gate.add_permits(1);
        early.await.unwrap().unwrap();
        assert_eq!(get(&remover, &late).await.unwrap(), 1);
        assert_eq!(late.loads(), 0, "the entry is that of the second load");
        eventually_async(SOON, async || cache.stats().overtaken_loads == 1).await;
    }
}

#[tokio::test]
async fn a_stale_value_is_returned_at_once_while_one_load_refreshes_it() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let grid = grid(&url).await;
        let cache = cache(&grid).fresh(Duration::from_millis(1)).stale(MINUTE);
        let first = Source::open();
        assert_eq!(get(&cache, &first).await.unwrap(), 1);
        sleep(Duration::from_millis(5)).await;
        let cache = cache.fresh(MINUTE);
        let refresh = Source::closed();
        refresh.loads.store(10, SeqCst);
        for value in join_all((0..100).map(|_| get(&cache, &refresh))).await {
            assert_eq!(value.unwrap(), 1);
        }
        refresh.started.notified().await;
        assert_eq!((get(&cache, &refresh).await.unwrap(), refresh.loads()), (1, 11));
        refresh.gate.add_permits(1);
        eventually_async(SOON, async || get(&cache, &refresh).await.unwrap() == 11).await;
        assert_eq!(refresh.loads(), 11);
    }
}

// Promise: CA3
#[tokio::test]
async fn a_failed_refresh_keeps_the_stale_value() {
    let grid = grid("memory:").await;
    let cache = cache(&grid).fresh(Duration::from_millis(1)).stale(MINUTE);
    cache.put("k", &7).await.unwrap();
    sleep(Duration::from_millis(5)).await;
    let attempts = Arc::new(AtomicU32::new(0));
    for round in 1..=3 {
        let counted = attempts.clone();
        let fail = async move |_| {
            counted.fetch_add(1, SeqCst);
            Err::<u32, _>("the database is away")
        };
        assert_eq!(*cache.get_or_load(&"k".to_owned(), fail).await.unwrap(), 7);
        eventually_async(SOON, async || {
            attempts.load(SeqCst) == round && cache.stats().failed_loads == u64::from(round)
        })
        .await;
    }
}

#[tokio::test]
async fn errors_and_panics_reach_all_callers_and_are_not_cached() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let cache = cache(&grid(&url).await);
        let key = "k".to_owned();
        let failing = (0..10).map(|_| cache.get_or_load(&key, async |_| Err::<u32, _>(io::Error::other("no"))));
        for failed in join_all(failing).await {
            let Err(LoadError::Load(error)) = failed else { panic!("{failed:?}") };
            assert_eq!(error.to_string(), "no");
        }
        let panicking = cache.get_or_load(&key, async |_| -> io::Result<u32> { panic!("a mistake of the load") }).await;
        assert!(matches!(panicking, Err(LoadError::Panicked)), "{panicking:?}");
        assert_eq!(get(&cache, &Source::open()).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_load_that_asks_for_its_own_key_fails() {
    let cache = cache(&grid("memory:").await);
    let inner = cache.clone();
    let outer = async move |key| {
        let other = inner.get_or_load(&"other".to_owned(), async |_| Ok::<_, io::Error>(1)).await;
        assert_eq!(*other.unwrap(), 1);
        let nested = inner.clone();
        let load = async move |_| nested.get_or_load(&key, async |_| Ok::<_, io::Error>(2)).await.map(|value| *value);
        match inner.get_or_load(&"between".to_owned(), load).await {
            Err(LoadError::Load(error)) if matches!(*error, LoadError::Recursive) => Ok::<_, io::Error>(3),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(*cache.get_or_load(&"k".to_owned(), outer).await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn loads_that_wait_for_each_other_end() {
    let cache = cache(&bandog::testing::client().grid()).wait(Duration::from_secs(2));
    let both = [("a", "b"), ("b", "a")].map(|(key, needs)| {
        let (cache, inner) = (cache.clone(), cache.clone());
        tokio::spawn(async move {
            let load = async move |_| {
                sleep(Duration::from_millis(10)).await;
                inner.get_or_load(&needs.to_owned(), async |_| Ok::<_, io::Error>(1)).await.map(|value| *value + 1)
            };
            cache.get_or_load(&key.to_owned(), load).await.map(|value| *value)
        })
    });
    for value in join_all(both).await {
        value.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_load_without_callers_is_ended_and_others_keep_it() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let (cache, source) = (cache(&grid(&url).await), Source::closed());
        let first = spawned(&cache, &source);
        source.started.notified().await;
        let second = spawned(&cache, &source);
        eventually_async(SOON, async || cache.stats().waits == 1).await;
        first.abort();
        sleep(Duration::from_millis(20)).await;
        source.gate.add_permits(1);
        assert_eq!(second.await.unwrap().unwrap(), 1);
        assert_eq!(source.loads(), 1);
        cache.remove("k").await.unwrap();
        let alone = spawned(&cache, &source);
        source.started.notified().await;
        alone.abort();
        // The fill has ended: another process loads at once.
        let other = self::cache(&grid(&url).await);
        assert_eq!(get(&other, &Source::open()).await.unwrap(), 1);
        if url != "memory:" {
            cache.clear().await.unwrap();
            eventually_async(SOON, async || !keys(&server).iter().any(|key| key.contains("cache-fill"))).await;
        }
    }
}

#[tokio::test]
async fn a_known_absence_is_cached_if_asked() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let cache = cache(&grid(&url).await);
        let key = "k".to_owned();
        let loads = Arc::new(AtomicU32::new(0));
        let find = |cache: &Cache<String, u32>| {
            let (cache, loads, key) = (cache.clone(), loads.clone(), key.clone());
            async move {
                let load = async move |_| {
                    loads.fetch_add(1, SeqCst);
                    Ok::<Option<u32>, io::Error>(None)
                };
                cache.get_or_find(&key, load).await.unwrap()
            }
        };
        assert_eq!((find(&cache).await, find(&cache).await, loads.load(SeqCst)), (None, None, 2));
        let cache = cache.none(MINUTE);
        assert_eq!((find(&cache).await, find(&cache).await, loads.load(SeqCst)), (None, None, 3));
        assert_eq!(cache.get("k").await.unwrap(), None);
        // Who needs a value loads it.
        assert_eq!(get(&cache, &Source::open()).await.unwrap(), 1);
        assert_eq!(cache.get("k").await.unwrap().as_deref(), Some(&1));
    }
}

#[tokio::test]
async fn an_entry_that_cannot_be_decoded_is_loaded_again() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let texts: Cache<String, String> = grid.cache("c").unwrap();
    texts.put("k", "no number").await.unwrap();
    let numbers = cache(&grid);
    assert_eq!(numbers.get("k").await.unwrap(), None);
    assert_eq!(get(&numbers, &Source::open()).await.unwrap(), 1);
    assert_eq!(numbers.get("k").await.unwrap().as_deref(), Some(&1));
    assert!(numbers.stats().undecodable >= 2);
}

// Promise: CA4
#[tokio::test]
async fn values_are_loaded_while_the_store_is_away() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let (cache, strict) = (cache(&grid), cache(&grid).strict());
    assert_eq!(get(&cache, &Source::open()).await.unwrap(), 1);
    server.kill();
    let source = Source::open();
    assert_eq!(get(&cache, &source).await.unwrap(), 1);
    for value in join_all((0..1_000).map(|_| get(&cache, &source))).await {
        value.unwrap();
    }
    assert!(cache.stats().loads_without_store >= 2);
    let refused = get(&strict, &source).await;
    assert!(matches!(refused, Err(LoadError::Store(_))), "{refused:?}");
    server.restart();
    eventually_async(SOON, async || {
        let before = source.loads();
        get(&cache, &source).await.unwrap();
        source.loads() == before
    })
    .await;
}

#[tokio::test]
async fn refresh_and_put_replace_what_is_fresh() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let cache = cache(&grid(&url).await);
        cache.put("k", &7).await.unwrap();
        assert_eq!(get(&cache, &Source::open()).await.unwrap(), 7);
        let refreshed = cache.refresh(&"k".to_owned(), async |_| Ok::<_, io::Error>(8)).await.unwrap();
        assert_eq!((*refreshed, cache.get("k").await.unwrap().as_deref()), (8, Some(&8)));
        let failed = cache.refresh(&"k".to_owned(), async |_| Err::<u32, _>(io::Error::other("no"))).await;
        assert!(matches!(failed, Err(LoadError::Load(_))), "{failed:?}");
        assert_eq!(cache.get("k").await.unwrap().as_deref(), Some(&8));
        cache.put("l", &1).await.unwrap();
        cache.remove_all(["k", "l"]).await.unwrap();
        assert_eq!((cache.get("k").await.unwrap(), cache.get("l").await.unwrap()), (None, None));
        cache.put("k", &9).await.unwrap();
        cache.clear().await.unwrap();
        assert_eq!(cache.get("k").await.unwrap(), None);
    }
}

#[tokio::test]
async fn any_times_are_taken() {
    let server = RedisServer::start();
    for url in ["memory:", &server.url()] {
        let cache = cache(&grid(url).await);
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            let cache = cache.clone().fresh(time).stale(time).none(time).max_age(time).near(10);
            let cache = if time < Duration::MAX { cache } else { cache.wait(time).timeout(time) };
            let source = Source::open();
            // A refresh of the iteration before may still run, so each has a key of its own.
            let key = format!("{time:?}");
            let get = async || {
                let source = source.clone();
                *cache.get_or_load(&key, move |_| source.load()).await.unwrap()
            };
            assert_eq!(get().await, 1, "{url} {time:?}");
            let again = get().await;
            assert_eq!(again, if time < Duration::MAX { again } else { 1 }, "{url} {time:?}");
        }
    }
}

#[tokio::test]
async fn a_refresh_of_a_stale_entry_runs_once_and_only_if_it_is_needed() {
    let server = RedisServer::start();
    let (cache, other) = (cache(&grid(&server.url()).await), cache(&grid(&server.url()).await));
    let key = "k".to_owned();
    let refresh = async |cache: &Cache<String, u32>, source: &Source| {
        let source = source.clone();
        let refreshed = cache.refresh_if_stale(&key, async move |_| source.load().await.map(Some)).await;
        refreshed.map(|value| value.map(|value| *value))
    };
    cache.clone().fresh(Duration::from_millis(1)).stale(MINUTE).put("k", &7).await.unwrap();
    eventually_async(SOON, async || !cache.entry("k").await.unwrap().unwrap().is_fresh).await;
    // While one caller refreshes, another one gets the old value, and does not load.
    let (source, unused) = (Source::closed(), Source::open());
    source.loads.store(10, SeqCst);
    let open = async {
        source.started.notified().await;
        assert_eq!((refresh(&other, &unused).await.unwrap(), unused.loads()), (Some(7), 0));
        source.gate.add_permits(1);
    };
    let (refreshed, ()) = tokio::join!(refresh(&cache, &source), open);
    assert_eq!(refreshed.unwrap(), Some(11), "the caller waits for its load");
    let entry = other.entry("k").await.unwrap().unwrap();
    assert_eq!((entry.value.as_deref(), entry.is_fresh), (Some(&11), true));
    assert_eq!((refresh(&other, &unused).await.unwrap(), unused.loads()), (Some(11), 0));
    // The caller of an absent entry does not wait for the load of another one.
    cache.remove("k").await.unwrap();
    let early = spawned(&cache, &source);
    source.started.notified().await;
    assert_eq!((refresh(&other, &unused).await.unwrap(), unused.loads()), (None, 0));
    source.gate.add_permits(1);
    early.await.unwrap().unwrap();
    // A failure is reported, and the entry stays.
    cache.clone().fresh(Duration::from_millis(1)).stale(MINUTE).put("k", &7).await.unwrap();
    eventually_async(SOON, async || !cache.entry("k").await.unwrap().unwrap().is_fresh).await;
    let failed = cache.refresh_if_stale(&key, async |_| Err::<Option<u32>, _>(io::Error::other("no"))).await;
    assert!(matches!(failed, Err(LoadError::Load(_))), "{failed:?}");
    assert_eq!(cache.get("k").await.unwrap().as_deref(), Some(&7));
    server.kill();
    let failed = refresh(&cache, &unused).await;
    assert!(matches!(failed, Err(LoadError::Store(_))) && unused.loads() == 0, "{failed:?}");
}

/// Readers and writers of several processes: each write changes the source, then removes the entry. A read that begins after
/// a removal was acknowledged never has an older value. In half of the runs, the connections are cut again and again.
// Promise: CA2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_read_is_older_than_a_removal_before_it() {
    for cuts in [false, true] {
        let server = RedisServer::start();
        let (source, acknowledged) = (Arc::new(AtomicU32::new(1)), Arc::new(AtomicU32::new(0)));
        let (mut readers, mut writers) = (Vec::new(), Vec::new());
        for number in 0..4 {
            let cache = cache(&grid(&server.url()).await);
            let cache = if number % 2 == 0 { cache } else { cache.stale(Duration::ZERO).wait(SOON) };
            for _ in 0..8 {
                let (cache, source, acknowledged) = (cache.clone(), source.clone(), acknowledged.clone());
                readers.push(tokio::spawn(async move {
                    for _ in 0..200 {
                        let (floor, source) = (acknowledged.load(SeqCst), source.clone());
                        let load = async move |_| {
                            let value = source.load(SeqCst);
                            sleep(Duration::from_micros(fastrand::u64(..3_000))).await;
                            Ok::<_, io::Error>(value)
                        };
                        let value = *cache.get_or_load(&"k".to_owned(), load).await.unwrap();
                        assert!(value >= floor, "{value} was read after the removal of version {floor}");
                    }
                }));
            }
            let (cache, source, acknowledged) = (cache.clone(), source.clone(), acknowledged.clone());
            writers.push(tokio::spawn(async move {
                for _ in 0..100 {
                    let version = source.fetch_add(1, SeqCst) + 1;
                    if cache.remove("k").await.is_ok() {
                        acknowledged.fetch_max(version, SeqCst);
                    }
                    sleep(Duration::from_micros(fastrand::u64(..5_000))).await;
                }
            }));
        }
        let readers = join_all(readers);
        tokio::pin!(readers);
        loop {
            tokio::select! {
                results = &mut readers => break results.into_iter().for_each(Result::unwrap),
                () = sleep(Duration::from_millis(30)), if cuts => server.kill_clients(),
            }
        }
        join_all(writers).await.into_iter().for_each(Result::unwrap);
    }
}

// Promise: CA6
#[tokio::test]
async fn copies_in_the_process_need_no_request_and_disappear_with_each_change() {
    let server = RedisServer::start();
    let (own, other) = (grid(&server.url()).await, grid(&server.url()).await);
    let (near, plain) = (cache(&own).near(100), cache(&other));
    let source = Source::open();
    let is_copied = async || {
        let before = near.stats().near_hits;
        get(&near, &source).await.unwrap();
        near.stats().near_hits > before
    };
    eventually_async(SOON, is_copied).await;
    let commands = || {
        let info = server.cmd(&["INFO", "commandstats"]).text().to_owned();
        info.lines()
            .filter(|line| line.contains("cmdstat_get:") || line.contains("cmdstat_evalsha:"))
            .collect::<String>()
    };
    let before = commands();
    for _ in 0..100 {
        assert_eq!(get(&near, &source).await.unwrap(), 1);
    }
    assert_eq!(commands(), before);
    // Another program writes, removes or clears, or somebody deletes the key.
    plain.put("k", &7).await.unwrap();
    eventually_async(SOON, async || get(&near, &source).await.unwrap() == 7).await;
    eventually_async(SOON, is_copied).await;
    plain.remove("k").await.unwrap();
    eventually_async(SOON, async || get(&near, &source).await.unwrap() == 2).await;
    eventually_async(SOON, is_copied).await;
    plain.clear().await.unwrap();
    eventually_async(SOON, async || get(&near, &source).await.unwrap() == 3).await;
    eventually_async(SOON, is_copied).await;
    let entries = keys(&server).into_iter().filter(|key| key.starts_with("bandog:cache:") && key.ends_with(":k"));
    entries.for_each(|key| _ = server.cmd(&["DEL", &key]));
    eventually_async(SOON, async || get(&near, &source).await.unwrap() == 4).await;
    // A removal by this process is seen at once.
    eventually_async(SOON, is_copied).await;
    near.remove("k").await.unwrap();
    assert_eq!(get(&near, &source).await.unwrap(), 5);
}

// Promise: CA6
#[tokio::test]
async fn copies_are_not_used_while_changes_are_not_reported() {
    let server = RedisServer::start();
    let near = cache(&grid(&server.url()).await).near(100);
    let source = Source::open();
    let is_copied = async || {
        let before = near.stats().near_hits;
        get(&near, &source).await.unwrap();
        near.stats().near_hits > before
    };
    eventually_async(SOON, is_copied).await;
    for _ in 0..5 {
        // The write happens while no connection can report it.
        server.kill_clients();
        let own = grid(&server.url()).await;
        cache(&own).put("k", &fastrand::u32(100..)).await.unwrap();
        let newest = cache(&own).get("k").await.unwrap().unwrap();
        eventually_async(SOON, async || get(&near, &source).await.unwrap() == *newest).await;
        eventually_async(SOON, is_copied).await;
        assert_eq!(get(&near, &source).await.unwrap(), *newest);
    }
}

// Promise: CA6
#[tokio::test]
async fn a_cluster_reports_changes_of_all_nodes_and_follows_moved_slots() {
    let cluster = RedisCluster::start(3, 0);
    let (own, other) = (grid(&cluster.url()).await, grid(&cluster.url()).await);
    let (near, plain) = (cache(&own).near(1_000), cache(&other));
    let names: Vec<String> = (0..50).map(|number| format!("k{number}")).collect();
    let all = async |cache: &Cache<String, u32>| {
        let mut values = Vec::new();
        for name in &names {
            values.push(*cache.get_or_load(name, async |_| Ok::<_, io::Error>(0)).await.unwrap());
        }
        values
    };
    let are_copied = async || {
        let before = near.stats().near_hits;
        all(&near).await;
        near.stats().near_hits == before + 50
    };
    for round in 1..=3 {
        eventually_async(SOON, are_copied).await;
        for name in &names {
            plain.put(name, &round).await.unwrap();
        }
        eventually_async(SOON, async || all(&near).await.iter().all(|value| *value == round)).await;
        // The slots of a few parts move to another node.
        for part in round * 10..round * 10 + 5 {
            let slot = cluster.slot(&part.to_string());
            let from = cluster.master_of(slot);
            let to = cluster.iter().find(|node| node.addr() != from.addr()).unwrap();
            move_slot(&cluster, slot, from, to);
        }
    }
    plain.clear().await.unwrap();
    eventually_async(SOON, async || all(&near).await.iter().all(|value| *value == 0)).await;
}

// Promise: CA4
#[tokio::test]
async fn without_the_store_callers_share_the_next_load_and_join_none_that_runs() {
    let server = RedisServer::start();
    let cache = cache(&grid(&server.url()).await);
    server.kill();
    let source = Source::closed();
    let early = spawned(&cache, &source);
    source.started.notified().await;
    let late: Vec<_> = (0..100).map(|_| spawned(&cache, &source)).collect();
    eventually_async(SOON, async || cache.stats().waits == 100).await;
    source.gate.add_permits(2);
    assert_eq!(early.await.unwrap().unwrap(), 1);
    for value in join_all(late).await {
        assert_eq!(value.unwrap().unwrap(), 2);
    }
}

// Promise: CA6
#[test]
fn copies_are_not_used_after_the_runtime_that_hears_of_changes() {
    let server = RedisServer::start();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let near = first.block_on(async {
        let near = cache(&grid(&server.url()).await).near(100);
        eventually_async(SOON, async || {
            get(&near, &Source::open()).await.unwrap();
            near.stats().near_hits > 0
        })
        .await;
        near
    });
    drop(first);
    second.block_on(async {
        cache(&grid(&server.url()).await).put("k", &7).await.unwrap();
        assert_eq!(get(&near, &Source::open()).await.unwrap(), 7);
    });
}

#[test]
fn a_load_whose_runtime_ends_fails_its_callers_and_the_next_caller_loads() {
    let server = RedisServer::start();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for url in ["memory:".to_owned(), server.url()] {
        let (first, second) = (runtime(), runtime());
        let cache = second.block_on(async { cache(&grid(&url).await).wait(Duration::from_secs(1)) });
        let source = Source::closed();
        let caller = || {
            let (cache, source) = (cache.clone(), source.clone());
            async move { get(&cache, &source).await }
        };
        let early = first.spawn(caller());
        second.block_on(source.started.notified());
        let waiting = second.spawn(caller());
        second.block_on(eventually_async(SOON, async || cache.stats().waits == 1));
        drop(first);
        second.block_on(async {
            assert!(early.await.is_err(), "its task has ended with its runtime");
            assert!(matches!(waiting.await.unwrap(), Err(LoadError::Panicked)));
            get(&cache, &Source::open()).await.unwrap();
        });
    }
}

#[tokio::test]
async fn counts_are_metrics_with_the_name_of_the_cache() {
    let recorder = DebuggingRecorder::new();
    let grid = grid("memory:").await;
    let prices: Cache<u32, u32> = metrics::with_local_recorder(&recorder, || grid.cache("prices")).unwrap();
    for _ in 0..3 {
        prices.get_or_load(&1, async |key| Ok::<_, io::Error>(key)).await.unwrap();
    }
    let mut counted = Vec::new();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
        assert_eq!(labels, [("cache", "prices")]);
        let is_age = key.key().name() == "bandog_cache_age_ms_total";
        if value != DebugValue::Counter(0) && !is_age {
            counted.push((key.key().name().to_owned(), value));
        }
    }
    counted.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("hits", 2), ("loads", 1), ("misses", 1)];
    let expected = expected.map(|(name, number)| (format!("bandog_cache_{name}_total"), DebugValue::Counter(number)));
    assert_eq!(counted, expected);
}

#[tokio::test(start_paused = true)]
async fn counts_are_reported_for_operators() {
    let client = bandog::testing::client();
    let grid = client.grid();
    let prices: Cache<u32, u32> = grid.cache("prices").unwrap();
    for _ in 0..3 {
        prices.get_or_load(&1, async |key| Ok::<_, io::Error>(key)).await.unwrap();
    }
    let reports = async || client.cache_reports().await.unwrap().unwrap();
    assert_eq!(reports().await, []);
    sleep(Duration::from_secs(21)).await;
    let found = reports().await;
    let [report] = &found[..] else { panic!("{found:?}") };
    assert_eq!((report.cache.as_str(), report.client), ("prices", client.id()));
    assert!(report.json.contains(r#""hits":2"#) && report.json.contains(r#""loads":1"#), "{}", report.json);
    // Nothing is written while nothing is counted, nor after the last handle of the cache.
    sleep(Duration::from_secs(60)).await;
    assert_eq!(reports().await[0].json, report.json);
    drop((prices, grid));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(reports().await.len(), 1, "it is shown for minutes");
}

/// A value that cannot be written is the newest one nevertheless: the entry before it goes, so nobody gets an older value.
// Promise: CA2
#[tokio::test]
async fn a_value_that_outgrows_the_limit_leaves_no_older_one() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let cache: Cache<u32, String> =
            grid(&url).await.cache("c").unwrap().fresh(Duration::from_millis(50)).stale(MINUTE);
        let load = async |length: usize| {
            let load = async move |_| Ok::<_, io::Error>("x".repeat(length));
            cache.get_or_load(&1, load).await.unwrap().len()
        };
        assert_eq!(load(3).await, 3);
        sleep(Duration::from_millis(100)).await;
        // The stale value is given while the refresh runs.
        load(600_000).await;
        eventually_async(SOON, async || cache.get(&1).await.unwrap().is_none()).await;
        assert_eq!(load(600_000).await, 600_000);
        assert!(cache.get(&1).await.unwrap().is_none());
        cache.put(&1, "small").await.unwrap();
        let refused = cache.put(&1, "x".repeat(600_000).as_str()).await.unwrap_err();
        assert_eq!(refused.kind(), bandog::ErrorKind::Misused, "{refused}");
        assert!(cache.get(&1).await.unwrap().is_none());
    }
}
