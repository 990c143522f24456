//! Calls on objects, their limits and errors.

use std::time::Duration;

use bandog::{
    ErrorKind,
    grid::{BitSet, ClientGrid, Counter, Limits, List, Map, Multimap, Set, SortedSet, Ttl, Value, codec},
};
use bandog_testkit::RedisServer;
use futures_util::StreamExt;
use tokio::time::Instant;

use crate::{client, grid, keys};

/// A client of each store. The server runs as long as the test.
async fn each_store() -> ([bandog::Client; 2], RedisServer) {
    let server = RedisServer::start();
    ([client("memory:").await, client(&server.url()).await], server)
}

// Promise: G1
#[tokio::test]
async fn a_batch_answers_each_call_and_fails_with_the_first_error() {
    let (clients, _server) = each_store().await;
    for client in clients {
        let grid = client.grid();
        let (map, counter): (Map<String, u32>, Counter) = (grid.map("map").unwrap(), grid.counter("count").unwrap());
        let list: List<u32> = grid.list("map").unwrap();
        let mut batch = grid.batch();
        let put = batch.add(map.put("a", &1));
        let wrong_type = batch.add(list.push(&5));
        let sum = batch.add(counter.add(2));
        let nothing = batch.add(map.get_all::<String>(&[]));
        assert_eq!(batch.len(), 3);
        assert_eq!(batch.send().await.unwrap_err().kind(), ErrorKind::Denied);
        put.get().unwrap();
        assert_eq!(wrong_type.get().unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!((sum.get().unwrap(), nothing.get().unwrap().len()), (2, 0));
        let unsent = grid.batch().add(counter.get());
        assert_eq!(unsent.get().unwrap_err().kind(), ErrorKind::Misused);
        let other = client.grid().counter("count").unwrap();
        let mut batch = grid.batch();
        let (own, foreign) = (batch.add(counter.get()), batch.add(other.get()));
        assert_eq!(batch.send().await.unwrap_err().kind(), ErrorKind::Misused);
        assert_eq!((own.get().unwrap(), foreign.get().unwrap_err().kind()), (2, ErrorKind::Misused));
    }
}

// Promise: G19
#[tokio::test]
async fn too_many_operations_and_too_large_elements_are_refused_before_they_are_sent() {
    let client = client("memory:").await;
    let grid = client.grid_with(Limits { element: 10, operations: 2, bytes: 1_000 });
    let map: Map<String, String> = grid.map("map").unwrap();
    let large = "x".repeat(9); // With its quotes, 11 bytes.
    let refused = map.put("a", large.as_str()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misused);
    assert!(refused.to_string().contains("11 bytes") && !refused.to_string().contains(&large), "{refused}");
    let mut batch = grid.batch();
    let answers: Vec<_> = (0..3).map(|_| batch.add(map.len())).collect();
    let refused = batch.send().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Overloaded, "{refused}");
    assert!(!refused.maybe_applied());
    for answer in answers {
        assert_eq!(answer.get().unwrap_err().kind(), ErrorKind::Overloaded);
    }
    assert_eq!(map.len().await.unwrap(), 0, "the refused operations are not in flight");
}

#[tokio::test]
async fn a_store_without_objects_refuses_the_handle() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let refused = grid(&url).await.map::<u8, u8>("map").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert_eq!(grid(&url).await.topic::<u8>("news").unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("Redis and memory have them"), "{refused}");
    let refused = grid("memory:").await.map::<u8, u8>("").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misused);
}

#[tokio::test]
async fn names_have_the_prefix_of_the_client() {
    let server = RedisServer::start();
    let grid = grid(&format!("{}?prefix=shop:", server.url())).await;
    let map: Map<u32, String> = grid.map("users").unwrap();
    map.put(&7, "ann").await.unwrap();
    assert_eq!((map.name(), keys(&server)), ("users", vec!["shop:users".to_owned()]));
    assert_eq!(server.cmd(&["HGET", "shop:users", "7"]).text(), "\"ann\"");
    // Redisson, too, adds its prefix to the name of the lock, which contains the name of the map with the prefix.
    let guard = map.lock(&7).unwrap().lock().await.unwrap();
    assert_eq!(guard.key(), "shop:{shop:users}:CZmHU+o3Ji9g5RfsvLaFIQ:lock");
    guard.release().await.unwrap();
}

// Promise: G13
#[tokio::test]
async fn one_foreign_entry_is_one_error_of_the_stream() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let map: Map<u32, u32> = grid.map("map").unwrap();
    map.put_all(&[(1, 10), (2, 20), (3, 30)]).await.unwrap();
    server.cmd(&["HSET", "map", "2", "not JSON", "x", "5"]);
    let (mut good, mut bad) = (Vec::new(), 0);
    let mut entries = map.stream();
    while let Some(entry) = entries.next().await {
        match entry {
            Ok(entry) => good.push(entry),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(!error.to_string().contains("not JSON"), "{error}");
                bad += 1;
            }
        }
    }
    good.sort_unstable();
    assert_eq!((good, bad), (vec![(1, 10), (3, 30)], 2));
    let each = map.get_all(&[1, 2, 9]).await.unwrap();
    assert!(matches!(each.as_slice(), [Ok(Some(10)), Err(_), Ok(None)]), "{each:?}");
    assert_eq!(map.to_vec(1).await.map(|found| found.len()).unwrap_or(1), 1);
}

// Promise: G16
#[tokio::test]
async fn an_update_repeats_until_nobody_was_faster() {
    let (clients, _server) = each_store().await;
    for client in clients {
        let map: Map<String, u64> = client.grid().map("map").unwrap();
        let add = async |map: &Map<String, u64>| {
            for _ in 0..50 {
                map.update("n", |number| Some(number.unwrap_or_default() + 1)).await.unwrap();
            }
        };
        futures_util::future::join_all((0..8).map(|_| add(&map))).await;
        assert_eq!(map.get("n").await.unwrap(), Some(400));
        assert_eq!(map.update("n", |_| None).await.unwrap(), None);
        assert!(!map.exists().await.unwrap());
    }
}

// Promise: G15
#[tokio::test]
async fn each_handle_expires_with_all_its_keys() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let hour = Duration::from_secs(3600);
    let value: Value<String> = grid.value("value").unwrap();
    value.set_for("a", hour).await.unwrap();
    let multimap: Multimap<u32, u32> = grid.set_multimap("multimap").unwrap();
    multimap.insert(&1, &2).await.unwrap();
    assert!(multimap.expire(hour).await.unwrap());
    let bloom = grid.bloom::<u32>("bloom").unwrap().create_or_open(100, 0.01).await.unwrap();
    assert!(bloom.expire(hour).await.unwrap());
    bloom.insert(&5).await.unwrap();
    let queue = grid.queue::<u32>("queue").unwrap();
    queue.push_all(&[1, 2]).await.unwrap();
    let taken = queue.take(hour).await.unwrap().unwrap();
    assert!(queue.expire(hour).await.unwrap());
    for key in server.cmd(&["KEYS", "*"]).texts() {
        assert!(server.cmd(&["PTTL", &key]).int() > 0, "{key}");
    }
    assert!(matches!(queue.ttl().await.unwrap(), Ttl::Left(_)));
    assert!(queue.persist().await.unwrap());
    taken.done().await.unwrap();
    for deleted in [value.delete(), multimap.delete(), bloom.delete(), queue.delete()] {
        assert!(deleted.await.unwrap());
    }
    assert_eq!(keys(&server), Vec::<String>::new());
    let gone = bloom.insert(&6).await.unwrap_err();
    assert!(gone.kind() == ErrorKind::Misused && gone.to_string().contains("create_or_open"), "{gone}");
    let other = grid.bloom::<u32>("bloom").unwrap().create_or_open(1_000, 0.5).await.unwrap();
    let refused = bloom.contains(&5).await.unwrap_err();
    let sizes = [bloom.sizes(), other.sizes()].map(|sizes| format!("{} bits", sizes.bits));
    assert!(sizes.iter().all(|size| refused.to_string().contains(size)), "{refused}");
    assert!(value.expire(Duration::MAX).await.unwrap_err().kind() == ErrorKind::Misused);
}

#[tokio::test]
async fn empty_arguments_need_no_store() {
    let grid = grid("memory:").await;
    let (set, sorted): (Set<u32>, SortedSet<u32>) = (grid.set("set").unwrap(), grid.sorted_set("sorted").unwrap());
    assert_eq!(set.insert_all::<u32>(&[]).await.unwrap(), 0);
    assert_eq!(set.contains_all::<u32>(&[]).await.unwrap(), Vec::<bool>::new());
    assert_eq!(sorted.top(0).await.unwrap(), []);
    assert_eq!(sorted.range(5.0..5.0, 9).await.unwrap(), []);
    sorted.insert(5.0, &1).await.unwrap();
    assert_eq!(sorted.range(5.0..=5.0, 9).await.unwrap(), [(1, 5.0)]);
    assert_eq!((sorted.count(..).await.unwrap(), sorted.count(..5.0).await.unwrap()), (1, 0));
    let bits: BitSet = grid.bits("bits").unwrap();
    bits.set_range(3..3, true).await.unwrap();
    assert!(!bits.exists().await.unwrap());
    assert_eq!(bits.set_range(3.., true).await.unwrap_err().kind(), ErrorKind::Misused);
    assert_eq!(bits.unsigned(0, 64).get().await.unwrap_err().kind(), ErrorKind::Misused);
}

#[tokio::test]
async fn a_codec_decides_the_bytes() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let map: Map<String, i64, codec::Kryo5> = grid.map("map").unwrap().codec(codec::Kryo5);
    map.put("k", &5).await.unwrap();
    let text: Map<String, String, codec::Bytes> = grid.map("map").unwrap().codec(codec::Bytes);
    assert_eq!(text.len().await.unwrap(), 1);
    assert_eq!(map.to_vec(10).await.unwrap(), [("k".to_owned(), 5)]);
    let plain: Map<String, i64> = grid.map("map").unwrap();
    assert_eq!(plain.get("k").await.unwrap(), None, "the bytes of the key differ");
}

/// Calls that share a round trip end with the runtime that sends it, and later calls do not wait for them.
#[test]
fn calls_outlive_the_runtime_of_others() {
    let server = RedisServer::start();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let main = runtime();
    let grid = main.block_on(grid(&server.url()));
    let counter = grid.counter("n").unwrap();
    for _ in 0..50 {
        let other = runtime();
        for _ in 0..20 {
            let counter = counter.clone();
            other.spawn(async move { counter.add(1).await });
        }
        other.shutdown_background();
        let both = async { tokio::try_join!(counter.get(), counter.get(), counter.get()) };
        // An error is possible only if the other runtime has sent these calls, and has ended before the answer.
        let answered = main.block_on(async { tokio::time::timeout(crate::SOON, both).await }).unwrap();
        assert!(answered.is_ok() || answered.is_err_and(|error| error.maybe_applied()));
    }
}

/// The renewals of locks have a connection of their own: they do not wait behind large values of the grid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_renewed_beside_large_values() {
    let server = RedisServer::start();
    let client = bandog::ConnectOptions::parse(server.url()).unwrap().watchdog(Duration::from_millis(600));
    let client = client.connect().await.unwrap();
    let guard = client.mutex("held").lock().await.unwrap();
    let map: Map<Vec<u8>, Vec<u8>, codec::Bytes> = client.grid().map("m").unwrap().codec(codec::Bytes);
    let value = vec![0; 500_000];
    let writers = (0..8).map(|key| {
        let (map, value, key) = (map.clone(), value.clone(), vec![key]);
        async move {
            let begin = Instant::now();
            let mut written = 0;
            while begin.elapsed() < Duration::from_secs(4) {
                map.put(&key, &value).await.unwrap();
                map.get(&key).await.unwrap().unwrap();
                written += value.len();
            }
            written
        }
    });
    let written: usize = futures_util::future::join_all(writers).await.into_iter().sum();
    println!("{} MiB/s each way", written / 4 / 1_048_576);
    assert!(!guard.is_lost(), "six ttls have passed");
    guard.release().await.unwrap();
}

/// A batch with many bytes is sent in portions. If one of them has no answer, the later ones are not sent.
#[tokio::test]
async fn a_batch_of_many_bytes_is_sent_in_portions() {
    let server = RedisServer::start();
    let wire = server.wire();
    let grid = grid(&format!("{}?timeout=2s", wire.url())).await;
    let long = "x".repeat(200 * 1024);
    let batch = |name: &str| {
        let mut batch = grid.batch();
        let value = |number: usize| -> Value<String> { grid.value(format!("{name}{number}")).unwrap() };
        let answers: Vec<_> = (0..12).map(|number| batch.add(value(number).set(&long))).collect();
        (batch, answers)
    };
    let (sent, answers) = batch("all");
    sent.send().await.unwrap();
    assert!(answers.into_iter().all(|answer| answer.get().is_ok()));
    wire.drop_replies(true);
    let (sent, answers) = batch("some");
    assert!(sent.send().await.unwrap_err().maybe_applied());
    let errors: Vec<_> = answers.into_iter().map(|answer| answer.get().unwrap_err()).collect();
    assert!(errors[..5].iter().all(|error| error.maybe_applied()), "{errors:?}");
    assert!(errors[5..].iter().all(|error| error.is_retryable() && !error.maybe_applied()), "{errors:?}");
    let written = keys(&server).into_iter().filter(|key| key.starts_with("some")).count();
    assert_eq!(written, 5, "a portion of 1 MiB");
}
