//! Lists of objects beside data of other programs.

use bandog_core::{
    Pattern,
    structures::{Cursor, Structures},
};
use bandog_testkit::{RedisCluster, RedisServer};

use crate::at;

/// The names of all objects and their structures.
async fn list(structures: &dyn Structures) -> Vec<(String, &'static str)> {
    let (mut found, mut next) = (Vec::new(), Some(Cursor::default()));
    while let Some(from) = next {
        let (rows, after) = structures.objects(&Pattern::all(), &from, 100).await.unwrap();
        found.extend(rows.into_iter().map(|row| (row.key.to_string(), row.structure.name())));
        next = after;
    }
    found.sort();
    found
}

/// Keys that look like those of objects, locks and latches.
#[tokio::test]
async fn other_data_is_listed_as_what_it_is() {
    let server = RedisServer::start();
    let owner = "0c1d2e3f-0000-4000-8000-000000000001:57";
    for command in [
        "SET x 1",
        "SET {x}:config text",
        "SET y 1",
        "HSET {y}:config a b",
        "SET {b} bits",
        "HSET {b}:config hashIterations 2",
        "RPUSH bandog:taken:{q} a",
        "HSET bandog:again:{q} a b",
        "SET latch 2",
        "ZADD bandog:ops:{latch} 1 a",
        "SET l{1} 2",
        "ZADD bandog:ops:l{1} 1 a",
        &format!("HSET mutex {owner} 1"),
        &format!("HSET map {owner} ann"),
        "XADD stream * a b",
    ] {
        server.cmd(&command.split(' ').collect::<Vec<_>>());
    }
    let found = list(&*at(&server.url())).await;
    let found: Vec<_> = found.iter().map(|(name, structure)| (name.as_str(), *structure)).collect();
    let known: Vec<_> = found.into_iter().filter(|(name, _)| *name != "stream").collect();
    assert_eq!(known, [("map", "map"), ("x", "value"), ("y", "value"), ("{b}", "bloom")]);
}

/// No object of a cluster has a name whose keys would be in several slots.
#[tokio::test]
async fn a_name_of_several_slots_does_not_fail_the_list() {
    let cluster = RedisCluster::start(3, 0);
    for name in ["a{b", "{}x", "ok"] {
        cluster.master_of(cluster.slot(name)).cmd(&["HSET", name, "a", "1"]);
    }
    assert_eq!(list(&*at(&cluster.url())).await, [("ok".to_owned(), "map")]);
}
