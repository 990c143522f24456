//! Records: their layout, the answers of swaps, and their cost.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bandog_core::{
    Claim, Error, ErrorKind, Holding, Key, Line, Pattern, Record, Records, Result, Swap, Swapped, Version,
};
use bandog_redis::Redis;
use bandog_testkit::RedisServer;

use crate::help::{claim, fences, operator, release};

const RECORD: &str = "bandog:record:{r}";
const HISTORY: &str = "bandog:history:{r}";
const INDEX: &str = "bandog:records";

#[tokio::test]
async fn a_record_is_a_hash_with_a_history_beside_it_and_a_name_in_the_index() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let first = create(&redis, "r", "one").await;
    assert_eq!(server.keys(), [RECORD, INDEX]);
    assert_eq!(server.hash(RECORD), [("v".into(), first.to_string()), ("b".into(), "one".into())].into());
    assert_eq!(server.cmd(&["SMEMBERS", INDEX]).texts(), ["r"]);
    let second =
        must_swap(&redis, &with_lines(from("r", first, "two"), &[("ok:0", "fine"), ("ok:1", "")])).await.unwrap();
    assert!(second > first);
    assert_eq!(server.hash(RECORD), [("v".into(), second.to_string()), ("b".into(), "two".into())].into());
    assert_eq!(server.hash(HISTORY), [("ok:0".into(), "fine".into()), ("ok:1".into(), String::new())].into());
    for key in [RECORD, HISTORY, INDEX] {
        assert_eq!(server.pttl(key), -1, "{key}");
    }
    assert_eq!(must_swap(&redis, &deletion("r", second)).await, None);
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn a_swap_of_a_record_costs_two_commands() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let held = claim("l");
    fences(&redis, &held).await;
    let mut swaps = Vec::new();
    for number in 0..100 {
        let name = format!("r{number}");
        let version = create(&redis, &name, "one").await;
        swaps.push(Swap {
            held: Some(holding(&held)),
            not_before: Some(UNIX_EPOCH + Duration::from_secs(1)),
            ..from(&name, version, "two")
        });
    }
    server.cmd(&["CONFIG", "RESETSTAT"]);
    for answer in redis.swap(&swaps).await.unwrap().each {
        assert!(matches!(answer, Ok(Swapped::Done(Some(_)))), "{answer:?}");
    }
    for (command, calls) in [("evalsha", 1), ("time", 1), ("hexists", 1), ("hget", 100), ("hset", 100), ("sadd", 0)] {
        assert_eq!(server.calls(command), calls, "{command}");
    }
}

#[tokio::test]
async fn a_swap_from_another_version_returns_the_present_record() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let version = create(&redis, "r", "one").await;
    let present = Record { version, value: "one".into() };
    let older = Version::new(version.get() - 1).unwrap();
    for swap in [
        from("r", older, "two"),
        with_lines(from("r", older, "two"), &[("ok:0", "x")]),
        Swap::new(key("r"), None, "two"),
        deletion("r", older),
        Swap { to: None, ..Swap::new(key("r"), None, "") },
    ] {
        assert_eq!(swap_one(&redis, &swap).await.unwrap(), Swapped::Differs(Some(present.clone())), "{swap:?}");
    }
    for swap in [from("none", version, "two"), deletion("none", version)] {
        assert_eq!(swap_one(&redis, &swap).await.unwrap(), Swapped::Differs(None), "{swap:?}");
    }
    assert_eq!(
        must_swap(&redis, &Swap { to: None, ..Swap::new(key("none"), None, "") }).await,
        None,
        "the record does not exist"
    );
    assert_eq!(server.keys(), [RECORD, INDEX]);
}

// Promise: RD13
#[tokio::test]
async fn conditions_are_checked_in_their_order_and_change_nothing() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let (held, other) = (claim("l"), claim("l"));
    fences(&redis, &held).await;
    let version = create(&redis, "r", "one").await;
    let far = redis.read(&[], &[]).await.unwrap().now + Duration::from_secs(60);
    for make in [
        |version| from("r", version, "two"),
        |version| with_lines(from("r", version, "two"), &[("ok:0", "x")]),
        |version| deletion("r", version),
        |_| Swap::new(key("new"), None, "two"),
    ] {
        let swap = make(version);
        let early = Swap { not_before: Some(far), held: Some(holding(&other)), ..swap.clone() };
        let Swapped::Early(time_left) = swap_one(&redis, &early).await.unwrap() else { panic!("{early:?}") };
        assert!(time_left <= Duration::from_millis(60_001) && time_left > Duration::from_secs(50), "{time_left:?}");
        let never = Swap { not_before: Some(UNIX_EPOCH + Duration::from_secs(u64::MAX >> 2)), ..swap.clone() };
        assert!(matches!(swap_one(&redis, &never).await.unwrap(), Swapped::Early(_)));
        let stale = Swap { not_before: Some(UNIX_EPOCH), held: Some(holding(&other)), ..swap.clone() };
        assert_eq!(swap_one(&redis, &stale).await.unwrap(), Swapped::NotHeld);
        let nowhere = Swap { held: Some(holding(&claim("free"))), ..swap };
        assert_eq!(swap_one(&redis, &nowhere).await.unwrap(), Swapped::NotHeld);
    }
    assert_eq!(value(&redis, "r").await.unwrap(), "one");
    assert_eq!(server.cmd(&["EXISTS", HISTORY]).int(), 0);
    let mine = Swap { not_before: Some(UNIX_EPOCH), held: Some(holding(&held)), ..from("r", version, "two") };
    let version = must_swap(&redis, &mine).await.unwrap();
    release(&redis, &held).await.unwrap();
    let mine = Swap { held: Some(holding(&held)), ..from("r", version, "three") };
    assert_eq!(swap_one(&redis, &mine).await.unwrap(), Swapped::NotHeld);
}

#[tokio::test]
async fn not_before_is_exact_to_the_millisecond() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let now = redis.read(&[], &[]).await.unwrap().now;
    let soon = now + Duration::from_millis(200);
    let swap = Swap { not_before: Some(soon), ..Swap::new(key("r"), None, "x") };
    loop {
        match swap_one(&redis, &swap).await.unwrap() {
            Swapped::Early(time_left) => tokio::time::sleep(time_left).await,
            Swapped::Done(Some(version)) => {
                let at = UNIX_EPOCH + Duration::from_micros(version.get());
                return assert!(at >= soon && at < soon + Duration::from_secs(1), "{at:?} for {soon:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_first_version_is_the_servers_time_and_the_next_is_never_lower() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let before = micros(SystemTime::now());
    let version = create(&redis, "r", "one").await;
    assert!((before..=micros(SystemTime::now())).contains(&version.get()), "{version}");
    let ahead = version.get() + 3_600_000_000;
    server.cmd(&["HSET", RECORD, "v", &ahead.to_string()]);
    let next = must_swap(&redis, &from("r", Version::new(ahead).unwrap(), "two")).await.unwrap();
    assert_eq!(next.get(), ahead + 1);
    assert_eq!(server.hash(RECORD)["v"], (ahead + 1).to_string());
    // The greatest numbers that Lua represents exactly are used, and the number after them is refused.
    let last = (1_u64 << 53) - 2;
    server.cmd(&["HSET", RECORD, "v", &last.to_string()]);
    let next = must_swap(&redis, &from("r", Version::new(last).unwrap(), "three")).await.unwrap();
    assert_eq!(next.get(), last + 1);
    for swap in [from("r", next, "four"), with_lines(from("r", next, "four"), &[("ok:0", "x")])] {
        corrupt(swap_one(&redis, &swap).await, "r");
    }
    assert_eq!(value(&redis, "r").await.unwrap(), "three");
    assert_eq!(server.cmd(&["EXISTS", HISTORY]).int(), 0);
}

// Promise: RD15
#[tokio::test]
async fn versions_rise_after_any_loss_of_data() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let mut last = create(&redis, "r", "x").await;
    let mut next = async |redis: &Redis| {
        let version = bandog_testkit::eventually_async(crate::help::SOON, async || {
            match swap_one(redis, &Swap::new(key("r"), None, "x")).await {
                Ok(Swapped::Done(version)) => version,
                _ => None,
            }
        })
        .await;
        assert!(version > last, "{version} after {last}");
        last = version;
    };
    must_swap(&redis, &deletion("r", read_one(&redis, "r").await.unwrap().unwrap().version)).await;
    next(&redis).await;
    server.cmd(&["DEL", RECORD]);
    next(&redis).await;
    server.cmd(&["FLUSHALL"]);
    next(&redis).await;
    server.restart();
    next(&redis).await;
}

// Promise: RD13
#[tokio::test]
async fn bad_records_do_not_stop_the_swaps_and_reads_of_others() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let names: Vec<String> = (0..1000).map(|number| format!("r{number}")).collect();
    let bad = [("r7", "text"), ("r300", "hash"), ("r512", "list"), ("r999", "text")];
    for (name, kind) in bad {
        let key = format!("bandog:record:{{{name}}}");
        match kind {
            "text" => server.cmd(&["SET", &key, "mine"]),
            "hash" => server.cmd(&["HSET", &key, "mine", "1"]),
            _ => server.cmd(&["RPUSH", &key, "mine"]),
        };
    }
    let is_bad = |name: &str| bad.iter().any(|(bad, _)| *bad == name);
    let swaps: Vec<Swap> = names.iter().map(|name| Swap::new(key(name), None, name.as_str())).collect();
    let answers = redis.swap(&swaps).await.unwrap().each;
    assert_eq!(answers.len(), 1000);
    let mut next = Vec::new();
    for (name, answer) in names.iter().zip(answers) {
        if is_bad(name) {
            denied(answer, name);
        } else {
            let Ok(Swapped::Done(Some(version))) = answer else { panic!("{name}: {answer:?}") };
            next.push(from(name, version, &format!("{name} again")));
        }
    }
    next.insert(500, from("r512", Version::new(1).unwrap(), "x"));
    let answers = redis.swap(&next).await.unwrap().each;
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Ok(Swapped::Done(_)))).count(), 996);
    denied(answers.into_iter().nth(500).unwrap(), "r512");
    let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
    let records = redis.read(&keys, &[]).await.unwrap().records;
    for (name, record) in names.iter().zip(records) {
        if is_bad(name) {
            denied(record, name);
        } else {
            assert_eq!(record.unwrap().unwrap().value, format!("{name} again"));
        }
    }
    assert_eq!(server.cmd(&["GET", "bandog:record:{r7}"]).text(), "mine");
    assert_eq!(server.hash("bandog:record:{r300}").len(), 1);
    assert_eq!(redis.names(&Pattern::all()).await.unwrap().len(), 996);
}

#[tokio::test]
async fn a_record_with_data_of_another_application_is_corrupt() {
    let server = RedisServer::start();
    let redis = operator(&server);
    for bad in ["text", "", "0", "-1", "1.5", "1e3", "0x10", " 1", "01", "9007199254740992", "99999999999999999999"] {
        server.cmd(&["HSET", RECORD, "v", bad, "b", "x"]);
        corrupt(read_one(&redis, "r").await, "r");
        corrupt(swap_one(&redis, &Swap::new(key("r"), None, "y")).await, "r");
        corrupt(swap_one(&redis, &from("r", Version::new(7).unwrap(), "y")).await, "r");
        assert_eq!(server.hash(RECORD)["v"], bad);
    }
    server.cmd(&["DEL", RECORD]);
    server.cmd(&["HSET", RECORD, "v", "7"]);
    corrupt(read_one(&redis, "r").await, "r");
    server.cmd(&["EVAL", "return redis.call('hset', KEYS[1], 'b', '\\255\\254')", "1", RECORD]);
    corrupt(read_one(&redis, "r").await, "r");
}

#[tokio::test]
async fn keys_of_another_type_are_never_changed() {
    let server = RedisServer::start();
    let redis = operator(&server);
    server.cmd(&["SET", HISTORY, "mine"]);
    denied(swap_one(&redis, &Swap::new(key("r"), None, "x")).await, "r");
    denied(swap_one(&redis, &with_lines(Swap::new(key("r"), None, "x"), &[("ok:0", "x")])).await, "r");
    assert_eq!(server.keys(), [HISTORY]);
    denied(redis.history(&key("r")).await, "r");
    let version = {
        server.cmd(&["DEL", HISTORY]);
        create(&redis, "r", "one").await
    };
    server.cmd(&["SET", HISTORY, "mine"]);
    denied(swap_one(&redis, &with_lines(from("r", version, "x"), &[("ok:0", "x")])).await, "r");
    denied(swap_one(&redis, &deletion("r", version)).await, "r");
    assert_eq!((server.cmd(&["GET", HISTORY]).text(), value(&redis, "r").await.unwrap().as_str()), ("mine", "one"));
    let version = must_swap(&redis, &from("r", version, "two")).await.unwrap();
    server.cmd(&["DEL", HISTORY, INDEX]);
    server.cmd(&["SET", INDEX, "mine"]);
    denied(swap_one(&redis, &deletion("r", version)).await, "r");
    denied(swap_one(&redis, &with_lines(Swap::new(key("new"), None, "x"), &[("ok:0", "x")])).await, "new");
    assert_eq!(server.keys(), [RECORD, INDEX]);
    assert_eq!(redis.names(&Pattern::all()).await.unwrap_err().kind(), ErrorKind::Denied);
    // If the lock of a holding is not a hash, a swap and a read fail. The error of the swap names the record, and the
    // error of the read names the lock.
    server.cmd(&["SET", "l", "mine"]);
    let held = Swap { held: Some(holding(&claim("l"))), ..from("r", version, "three") };
    denied(swap_one(&redis, &held).await, "r");
    let reading = redis.read(&[key("r")], &[holding(&claim("l")), holding(&claim("m"))]).await.unwrap();
    assert_eq!(reading.records[0].as_ref().unwrap().as_ref().unwrap().value, "two");
    assert_eq!(reading.held[0].as_ref().unwrap_err().key(), Some(&key("l")));
    assert!(!reading.held[1].as_ref().unwrap());
}

#[tokio::test]
async fn records_and_locks_with_the_same_name_are_independent() {
    let server = RedisServer::start();
    let redis = operator(&server);
    for name in ["r", "{r}", "a{b}c", "}", "中文 name"] {
        let held = claim(name);
        fences(&redis, &held).await;
        let version = create(&redis, name, "one").await;
        let swap = Swap { held: Some(holding(&held)), ..from(name, version, name) };
        must_swap(&redis, &with_lines(swap, &[("ok:0", name)])).await;
    }
    for name in ["r", "{r}", "a{b}c", "}", "中文 name"] {
        assert_eq!(value(&redis, name).await.unwrap(), name);
        assert_eq!(redis.history(&key(name)).await.unwrap()[0].value, name);
    }
    let names = redis.names(&Pattern::all()).await.unwrap();
    assert_eq!(names, ["a{b}c", "r", "{r}", "}", "中文 name"].map(key));
    let rows = bandog_core::Inspect::list(&redis, &Pattern::all()).await.unwrap();
    assert_eq!(rows.len(), 5, "{rows:?}");
}

#[tokio::test]
async fn a_lock_whose_name_is_the_key_of_a_record_does_not_change_the_record() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let (first, second) = (claim("bandog:record:{lock}"), claim(RECORD));
    fences(&redis, &first).await;
    denied(swap_one(&redis, &Swap::new(key("lock"), None, "x")).await, "lock");
    denied(read_one(&redis, "lock").await, "lock");
    let version = create(&redis, "r", "one").await;
    let verdict = crate::help::take(&redis, &second).await.unwrap();
    assert!(matches!(verdict, bandog_core::Verdict::Busy { .. }), "{verdict:?}");
    assert!(bandog_core::Inspect::evict(&redis, &second.key).await.is_err());
    must_swap(&redis, &from("r", version, "two")).await;
    assert_eq!(
        crate::help::renew(&redis, &first).await.unwrap(),
        bandog_core::Renewal::Extended { valid_for: first.ttl }
    );
}

#[tokio::test]
async fn a_read_returns_results_in_the_order_of_the_request() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let held = claim("l");
    fences(&redis, &held).await;
    create(&redis, "r", "").await;
    let keys: Vec<Key> = (0..700).map(|number| key(if number % 2 == 0 { "r" } else { "none" })).collect();
    let holdings: Vec<Holding> =
        (0..700).map(|number| if number % 3 == 0 { holding(&held) } else { holding(&claim("l")) }).collect();
    for (records, locks) in [(700, 700), (700, 0), (0, 700), (512, 1), (511, 2), (1, 1), (0, 0)] {
        let before = SystemTime::now();
        let reading = redis.read(&keys[..records], &holdings[..locks]).await.unwrap();
        assert!(reading.now >= before - Duration::from_millis(1) && reading.now <= SystemTime::now());
        assert_eq!((reading.records.len(), reading.held.len()), (records, locks));
        for (number, record) in reading.records.into_iter().enumerate() {
            let expected = (number % 2 == 0).then(String::new);
            assert_eq!(record.unwrap().map(|record| record.value), expected, "{number}");
        }
        for (number, held) in reading.held.into_iter().enumerate() {
            assert_eq!(held.unwrap(), number % 3 == 0, "{number}");
        }
    }
    assert_eq!(redis.swap(&[]).await.unwrap().each.len(), 0);
}

#[tokio::test]
async fn names_match_the_pattern_and_a_history_is_sorted() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let swaps: Vec<Swap> = (0..1200).map(|number| Swap::new(key(&format!("job/{number:04}")), None, "x")).collect();
    redis.swap(&swaps).await.unwrap();
    let lines = [("ok:2", "c"), ("ok:10", "b"), ("failed:0", "a")];
    must_swap(&redis, &with_lines(Swap::new(key("other?*"), None, "x"), &lines)).await;
    server.cmd(&["SADD", INDEX, "\u{1}", ""]);
    let names = redis.names(&Pattern::new("job/*")).await.unwrap();
    assert!(names.len() == 1200 && names.is_sorted());
    assert_eq!(redis.names(&Pattern::new("job/00?7")).await.unwrap().len(), 10);
    assert_eq!(redis.names(&Pattern::exactly(&key("other?*"))).await.unwrap(), [key("other?*")]);
    assert_eq!(redis.names(&Pattern::all()).await.unwrap().len(), 1201);
    let history = redis.history(&key("other?*")).await.unwrap();
    assert_eq!(history, [("failed:0", "a"), ("ok:10", "b"), ("ok:2", "c")].map(line));
    assert_eq!(redis.history(&key("none")).await.unwrap(), []);
}

#[tokio::test]
async fn a_line_replaces_the_line_of_its_slot_and_is_deleted_with_its_record() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let creation = Swap::new(key("r"), None, "x");
    let version = must_swap(&redis, &with_lines(creation.clone(), &[("a", "1"), ("b", "1")])).await.unwrap();
    let version = must_swap(&redis, &with_lines(from("r", version, "y"), &[("b", "2"), ("c", "2")])).await.unwrap();
    let history = redis.history(&key("r")).await.unwrap();
    assert_eq!(history, [("a", "1"), ("b", "2"), ("c", "2")].map(line));
    must_swap(&redis, &with_lines(deletion("r", version), &[("d", "3")])).await;
    assert_eq!(redis.history(&key("r")).await.unwrap(), []);
    // A record may be lost without its history. Then the old lines are deleted when the record is created again.
    server.cmd(&["HSET", HISTORY, "old", "1"]);
    must_swap(&redis, &with_lines(creation, &[("new", "1")])).await;
    assert_eq!(redis.history(&key("r")).await.unwrap(), [("new", "1")].map(line));
}

#[tokio::test]
async fn a_call_is_repeated_after_the_server_has_lost_the_scripts() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let mut version = create(&redis, "r", "one").await;
    for number in 0..3 {
        server.flush_scripts();
        version = must_swap(&redis, &from("r", version, &number.to_string())).await.unwrap();
        server.flush_scripts();
        assert_eq!(value(&redis, "r").await.unwrap(), number.to_string());
        server.flush_scripts();
        let swaps: Vec<Swap> = (0..600).map(|name| Swap::new(key(&format!("{number} {name}")), None, "x")).collect();
        for answer in redis.swap(&swaps).await.unwrap().each {
            assert!(matches!(answer, Ok(Swapped::Done(Some(_)))), "{answer:?}");
        }
    }
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn from(name: &str, version: Version, value: &str) -> Swap {
    Swap::new(key(name), Some(version), value)
}

pub(crate) fn deletion(name: &str, version: Version) -> Swap {
    Swap { to: None, ..from(name, version, "") }
}

pub(crate) fn with_lines(swap: Swap, lines: &[(&str, &str)]) -> Swap {
    Swap { lines: lines.iter().copied().map(line).collect(), ..swap }
}

pub(crate) fn holding(claim: &Claim) -> Holding {
    Holding { key: claim.key.clone(), id: claim.id }
}

pub(crate) fn line((slot, value): (&str, &str)) -> Line {
    Line { slot: slot.into(), value: value.into() }
}

/// Sends a single swap.
pub(crate) async fn swap_one(redis: &Redis, swap: &Swap) -> Result<Swapped> {
    let mut swaps = redis.swap(std::slice::from_ref(swap)).await?;
    assert_eq!(swaps.each.len(), 1);
    swaps.each.remove(0)
}

/// Sends a single swap, which must be done. Returns the new version.
pub(crate) async fn must_swap(redis: &Redis, swap: &Swap) -> Option<Version> {
    match swap_one(redis, swap).await.unwrap() {
        Swapped::Done(version) => version,
        other => panic!("{swap:?}: {other:?}"),
    }
}

/// Creates a record and returns its version.
pub(crate) async fn create(redis: &Redis, name: &str, value: &str) -> Version {
    must_swap(redis, &Swap::new(key(name), None, value)).await.unwrap()
}

pub(crate) async fn read_one(redis: &Redis, name: &str) -> Result<Option<Record>> {
    let mut reading = redis.read(&[key(name)], &[]).await?;
    assert_eq!((reading.records.len(), reading.held.len()), (1, 0));
    reading.records.remove(0)
}

pub(crate) async fn value(redis: &Redis, name: &str) -> Option<String> {
    read_one(redis, name).await.unwrap().map(|record| record.value)
}

fn micros(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

#[track_caller]
fn denied<T: std::fmt::Debug>(answer: Result<T>, name: &str) {
    refused(answer, name, ErrorKind::Denied);
}

#[track_caller]
fn corrupt<T: std::fmt::Debug>(answer: Result<T>, name: &str) {
    refused(answer, name, ErrorKind::Corrupt);
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T>, name: &str, kind: ErrorKind) {
    let error: Error = answer.unwrap_err();
    assert_eq!((error.kind(), error.key()), (kind, Some(&key(name))), "{error}");
    assert!(!error.maybe_applied() && error.verb().is_some(), "{error}");
}
