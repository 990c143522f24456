//! Maps that are read from copies in the process: who changes them, and when the copies are gone.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bandog::grid::{Map, NearMap, Offline};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async, moves::move_slot};
use tokio::time::sleep;

use crate::{SOON, grid};

async fn near(url: &str) -> NearMap<String, u32> {
    // Age removes no copy during a test.
    grid(url).await.map("m").unwrap().near(1_000).max_age(Duration::from_secs(3_600))
}

async fn read(near: &NearMap<String, u32>, key: &str) -> Option<u32> {
    near.read(key).await.unwrap().map(|value| *value)
}

/// Whether a read needs no request.
async fn is_copied(server: &RedisServer, near: &NearMap<String, u32>, key: &str) -> bool {
    let before = server.calls("hmget");
    near.read(key).await.unwrap();
    server.calls("hmget") == before
}

// Promise: G25
#[tokio::test]
async fn copies_need_no_request_and_are_gone_after_each_change() {
    let server = RedisServer::start();
    let (near, other) = (near(&server.url()).await, near(&server.url()).await);
    let plain: Map<String, u32> = grid(&server.url()).await.map("m").unwrap();
    let of_longer_name: Map<String, u32> = grid(&server.url()).await.map("m2").unwrap();
    plain.put_all(&[("a".to_owned(), 1), ("b".to_owned(), 1)]).await.unwrap();
    for (number, key) in (2..).zip(["a", "b", "absent", "a", "b", "a", "b"]) {
        eventually_async(SOON, async || is_copied(&server, &near, key).await).await;
        of_longer_name.put("a", &number).await.unwrap();
        let expected = match number % 7 {
            0 => other.put(key, &number).await.map(|()| Some(number)),
            1 => other.remove(key).await.map(|_| None),
            2 => other.update(key, |_| Some(number)).await,
            3 => other.add(key, 1).await.map(|sum| u32::try_from(sum).ok()),
            4 => plain.put(key, &number).await.map(|()| Some(number)),
            5 => plain.take(key).await.map(|_| None),
            _ => {
                server.cmd(&["HSET", "m", key, &number.to_string()]);
                Ok(Some(number))
            }
        };
        let expected = expected.unwrap();
        eventually_async(SOON, async || {
            let seen = read(&near, key).await;
            if seen == expected { Ok(()) } else { Err((number, seen)) }
        })
        .await;
    }
    // A write by this process is seen at once.
    for number in 100..150 {
        near.put("a", &number).await.unwrap();
        assert_eq!(read(&near, "a").await, Some(number));
    }
    // The whole map goes.
    eventually_async(SOON, async || is_copied(&server, &near, "a").await).await;
    assert!(plain.delete().await.unwrap());
    eventually_async(SOON, async || read(&near, "a").await.is_none()).await;
}

/// Writers of all kinds count up; no reader gets a value that is more than a second older than the one it could have. The bound
/// of the test is longer, for a loaded machine. In half of the runs, the connections are cut again and again.
// Promise: G25
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_copy_is_much_older_than_a_second() {
    const MUCH: Duration = Duration::from_secs(4);
    for cuts in [false, true] {
        let server = RedisServer::start();
        let plain: Map<String, u32> = grid(&server.url()).await.map("m").unwrap();
        let (reader, writer) = (near(&server.url()).await, near(&server.url()).await);
        plain.put("k", &0).await.unwrap();
        // Each written value, and when its write was acknowledged.
        let written = Arc::new(Mutex::new(vec![(0, Instant::now())]));
        let end = Instant::now() + Duration::from_secs(8);
        let writes = {
            let written = written.clone();
            tokio::spawn(async move {
                for number in 1.. {
                    if Instant::now() > end {
                        break;
                    }
                    // Writes to another entry, which are named, may hide one that is not.
                    drop(writer.put("other", &number).await);
                    let is_written = match fastrand::u32(..100) {
                        0 => writer.put("k", &number).await.is_ok(),
                        _ => plain.put("k", &number).await.is_ok(),
                    };
                    if is_written {
                        written.lock().unwrap().push((number, Instant::now()));
                    }
                    sleep(Duration::from_millis(fastrand::u64(..40) * fastrand::u64(..5))).await;
                }
            })
        };
        let mut next_cut = Instant::now();
        while Instant::now() < end {
            let begin = Instant::now();
            if let Ok(value) = reader.read("k").await {
                let value = value.map_or(0, |value| *value);
                let written = written.lock().unwrap();
                let floor = written.iter().rev().find(|(_, at)| *at + MUCH < begin).map_or(0, |(number, _)| *number);
                assert!(value >= floor, "{value} was read long after {floor} was written");
            }
            if cuts && next_cut < Instant::now() {
                server.kill_clients();
                next_cut = Instant::now() + Duration::from_millis(200);
            }
            sleep(Duration::from_millis(1)).await;
        }
        writes.await.unwrap();
        let last = written.lock().unwrap().last().unwrap().0;
        eventually_async(SOON, async || reader.read("k").await.is_ok_and(|value| value.as_deref() == Some(&last)))
            .await;
    }
}

// Promise: G25
#[tokio::test]
async fn copies_are_used_offline_only_if_asked() {
    let server = RedisServer::start();
    let plain: Map<String, u32> = grid(&server.url()).await.map("m").unwrap();
    plain.put("k", &1).await.unwrap();
    let (refuses, serves) = (near(&server.url()).await, near(&server.url()).await.offline(Offline::Serve(SOON)));
    for near in [&refuses, &serves] {
        eventually_async(SOON, async || is_copied(&server, near, "k").await).await;
    }
    server.kill();
    eventually_async(SOON, async || refuses.read("k").await.is_err()).await;
    assert_eq!(read(&serves, "k").await, Some(1));
    assert!(serves.get("k").await.is_err(), "a method of the map asks the store");
    server.restart();
    eventually_async(SOON, async || refuses.read("k").await.is_ok_and(|value| value.is_none())).await;
    eventually_async(SOON, async || serves.read("k").await.is_ok_and(|value| value.is_none())).await;
}

// Promise: G25
#[tokio::test]
async fn a_copy_is_not_used_beyond_its_maximum_age() {
    let server = RedisServer::start();
    let near = near(&server.url()).await.max_age(Duration::from_millis(300));
    eventually_async(SOON, async || is_copied(&server, &near, "k").await).await;
    sleep(Duration::from_millis(310)).await;
    assert!(!is_copied(&server, &near, "k").await);
}

// Promise: G25
#[tokio::test]
async fn copies_of_a_cluster_follow_a_moved_slot() {
    let cluster = RedisCluster::start(3, 0);
    let (near, other) = (near(&cluster.url()).await, near(&cluster.url()).await);
    let plain: Map<String, u32> = grid(&cluster.url()).await.map("m").unwrap();
    let slot = cluster.slot("m");
    for round in 1..4 {
        near.read("k").await.unwrap();
        other.put("k", &round).await.unwrap();
        eventually_async(SOON, async || read(&near, "k").await == Some(round)).await;
        let from = cluster.master_of(slot);
        let to = cluster.iter().find(|node| node.addr() != from.addr()).unwrap();
        move_slot(&cluster, slot, from, to);
        plain.put("k", &(round + 10)).await.unwrap();
        eventually_async(SOON, async || read(&near, "k").await == Some(round + 10)).await;
    }
}

#[tokio::test]
async fn memory_has_copies_too() {
    let near = near("memory:").await;
    for number in 0..10 {
        near.put("k", &number).await.unwrap();
        assert_eq!(read(&near, "k").await, Some(number));
        assert_eq!(read(&near, "k").await, Some(number));
    }
    near.remove("k").await.unwrap();
    assert_eq!(read(&near, "k").await, None);
}
