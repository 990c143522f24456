//! The traps of Redisson's objects that need a JVM: see the table in `grid`.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use bandog::{
    ErrorKind,
    grid::{
        Bloom, Deque, List, Map, Multimap, Set, SortedSet, Ttl, Value,
        codec::{Bytes, Kryo5, Text, TypedJson},
    },
};
use bandog_testkit::{Process, eventually};
use serde::{Deserialize, Serialize};

use super::side::{HOUR, Side, s};
use crate::neighbour::SOON;

const SHORT: Duration = Duration::from_millis(300);

/// Traps 1, 2, 3 and 6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_and_blocks_no_connection() {
    let side = Side::start(1).await;
    side.server.cmd(&["CONFIG", "RESETSTAT"]);
    let queue: Deque<String> = side.grid().deque("queue").unwrap();
    let set: SortedSet<String> = side.grid().sorted_set("sorted").unwrap();
    for wait in [Duration::ZERO, Duration::from_nanos(1), SHORT] {
        assert_eq!(queue.pop_wait(wait).await.unwrap(), None);
        assert_eq!(queue.pop_back_wait(wait).await.unwrap(), None);
        assert!(queue.take(wait).await.unwrap().is_none());
        assert_eq!(set.pop_min_wait(wait).await.unwrap(), None);
        assert_eq!(set.pop_max_wait(wait).await.unwrap(), None);
    }
    for command in ["blpop", "brpop", "blmove", "blmpop", "bzpopmin", "bzpopmax", "bzmpop", "psubscribe"] {
        assert_eq!(side.server.calls(command), 0, "{command}");
    }
    // Java's wait of 0 ms does not end before an element comes.
    let polls = side.send("queue text-json", "poll-for", "queue", &["0"]);
    eventually(SOON, || side.server.info("clients", "blocked_clients") == "1");
    queue.push("a").await.unwrap();
    assert_eq!(polls.answer(SOON), "sa");
}

/// Trap 3: an element does not go to a process that waits, but has stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_process_that_waits_gets_nothing() {
    let side = Side::start(1).await;
    let queue: Deque<String> = side.grid().deque("queue").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bandog-interop-consumer"));
    command.args([&side.server.url(), "queue", "take"]);
    let consumer = Process::spawn(&command);
    consumer.stdout_line("ready", SOON);
    queue.push("first").await.unwrap();
    consumer.stdout_line("done first", SOON);
    consumer.stop();
    for number in 0..20 {
        queue.push(&format!("{number}")).await.unwrap();
    }
    for number in 0..20 {
        assert_eq!(side.java("queue text-json", "poll", "queue", &[]), format!("s{number}"));
    }
    consumer.kill();
}

/// Trap 13.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bloom_filter_with_other_sizes_is_refused_and_not_read() {
    let side = Side::start(1).await;
    let java = |verb: &str, args: &[&str]| side.java("bloom kryo5", verb, "resized", args);
    let open = side.grid().bloom::<String>("resized").unwrap().codec(Kryo5);
    let bloom: Bloom<String, Kryo5> = open.create_or_open(1_000, 0.01).await.unwrap();
    bloom.insert("a").await.unwrap();
    // Java keeps its own sizes after `tryInit` has returned false: it does not find what is there.
    assert_eq!(java("init", &["50", "0.3"]), "bfalse");
    assert_eq!(java("contains", &["sa"]), "bfalse");
    assert!(java("add", &["sb"]).starts_with("error "));
    // Rust refuses other sizes, or opens the filter with those that it has.
    assert_eq!(open.create_or_open(50, 0.3).await.unwrap_err().kind(), ErrorKind::Misused);
    let opened = open.open().await.unwrap().expect("exists");
    assert!(opened.contains("a").await.unwrap());
    assert!(!opened.contains("b").await.unwrap());
    // Java has created it again with other sizes: the old handle does not answer.
    assert!(bloom.delete().await.unwrap());
    assert_eq!(java("init", &["50", "0.3"]), "btrue");
    assert_eq!(bloom.contains("a").await.unwrap_err().kind(), ErrorKind::Misused);
    assert_eq!(bloom.insert("a").await.unwrap_err().kind(), ErrorKind::Misused);
}

/// Trap 13: Java's first item makes the bits without a ttl, so they outlive the sizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bits_that_outlive_a_bloom_filter_are_not_those_of_the_next_one() {
    let side = Side::start(1).await;
    let java = |verb: &str, args: &[&str]| side.java("bloom kryo5", verb, "outlived", args);
    let open = side.grid().bloom::<String>("outlived").unwrap().codec(Kryo5);
    let bloom = open.create_or_open(1_000, 0.01).await.unwrap();
    assert!(bloom.expire(Duration::from_secs(2)).await.unwrap());
    assert_eq!(java("add", &["sa"]), "btrue");
    assert_eq!(side.server.pttl("outlived"), -1);
    eventually(SOON, || !side.server.keys().contains(&"{outlived}:config".to_owned()));
    assert_eq!(side.keys_of("outlived"), ["outlived"]);
    assert!(!bloom.exists().await.unwrap());
    assert_eq!(bloom.contains("a").await.unwrap_err().kind(), ErrorKind::Misused);
    let next = open.create_or_open(1_000, 0.01).await.unwrap();
    assert!(!next.contains("a").await.unwrap());
    assert_eq!(next.count().await.unwrap(), 0);
    // The first item of Rust gets the ttl.
    assert!(next.expire(HOUR).await.unwrap());
    assert!(next.insert("b").await.unwrap());
    assert!(side.server.pttl("outlived") > 0);
}

/// Trap 14.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_type_of_a_number_is_a_part_of_its_identity() {
    let side = Side::start(1).await;
    let java = |verb: &str, args: &[&str]| side.java("setmultimapcache kryo5", verb, "multimap", args);
    let ints: Multimap<i32, String, Kryo5> = side.grid().set_multimap("multimap").unwrap().codec(Kryo5);
    let longs: Multimap<i64, String, Kryo5> = side.grid().set_multimap("multimap").unwrap().codec(Kryo5);
    java("put", &["i5", "sint"]);
    java("put", &["l5", "slong"]);
    assert_eq!(
        (ints.get(&5).await.unwrap(), longs.get(&5).await.unwrap()),
        (vec!["int".to_owned()], vec!["long".into()])
    );
    ints.insert(&5, "int2").await.unwrap();
    assert_eq!(java("all", &["l5"]), "slong");
    assert_eq!(java("key-size", &[]), "i2");

    let init = ["1000", "0.0001"];
    assert_eq!(side.java("bloom kryo5", "init", "typed", &init), "btrue");
    side.java("bloom kryo5", "add", "typed", &["i5"]);
    let ints = side.grid().bloom::<i32>("typed").unwrap().codec(Kryo5).open().await.unwrap().expect("exists");
    let longs = side.grid().bloom::<i64>("typed").unwrap().codec(Kryo5).open().await.unwrap().expect("exists");
    assert_eq!((ints.contains(&5).await.unwrap(), longs.contains(&5).await.unwrap()), (true, false));

    // The same text has other bytes with another codec.
    let text: Set<String, Text> = side.grid().set("set").unwrap().codec(Text);
    side.java("set typed-json", "add", "set", &["sk"]);
    assert!(!text.contains("k").await.unwrap());
    assert!(text.contains("\"k\"").await.unwrap());
}

/// Trap 15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kryo_text_in_another_form_is_read_and_not_found() {
    let side = Side::start(1).await;
    let value: Value<String, Kryo5> = side.grid().value("value").unwrap().codec(Kryo5);
    let bytes: Value<Vec<u8>, Bytes> = side.grid().value("value").unwrap().codec(Bytes);
    // "abc" with its length, which Kryo writes for longer texts only.
    bytes.set(&[3, 0x84, b'a', b'b', b'c'][..]).await.unwrap();
    assert_eq!(value.get().await.unwrap().as_deref(), Some("abc"));
    assert_eq!(side.java("bucket kryo5", "get", "value", &[]), "sabc");
    assert!(!value.swap(Some("abc"), Some("x")).await.unwrap());
    assert_eq!(side.java("bucket kryo5", "cas", "value", &["sabc", "sx"]), "bfalse");
    // A character of 4 bytes, which Kryo writes as two of 3 bytes: Java reads another text, and Rust refuses the bytes.
    bytes.set(&[&[3, 0x83][..], "😀".as_bytes()].concat()[..]).await.unwrap();
    let theirs = side.java("bucket kryo5", "get", "value", &[]);
    assert_ne!(theirs, s("😀"));
    assert_eq!(value.get().await.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// `bandog.codecs.Address`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
struct Address {
    zip: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    city: Option<String>,
}

/// Trap 16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_of_both_sides_has_equal_bytes() {
    let side = Side::start(1).await;
    let java = |verb: &str, args: &[&str]| side.java("set typed-json", verb, "set", args);
    let set: Set<Address, TypedJson> = side.grid().set("set").unwrap().codec(TypedJson);
    for (zip, city) in ["Ulm", "", "😀é", "q\"\\/\u{1f}\u{1}\u{7f}\u{2028}"].into_iter().enumerate() {
        let zip = i32::try_from(zip).unwrap();
        let address = Address { zip, city: (!city.is_empty()).then(|| city.to_owned()) };
        assert_eq!(java("add", &[&format!("a{city},{zip}")]), "btrue");
        assert!(set.contains(&address).await.unwrap(), "{address:?}");
        assert!(set.remove(&address).await.unwrap());
        assert!(set.insert(&address).await.unwrap());
        assert_eq!(java("contains", &[&format!("a{city},{zip}")]), "btrue", "{address:?}");
    }
    let numbers: Set<f64, TypedJson> = side.grid().set("numbers").unwrap().codec(TypedJson);
    for number in [1.0, 0.1, 1e10, 1e-5, 1e7, 123_456.789, -0.0, f64::MAX, f64::NAN, f64::INFINITY] {
        let word = match number {
            number if number.is_infinite() => "dInfinity".to_owned(),
            number => format!("d{number}"),
        };
        assert_eq!(side.java("set typed-json", "add", "numbers", &[&word]), "btrue");
        assert!(numbers.contains(&number).await.unwrap(), "{number}");
    }
}

/// Trap 17: Java's read of a whole map fails with one foreign field. The stream of Rust has one error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_foreign_field_is_one_error() {
    let side = Side::start(1).await;
    let map: Map<String, String, Kryo5> = side.grid().map("map").unwrap().codec(Kryo5);
    side.java("map kryo5", "put", "map", &["sa", "sb"]);
    side.server.cmd(&["HSET", "map", "plain", "text"]);
    assert!(side.java("map kryo5", "all", "map", &[]).starts_with("error "));
    assert_eq!(map.get_all(&["a".to_owned(), "plain".to_owned()]).await.unwrap().len(), 2);
    assert_eq!(map.to_vec(10).await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(map.get("a").await.unwrap().as_deref(), Some("b"));
}

/// Trap 18.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_removes_the_ttl_on_both_sides() {
    let side = Side::start(1).await;
    let java = |verb: &str, args: &[&str]| side.java("bucket kryo5", verb, "value", args);
    let value: Value<String, Kryo5> = side.grid().value("value").unwrap().codec(Kryo5);
    java("set-for", &["sa", "3600000"]);
    assert!(matches!(value.ttl().await.unwrap(), Ttl::Left(_)));
    java("set", &["sb"]);
    assert_eq!(value.ttl().await.unwrap(), Ttl::Unlimited);
    value.set_for("c", HOUR).await.unwrap();
    java("set-keep", &["sd"]);
    value.set_keep("e").await.unwrap();
    assert_ne!(java("ttl", &[]), "l-1");
    value.set("f").await.unwrap();
    assert_eq!(java("ttl", &[]), "l-1");
    java("set-null", &[]);
    assert!(!value.exists().await.unwrap());

    let number = side.grid().float_counter("number").unwrap();
    for each in [1e300, 1e-300, 1e-7, 1.7976931348623157e308] {
        side.java("double", "set", "number", &[&each.to_string()]);
        assert_eq!(number.get().await.unwrap(), each);
        number.set(each).await.unwrap();
        assert_eq!(side.java("double", "get", "number", &[])[1..].parse::<f64>().unwrap(), each);
    }
    for each in [f64::NAN, f64::INFINITY] {
        assert!(number.set(each).await.is_err());
    }
    assert!(side.java("double", "set", "number", &["NaN"]).starts_with("error "));
}

/// Trap 19: the names of all keys of objects whose names contain a brace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_with_braces_have_the_keys_of_java() {
    let side = Side::start(1).await;
    let name = "{t}n";
    let map: Multimap<String, String, Kryo5> = side.grid().list_multimap(name).unwrap().codec(Kryo5);
    let java = |verb: &str, args: &[&str]| side.java("listmultimapcache kryo5", verb, name, args);
    java("put", &["sk", "sa"]);
    map.insert("k", "b").await.unwrap();
    assert!(map.expire_key("k", HOUR).await.unwrap());
    assert_eq!(java("all", &["sk"]), "sa\tsb");
    // The index, the ttls and the values of one key.
    assert_eq!(side.keys_of(name).len(), 3, "{:?}", side.keys_of(name));
    assert!(map.delete().await.unwrap());
    assert_eq!(side.keys_of(name), Vec::<String>::new());

    let map: Map<String, String, Kryo5> = side.grid().map(name).unwrap().codec(Kryo5);
    let guard = map.lock("k").unwrap().lock().await.unwrap();
    assert_eq!(side.java("map kryo5", "lock", name, &["sk"]), "bfalse");
    guard.release().await.unwrap();

    let filter = side.grid().bloom::<String>("{t}bloom").unwrap().codec(Kryo5).create_or_open(100, 0.01).await.unwrap();
    filter.insert("a").await.unwrap();
    assert_eq!(side.java("bloom kryo5", "contains", "{t}bloom", &["sa"]), "btrue");
    let ids = side.grid().ids("{t}ids").unwrap();
    assert_eq!(ids.next().await.unwrap(), 1);
    assert_eq!(side.java("ids", "next", "{t}ids", &[]), "l5001");

    let queue: List<String> = side.grid().list("{t}list").unwrap();
    queue.push("a").await.unwrap();
    assert_eq!(side.java("list text-json", "all", "{t}list", &[]), "sa");
}

/// Trap 19: Java's evictor leaves the values of an expired key, if the name contains a brace. Java reads them again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_the_evictor_of_java_has_left_do_not_come_back() {
    let side = Side::start(1).await;
    for (form, is_set) in [("set", true), ("list", false)] {
        let (kind, name) = (&*format!("{form}multimapcache kryo5"), &*format!("{{t}}{form}"));
        let grid = side.grid();
        let map: Multimap<String, String, Kryo5> =
            if is_set { grid.set_multimap(name) } else { grid.list_multimap(name) }.unwrap().codec(Kryo5);
        side.java(kind, "put", name, &["sk", "sold"]);
        assert_eq!(side.java(kind, "expire-key", name, &["sk", "10"]), "btrue");
        eventually(SOON * 3, || side.server.cmd(&["EXISTS", name]).int() == 0);
        assert_eq!((side.keys_of(name).len(), side.java(kind, "all", name, &["sk"])), (1, "sold".into()));
        assert_eq!(map.get("k").await.unwrap(), Vec::<String>::new());
        assert!(!map.contains("k", "old").await.unwrap());
        assert!(map.insert("k", "new").await.unwrap());
        assert_eq!(map.get("k").await.unwrap(), ["new"]);
        assert_eq!(side.java(kind, "all", name, &["sk"]), "snew");
        assert!(map.delete().await.unwrap());
        assert_eq!(side.keys_of(name), Vec::<String>::new());
    }
}

/// Java leaves the ttl of a key whose last value it removes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ttl_without_a_key_is_not_counted() {
    let side = Side::start(1).await;
    let java = |verb: &str, args: &[&str]| side.java("setmultimapcache kryo5", verb, "multimap", args);
    let map: Multimap<String, String, Kryo5> = side.grid().set_multimap("multimap").unwrap().codec(Kryo5);
    java("put", &["sk", "sv"]);
    assert_eq!(java("expire-key", &["sk", "40"]), "btrue");
    assert_eq!(java("remove", &["sk", "sv"]), "btrue");
    java("put", &["sother", "sv"]);
    let ttls = "{multimap}:redisson_set_multimap_ttl";
    let begin = Instant::now();
    eventually(SOON, || begin.elapsed() > Duration::from_millis(60));
    assert_eq!(side.server.cmd(&["ZCARD", ttls]).int(), 1);
    assert_eq!((map.keys_len().await.unwrap(), java("key-size", &[])), (1, "i1".into()));
}
