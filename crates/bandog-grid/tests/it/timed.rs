//! Timed maps: when entries end, who removes them, and what is reported.

use std::time::Duration;

use bandog::{
    ErrorKind,
    grid::{Life, MapEvent, MapEvents, TimedMap, Ttl, Victim},
};
use bandog_testkit::{RedisServer, Reply, eventually_async};
use tokio::{
    runtime::Builder,
    time::{sleep, timeout},
};

use crate::{SOON, grid, keys};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(600);

async fn next(events: &mut MapEvents<String, u32>) -> MapEvent<String, u32> {
    timeout(SOON, events.next()).await.expect("an event in time").expect("an open stream")
}

#[tokio::test]
async fn entries_have_the_life_of_the_handle_or_of_the_call() {
    let server = RedisServer::start();
    for url in ["memory:", &server.url()] {
        let sessions: TimedMap<String, u32> = grid(url).await.timed_map("sessions").unwrap();
        let lasting = sessions.clone().lasting(Life::idle(LONG)).unwrap();
        sessions.put("ever", &1).await.unwrap();
        lasting.put("idle", &1).await.unwrap();
        assert_eq!(lasting.insert_for("short", &1, SHORT).await.unwrap(), None);
        assert!(lasting.insert_new_for("also short", &1, SHORT).await.unwrap());
        assert_eq!(sessions.left("ever").await.unwrap(), Ttl::Unlimited);
        assert!(matches!(sessions.left("idle").await.unwrap(), Ttl::Left(left) if left <= LONG));
        sleep(SHORT * 2).await;
        assert_eq!(sessions.get("short").await.unwrap(), None);
        assert_eq!(sessions.len().await.unwrap(), 2);
        assert_eq!(lasting.update("ever", |old| old.map(|old| old + 1)).await.unwrap(), Some(2));
        assert_eq!(sessions.left("ever").await.unwrap(), Ttl::Unlimited, "a changed entry keeps its life");
        assert!(sessions.set_life("ever", SHORT).await.unwrap());
        sleep(SHORT * 2).await;
        let mut left = sessions.to_vec(10).await.unwrap();
        left.sort();
        assert_eq!(left, [("idle".to_owned(), 1)]);
        let too_long = sessions.put_for("x", &1, Duration::MAX).await.unwrap_err();
        assert_eq!(too_long.kind(), ErrorKind::Misused);
        assert!(sessions.delete().await.unwrap());
    }
    assert_eq!(keys(&server), [""; 0]);
}

/// Entries that nobody uses again go too, of several maps, with one task of one of two clients.
#[tokio::test]
async fn expired_entries_are_removed_without_a_call() {
    let server = RedisServer::start();
    let (one, other) = (grid(&server.url()).await, grid(&server.url()).await);
    let mut maps = Vec::new();
    for grid in [&one, &other] {
        for name in ["a", "b"] {
            let map: TimedMap<u32, u32> = grid.timed_map(name).unwrap();
            let entries: Vec<_> = (0..700).map(|number| (number, number)).collect();
            map.clone().lasting(SHORT).unwrap().put_all(&entries).await.unwrap();
            maps.push(map);
        }
    }
    assert!(!keys(&server).is_empty());
    eventually_async(SOON, async || keys(&server).is_empty()).await;
    drop(maps);
}

/// The task that removes entries ends with its runtime, and the next call on another one starts it again.
#[test]
fn expired_entries_are_removed_after_the_first_runtime_has_ended() {
    let server = RedisServer::start();
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let map: TimedMap<u32, u32> = first.block_on(async {
        let map = grid(&server.url()).await.timed_map("m").unwrap().lasting(SHORT).unwrap();
        map.put(&1, &1).await.unwrap();
        map
    });
    drop(first);
    runtime().block_on(async {
        map.put(&2, &2).await.unwrap();
        eventually_async(SOON, async || keys(&server).is_empty()).await;
    });
}

#[tokio::test]
async fn events_say_what_has_changed_and_where_some_are_missing() {
    let server = RedisServer::start();
    for url in ["memory:", &server.url()] {
        let grid = grid(url).await;
        let map: TimedMap<String, u32> = grid.timed_map("m").unwrap();
        let mut events = map.events().await.unwrap();
        map.put("a", &1).await.unwrap();
        map.insert("a", &2).await.unwrap();
        map.remove("a").await.unwrap();
        map.put_for("b", &3, SHORT).await.unwrap();
        assert!(matches!(next(&mut events).await, MapEvent::Created { key, value: 1 } if key == "a"));
        assert!(matches!(next(&mut events).await, MapEvent::Updated { value: 2, old: 1, .. }));
        assert!(matches!(next(&mut events).await, MapEvent::Removed { value: 2, .. }));
        assert!(matches!(next(&mut events).await, MapEvent::Created { value: 3, .. }));
        // Nobody reads it: it is reported when it is removed.
        assert!(matches!(next(&mut events).await, MapEvent::Expired { key, value: 3 } if key == "b"));

        let other: TimedMap<String, i64> = grid.timed_map("m").unwrap();
        other.put("c", &-1).await.unwrap();
        assert!(matches!(next(&mut events).await, MapEvent::Corrupt(error) if error.kind() == ErrorKind::Corrupt));
        map.bound(1, Victim::LeastRecentlyUsed).await.unwrap();
        map.put("d", &4).await.unwrap();
        assert!(matches!(next(&mut events).await, MapEvent::Created { value: 4, .. }));
        assert!(matches!(next(&mut events).await, MapEvent::Corrupt(_)), "the removed entry");

        // More events than are kept.
        for number in 0..1_100 {
            map.put("e", &number).await.unwrap();
        }
        let mut last = next(&mut events).await;
        while !matches!(last, MapEvent::Gap) {
            last = next(&mut events).await;
        }
        map.put("f", &7).await.unwrap();
        while !matches!(last, MapEvent::Created { value: 7, .. }) {
            last = next(&mut events).await;
        }
    }
}

#[tokio::test]
async fn a_lost_connection_of_events_is_a_gap() {
    let server = RedisServer::start();
    let map: TimedMap<String, u32> = grid(&server.url()).await.timed_map("m").unwrap();
    let mut events = map.events().await.unwrap();
    server.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert!(matches!(next(&mut events).await, MapEvent::Gap));
    loop {
        map.put("a", &1).await.unwrap();
        match timeout(SHORT, events.next()).await {
            Ok(Some(MapEvent::Created { .. } | MapEvent::Updated { .. })) => break,
            Ok(Some(MapEvent::Gap)) | Err(_) => {}
            Ok(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_user_who_may_not_subscribe_is_refused() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "low", "on", ">p", "~*", "+@all", "resetchannels"]);
    let map: TimedMap<String, u32> = grid(&server.url().replace("://", "://low:p@")).await.timed_map("m").unwrap();
    assert_eq!(map.events().await.unwrap_err().kind(), ErrorKind::Denied);
    map.put_for("a", &1, LONG).await.unwrap();
    assert_eq!(map.get("a").await.unwrap(), Some(1));
}

/// On a server that can, it removes entries itself, and Redisson's other layout is a plain map. Another one refuses each write
/// with a ttl, and changes nothing.
// Promise: G24
#[tokio::test]
async fn the_server_removes_entries_of_a_native_map() {
    let server = RedisServer::start();
    let map: TimedMap<String, u32> = grid(&server.url()).await.timed_map("m").unwrap().native();
    map.put("stays", &1).await.unwrap();
    assert_eq!(map.put_for("idle", &1, Life::idle(LONG)).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(map.bound(1, Victim::LeastRecentlyUsed).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(map.events().await.unwrap_err().kind(), ErrorKind::Unsupported);
    if server.cmd(&["COMMAND", "INFO", "HPTTL"]) == Reply::Array(vec![Reply::Nil]) {
        for refused in [
            map.put_for("a", &1, LONG).await.unwrap_err(),
            map.insert_for("a", &1, LONG).await.unwrap_err(),
            map.insert_new_for("a", &1, LONG).await.unwrap_err(),
            map.set_life("stays", LONG).await.unwrap_err(),
        ] {
            assert!(refused.kind() == ErrorKind::Unsupported && !refused.maybe_applied(), "{refused}");
        }
        assert_eq!(map.to_vec(10).await.unwrap(), [("stays".to_owned(), 1)]);
        return;
    }
    map.put_for("a", &1, LONG).await.unwrap();
    assert_eq!(map.insert_for("a", &2, SHORT).await.unwrap(), Some(1));
    assert!(map.insert_new_for("b", &5, LONG).await.unwrap());
    assert!(!map.insert_new_for("b", &6, SHORT).await.unwrap());
    assert_eq!(map.add("b", 2).await.unwrap(), 7);
    assert!(map.swap("b", Some(&7), Some(&8)).await.unwrap());
    assert!(matches!(map.left("b").await.unwrap(), Ttl::Left(left) if left <= LONG), "a changed entry keeps its life");
    assert_eq!(map.clone().lasting(SHORT).unwrap().add("c", 1).await.unwrap(), 1);
    assert!(matches!(map.left("c").await.unwrap(), Ttl::Left(_)));
    assert_eq!((map.left("stays").await.unwrap(), map.left("x").await.unwrap()), (Ttl::Unlimited, Ttl::Absent));
    eventually_async(SOON, async || server.cmd(&["HLEN", "m"]) == Reply::Int(2)).await;
    assert!(map.set_life("b", Life::default()).await.unwrap());
    assert_eq!(map.left("b").await.unwrap(), Ttl::Unlimited);
    map.put("b", &9).await.unwrap();
    assert_eq!(server.cmd(&["HGET", "m", "b"]).text(), "9");
}

/// Redisson's `putIfAbsent` writes a time into the set of idle entries for an entry that has no idle time.
// Promise: G24
#[tokio::test]
async fn an_idle_time_of_an_entry_without_one_is_no_end() {
    let server = RedisServer::start();
    let map: TimedMap<String, u32> = grid(&server.url()).await.timed_map("m").unwrap();
    map.put_for("a", &1, LONG).await.unwrap();
    server.cmd(&["ZADD", "redisson__idle__set:{m}", "1", "a"]);
    assert_eq!(map.get("a").await.unwrap(), Some(1));
    assert_eq!(map.len().await.unwrap(), 1);
    assert_eq!(server.cmd(&["ZSCORE", "redisson__idle__set:{m}", "a"]), Reply::Nil, "the time is removed");
}

/// A field that another program has written without the layout is a value without an end.
#[tokio::test]
async fn a_foreign_field_is_a_value_without_an_end() {
    let server = RedisServer::start();
    let map: TimedMap<String, u32> = grid(&server.url()).await.timed_map("m").unwrap();
    map.put_for("a", &1, LONG).await.unwrap();
    server.cmd(&["HSET", "m", "number", "7", "text", "x", "long", "sixteen bytes and more"]);
    assert_eq!((map.get("number").await.unwrap(), map.left("number").await.unwrap()), (Some(7), Ttl::Unlimited));
    assert_eq!(map.get("text").await.unwrap_err().kind(), ErrorKind::Corrupt);
    let all = map.get_all(&["a".to_owned(), "long".to_owned()]).await.unwrap();
    assert!(matches!(&all[..], [Ok(Some(1)), Err(error)] if error.kind() == ErrorKind::Corrupt), "{all:?}");
    map.put_for("long", &2, LONG).await.unwrap();
    assert!(matches!(map.left("long").await.unwrap(), Ttl::Left(_)));
}
