//! Caches with the layout of Redisson's cache manager for Spring. The tests with Java are in `interop`.

use std::{io, time::Duration};

use bandog::{
    ErrorKind,
    grid::{Cache, ClientGrid, Grid, LoadError, SpringCache},
};
use bandog_testkit::{RedisServer, eventually_async};
use futures_util::future::join_all;

use crate::{SOON, cache::Source, grid, keys};

const HOUR: Duration = Duration::from_secs(3_600);

fn prices(grid: &Grid) -> SpringCache<i64, i32> {
    grid.spring_cache("prices").unwrap()
}

async fn get(cache: &SpringCache<i64, i32>, source: &Source) -> i32 {
    let source = source.clone();
    let load = async move |_| source.load().await.map(|value| i32::try_from(value).unwrap());
    *cache.get_or_load(&1, load).await.unwrap()
}

#[tokio::test]
async fn callers_of_all_processes_share_a_load() {
    let server = RedisServer::start();
    let (mut grids, source) = (Vec::new(), Source::closed());
    for _ in 0..3 {
        grids.push(bandog::connect(server.url()).await.unwrap().grid());
    }
    let caches: Vec<_> = grids.iter().map(|grid| prices(grid).lasting(HOUR).unwrap()).collect();
    let calls = join_all((0..300).map(|number| get(&caches[number % 3], &source)));
    let (values, ()) = tokio::join!(calls, async {
        source.started.notified().await;
        source.gate.add_permits(1);
    });
    assert!(values.iter().all(|value| *value == 1));
    assert_eq!((source.loads(), get(&caches[0], &source).await), (1, 1));
    caches[0].remove(&1).await.unwrap();
    source.gate.add_permits(1);
    assert_eq!(get(&caches[1], &source).await, 2);
}

/// A load that runs during a removal, a write or a `clear` is not found by later calls.
#[tokio::test]
async fn a_load_that_was_overtaken_is_not_written() {
    let grid = grid("memory:").await;
    let cache = prices(&grid);
    let source = Source::closed();
    for turn in 0..3 {
        let running = tokio::spawn({
            let (cache, source) = (cache.clone(), source.clone());
            async move { get(&cache, &source).await }
        });
        source.started.notified().await;
        match turn {
            0 => cache.remove(&1).await.unwrap(),
            1 => cache.put(&1, &100).await.unwrap(),
            _ => cache.clear().await.unwrap(),
        }
        source.gate.add_permits(1);
        assert_eq!(running.await.unwrap(), i32::try_from(source.loads()).unwrap());
        assert_eq!(cache.get(&1).await.unwrap(), (turn == 1).then_some(100), "turn {turn}");
        cache.remove(&1).await.unwrap();
    }
}

#[tokio::test]
async fn an_absence_is_cached_and_a_failure_is_not() {
    let grid = grid("memory:").await;
    let cache = prices(&grid);
    let fails = cache.get_or_find(&1, async |_| Err::<Option<i32>, _>(io::Error::other("down"))).await;
    assert!(matches!(fails, Err(LoadError::Load(_))), "{fails:?}");
    assert!(!cache.map().exists().await.unwrap());
    assert_eq!(cache.get_or_find(&1, async |_| Ok::<_, io::Error>(None)).await.unwrap(), None);
    assert_eq!(cache.get_or_find(&1, async |_| Ok::<_, io::Error>(Some(5))).await.unwrap(), None);
    assert_eq!(cache.map().get(&1).await.unwrap(), Some(None));
    assert_eq!(*cache.get_or_load(&1, async |_| Ok::<_, io::Error>(6)).await.unwrap(), 6, "a value is wanted");
    let nested = cache.clone();
    let recursive = cache.get_or_load(&2, async move |_| match nested.get_or_load(&2, async |_| Ok(1)).await {
        Err(LoadError::Recursive) => Err(io::Error::other("recursive")),
        other => other.map(|value| *value).map_err(|error: LoadError<io::Error>| io::Error::other(error.to_string())),
    });
    assert_eq!(recursive.await.unwrap_err().to_string(), "recursive");
}

/// A cache with the same name has other entries and other loads. All keys beside the map expire.
#[tokio::test]
async fn only_the_map_stays() {
    let server = RedisServer::start();
    let grid = bandog::connect(server.url()).await.unwrap().grid();
    let (cache, other, source) = (prices(&grid), grid.cache::<i64, i32>("prices").unwrap(), Source::open());
    assert_eq!((get(&cache, &source).await, prices_of(&other, 7).await), (1, 7));
    assert_eq!((get(&cache, &source).await, prices_of(&other, 8).await), (1, 7));
    cache.clear().await.unwrap();
    other.clear().await.unwrap();
    let lasting = || keys(&server).into_iter().filter(|key| server.pttl(key) == -1).collect::<Vec<_>>();
    assert_eq!(lasting(), Vec::<String>::new());
}

async fn prices_of(cache: &Cache<i64, i32>, value: i32) -> i32 {
    *cache.get_or_load(&1, async move |_| Ok::<_, io::Error>(value)).await.unwrap()
}

#[tokio::test]
async fn without_its_store_a_cache_loads() {
    let server = RedisServer::start();
    let grid = bandog::connect(server.url()).await.unwrap().grid();
    let (cache, source) = (prices(&grid).timeout(Duration::from_millis(100)), Source::open());
    assert_eq!(get(&cache, &source).await, 1);
    server.pause();
    for turn in 2..5 {
        assert_eq!(get(&cache, &source).await, turn);
    }
    assert!(cache.stats().loads_without_store >= 3);
    let strict = cache.clone().strict().get_or_load(&1, async |_| Ok::<_, io::Error>(1)).await;
    assert!(matches!(strict, Err(LoadError::Store(_))), "{strict:?}");
    server.resume();
    eventually_async(SOON, async || get(&cache, &source).await == 1).await;
}

#[tokio::test]
async fn a_value_that_is_too_large_removes_the_one_before() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let grid = grid(&url).await;
        let cache: SpringCache<i64, String> = grid.spring_cache("texts").unwrap();
        cache.put(&1, &"old".to_owned()).await.unwrap();
        assert_eq!(cache.get(&1).await.unwrap().as_deref(), Some("old"));
        let error = cache.put(&1, &"x".repeat(600_000)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused);
        assert_eq!(cache.get(&1).await.unwrap(), None);
    }
}
