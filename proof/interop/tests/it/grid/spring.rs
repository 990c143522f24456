//! A service with Spring Boot and a program with bandog use one cache.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use bandog::grid::{
    Life, SpringCache, Ttl,
    codec::{Decode, Encode, Kryo5, NullValue, TaggedJson},
};

use super::side::{HOUR, Side, s};
use crate::neighbour::Program;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_with_spring_shares_its_caches() {
    let side = Side::start_with(Program::Spring, 1).await;
    caches(&side, "kryo5", Kryo5).await;
    caches(&side, "json", TaggedJson::of("none")).await;
}

async fn caches<C>(side: &Side, codec: &str, c: C)
where
    C: NullValue + Encode<String> + Decode<String>,
    C::Keys: Encode<i64>,
{
    let kind = &*format!("cache {codec}");
    for name in ["plain", "timed"] {
        let cache: SpringCache<i64, String> = side.grid().spring_cache(name).unwrap();
        let cache = cache.codec(c.clone());
        let life = Life { ttl: Some(HOUR), idle: Some(HOUR) };
        let cache = if name == "timed" { cache.lasting(life).unwrap() } else { cache };
        both_ways(side, (kind, name), &cache, c.clone()).await;
    }
}

async fn both_ways<C>(side: &Side, (kind, name): (&str, &str), cache: &SpringCache<i64, String, C>, codec: C)
where
    C: NullValue + Encode<String> + Decode<String>,
    C::Keys: Encode<i64>,
{
    let java = |verb: &str, args: &[&str]| side.java(kind, verb, name, args);
    let loads = Arc::new(AtomicU64::new(0));
    let load = |value: Option<&str>| {
        let (loads, value) = (loads.clone(), value.map(str::to_owned));
        async move |_| {
            loads.fetch_add(1, Relaxed);
            Ok::<_, std::io::Error>(value)
        }
    };
    let find = async |key: i64, value: Option<&str>| {
        cache.get_or_find(&key, load(value)).await.unwrap().map(|value| (*value).clone())
    };
    // Java loads, and bandog finds; the reverse; also that there is no value.
    java("source", &["l1", "sé 1"]);
    assert_eq!(java("find", &["l1"]), s("é 1"));
    assert_eq!(find(1, None).await.as_deref(), Some("é 1"), "{kind} {name}");
    assert_eq!(java("find", &["l-2"]), "null");
    assert_eq!(find(-2, Some("late")).await, None, "{kind} {name}: Java's NullValue");
    let theirs = java("loads", &[]);
    assert_eq!(find(3, Some("ours")).await.as_deref(), Some("ours"));
    assert_eq!(java("find", &["l3"]), s("ours"), "{kind} {name}");
    java("source", &["l4", "slate"]);
    assert_eq!(find(4, None).await, None);
    assert_eq!(java("find", &["l4"]), "null", "{kind} {name}: the NullValue of bandog");
    assert_eq!((java("loads", &[]), loads.load(Relaxed)), (theirs, 2), "{kind} {name}: nothing was loaded twice");
    // Writes and removals of each.
    assert_eq!(java("put", &["l3", "snew"]), s("new"));
    assert_eq!(cache.get(&3).await.unwrap().as_deref(), Some("new"));
    cache.put(&3, &"newer".to_owned()).await.unwrap();
    assert_eq!(java("find", &["l3"]), s("newer"));
    assert_eq!(java("evict", &["l3"]), "evicted");
    assert_eq!(cache.get(&3).await.unwrap(), None);
    cache.remove(&1).await.unwrap();
    java("source", &["l1", "schanged"]);
    assert_eq!(java("find", &["l1"]), s("changed"), "{kind} {name}");
    // An entry of each has the life of the cache.
    find(5, Some("5")).await;
    if name == "timed" {
        let map = side.grid().timed_map::<i64, String>(name).unwrap().codec(codec);
        assert!(matches!(map.left(&1).await.unwrap(), Ttl::Left(left) if left <= HOUR), "{kind}: Java's");
        assert!(matches!(map.left(&5).await.unwrap(), Ttl::Left(left) if left <= HOUR), "{kind}: ours");
    } else {
        let unexpected = side.server.keys().into_iter().filter(|key| side.server.pttl(key) == -1 && key != name);
        assert_eq!(unexpected.collect::<Vec<_>>(), Vec::<String>::new(), "all other keys expire");
    }
    assert_eq!(java("clear", &[]), "cleared");
    assert!(!cache.map().exists().await.unwrap(), "{kind} {name}");
    find(6, Some("6")).await;
    cache.clear().await.unwrap();
    java("source", &["l6", "sagain"]);
    assert_eq!(java("find", &["l6"]), s("again"), "{kind} {name}");
    java("clear", &[]);
}
