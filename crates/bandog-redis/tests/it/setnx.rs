//! The layout `setnx`: a mutex is a string, as hand-written locks, rslock and redsync write it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{
    Claim, ErrorKind, Inspect, Kind, Kinds, Leases, Pattern, Records, Released, Renewal, Row, Step, Swap, Swapped,
    Verdict,
};
use bandog_redis::{Layout, Redis, RedisOptions};
use bandog_sync::Client;
use bandog_testkit::{RawRedis, RedisServer, Reply, eventually_async};

use crate::{
    help::{SOON, TTL, backend, claim, fences, is_granted, lock_user_url, pass, release, renew, take},
    layout::subscriber,
    records::{create, from, holding, swap_one},
};

/// The script with which such locks are released, as in the documentation of the command SET of Redis.
const DELETE_OWN: &str =
    "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// The script with which redsync extends such a lock.
const EXTEND_OWN: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";
const TOKEN: &str = "redisson_lock_token:{k}";
const CHANNEL: &str = "redisson_lock__channel:{k}";

/// A backend with this layout, whose user has only the rights that locks need.
fn setnx(server: &RedisServer) -> Redis {
    at(&lock_user_url(server.addr()))
}

/// A backend with this layout, whose user can also inspect locks.
fn operator(server: &RedisServer) -> Redis {
    at(&format!("redis://{}@{}", RedisServer::OPERATOR, server.addr()))
}

fn at(url: &str) -> Redis {
    let options = RedisOptions::from_url(url).unwrap().layout(Layout::Setnx);
    Redis::new(options.timeout(10 * SOON)).unwrap()
}

/// A hand-written client takes the lock. Returns whether it has succeeded.
fn theirs_take(client: &mut RawRedis, value: &str, ttl: &str) -> bool {
    !client.cmd(&["SET", "k", value, "NX", "PX", ttl]).unwrap().is_nil()
}

/// A hand-written client releases the lock. Returns whether it held the lock.
fn theirs_release(client: &mut RawRedis, value: &str) -> bool {
    client.cmd(&["EVAL", DELETE_OWN, "1", "k", value]).unwrap() == Reply::Int(1)
}

fn is_busy(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Busy { .. })
}

// Promise: RD21
#[tokio::test]
async fn a_hold_is_a_string_with_a_ttl_and_a_release_deletes_it() {
    let server = RedisServer::start();
    let redis = setnx(&server);
    for (name, token, channel) in [
        ("k", TOKEN, CHANNEL),
        ("{tag}:a", "redisson_lock_token:{tag}:a", "redisson_lock__channel:{tag}:a"),
        ("中文 name", "redisson_lock_token:{中文 name}", "redisson_lock__channel:{中文 name}"),
    ] {
        let mut subscription = subscriber(&server, channel);
        let held = claim(name);
        let granted = fences(&redis, &held).await;
        let mut keys = [name, token].map(String::from);
        keys.sort();
        assert_eq!(server.keys(), keys);
        assert_eq!(server.cmd(&["TYPE", name]).text(), "string");
        assert_eq!(server.cmd(&["GET", name]).text(), held.id.to_string());
        assert!((29_000..=30_000).contains(&server.pttl(name)), "{}", server.pttl(name));
        assert_eq!(server.cmd(&["GET", token]).text(), granted.last().to_string());
        assert_eq!(server.pttl(token), -1);

        // A repeated claim, for example after a lost answer, has the same fences.
        server.cmd(&["PEXPIRE", name, "5000"]);
        assert_eq!(fences(&redis, &held).await, granted);
        assert!(server.pttl(name) > 29_000);
        server.cmd(&["PEXPIRE", name, "5000"]);
        assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: TTL });
        assert!(server.pttl(name) > 29_000);

        let other = claim(name);
        assert!(is_busy(&take(&redis, &other).await.unwrap()));
        assert_eq!(release(&redis, &other).await.unwrap(), Released::NotHeld);
        assert_eq!(renew(&redis, &other).await.unwrap(), Renewal::Gone);
        assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(1) });
        assert_eq!(subscription.read().unwrap().texts(), ["message", channel, "0"]);
        assert_eq!(release(&redis, &held).await.unwrap(), Released::NotHeld);
        assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Gone);
        assert_eq!(server.keys(), [token]);
        assert!(fences(&redis, &other).await.clone().take().unwrap() > granted.last());
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_pass_replaces_the_value_without_a_notification() {
    let server = RedisServer::start();
    let redis = setnx(&server);
    let (from, to, third) = (claim("k"), claim("k"), claim("k"));
    let old = fences(&redis, &from).await;
    let Verdict::Granted { fences: new, .. } = pass(&redis, &from, &to).await.unwrap() else { panic!("busy") };
    assert!(new.clone().take().unwrap() > old.last());
    assert_eq!(server.cmd(&["GET", "k"]).text(), to.id.to_string());
    assert_eq!(
        pass(&redis, &from, &to).await.unwrap(),
        Verdict::Granted { fences: new, valid_for: TTL, followers: vec![] }
    );
    assert!(is_busy(&pass(&redis, &from, &third).await.unwrap()));
    assert_eq!(release(&redis, &from).await.unwrap(), Released::NotHeld);
    assert_eq!(server.cmd(&["GET", "k"]).text(), to.id.to_string());
}

/// Neither side takes, releases or extends a hold of the other side.
// Promise: RD21
#[tokio::test]
async fn a_hand_written_lock_and_ours_exclude_each_other() {
    let server = RedisServer::start();
    let (redis, mut theirs, ours) = (setnx(&server), server.client(), claim("k"));
    assert!(theirs_take(&mut theirs, "random", "2500"));
    let Verdict::Busy { retry_after, .. } = take(&redis, &ours).await.unwrap() else { panic!("granted") };
    assert!(retry_after > Duration::from_millis(1500) && retry_after <= Duration::from_millis(2500), "{retry_after:?}");
    assert_eq!(release(&redis, &ours).await.unwrap(), Released::NotHeld);
    assert_eq!(renew(&redis, &ours).await.unwrap(), Renewal::Gone);
    assert_eq!(server.keys(), ["k"], "a refused claim has written a key");
    assert!(theirs_release(&mut theirs, "random"));

    fences(&redis, &ours).await;
    assert!(!theirs_take(&mut theirs, "random", "2500"));
    assert!(!theirs_release(&mut theirs, "random"));
    assert_eq!(theirs.cmd(&["EVAL", EXTEND_OWN, "1", "k", "random", "90000"]).unwrap(), Reply::Int(0));
    // A user of redsync can hand its value over to us, and the reverse.
    let value = ours.id.to_string();
    assert_eq!(theirs.cmd(&["EVAL", EXTEND_OWN, "1", "k", &value, "90000"]).unwrap(), Reply::Int(1));
    assert!(theirs_release(&mut theirs, &value));
    assert_eq!(renew(&redis, &ours).await.unwrap(), Renewal::Gone);

    // A key without a ttl never expires. It is polled every second.
    server.cmd(&["SET", "k", "forever"]);
    let busy = take(&redis, &ours).await.unwrap();
    assert_eq!(busy, Verdict::Busy { retry_after: Duration::from_secs(1), ahead: None });
}

// Promise: RD21
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_under_hand_written_locks_and_ours_loses_no_addition() {
    const TURNS: u64 = 150;
    let server = Arc::new(RedisServer::start());
    let counter = Arc::new(Mutex::new((0_u64, false)));
    // The addition is not atomic: the two accesses are separated, and the flag shows a second holder.
    let add = |counter: &Mutex<(u64, bool)>| {
        let before = {
            let mut counter = counter.lock().unwrap();
            assert!(!std::mem::replace(&mut counter.1, true), "two holders");
            counter.0
        };
        std::thread::yield_now();
        *counter.lock().unwrap() = (before + 1, false);
    };
    let theirs: Vec<_> = (0..2)
        .map(|number| {
            let (server, counter) = (server.clone(), counter.clone());
            std::thread::spawn(move || {
                let mut client = server.client();
                for turn in 0..TURNS {
                    let value = format!("peer {number}, turn {turn}");
                    while !theirs_take(&mut client, &value, "30000") {
                        std::thread::yield_now();
                    }
                    add(&counter);
                    assert!(theirs_release(&mut client, &value));
                }
            })
        })
        .collect();
    let clients: Vec<_> = (0..2).map(|_| Client::over(setnx(&server)).unwrap()).collect();
    let ours = clients.iter().flat_map(|client| [client, client]).map(|client| {
        let (mutex, counter) = (client.mutex("k"), counter.clone());
        tokio::spawn(async move {
            for _ in 0..TURNS / 2 {
                let guard = mutex.lock().await.unwrap();
                add(&counter);
                guard.release().await.unwrap();
            }
        })
    });
    for task in ours.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    for thread in theirs {
        thread.join().unwrap();
    }
    assert_eq!(counter.lock().unwrap().0, 4 * TURNS);
}

/// The other side publishes nothing, so our waiter finds the release with a poll.
// Promise: RD21
#[tokio::test]
async fn a_waiter_gets_the_lock_after_a_release_without_a_message() {
    let server = RedisServer::start();
    let mut theirs = server.client();
    assert!(theirs_take(&mut theirs, "random", "600000"));
    let client = Client::over(setnx(&server)).unwrap();
    let mutex = client.mutex("k");
    let (waiting, granted) = (mutex.lock(), AtomicBool::new(false));
    let waiting = async {
        let guard = waiting.await.unwrap();
        granted.store(true, Relaxed);
        guard
    };
    let releasing = async {
        let channel = ["PUBSUB", "NUMSUB", CHANNEL];
        eventually_async(SOON, async || server.cmd(&channel).array()[1] == Reply::Int(1)).await;
        assert!(!granted.load(Relaxed));
        assert!(theirs_release(&mut theirs, "random"));
    };
    let (guard, ()) = tokio::time::timeout(SOON, async { tokio::join!(waiting, releasing) }).await.unwrap();
    // The guard is lost at the next renewal after somebody has deleted the key.
    server.cmd(&["SET", "k", "thief"]);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(server.cmd(&["GET", "k"]).text(), "thief");
}

#[tokio::test]
async fn other_types_and_other_layouts_are_refused_and_stay_unchanged() {
    let server = RedisServer::start();
    let (redis, default) = (setnx(&server), backend(&server));
    let java = "957c1da6-54c9-4017-93c7-a4ef987df61c:19";
    for plant in [&["HSET", "k", java, "1"][..], &["RPUSH", "k", "1"]] {
        server.cmd(plant);
        let before = server.cmd(&["DUMP", "k"]);
        let own = claim("k");
        for error in [
            take(&redis, &own).await.map(|_| ()).unwrap_err(),
            release(&redis, &own).await.map(|_| ()).unwrap_err(),
            renew(&redis, &own).await.map(|_| ()).unwrap_err(),
            operator(&server).evict(&own.key).await.map(|_| ()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        }
        let error = take(&redis, &own).await.unwrap_err().to_string();
        assert!(error.contains("?layout=redisson"), "{error}");
        assert_eq!((server.cmd(&["DUMP", "k"]), server.keys()), (before, vec!["k".to_owned()]));
        server.cmd(&["DEL", "k"]);
    }
    fences(&redis, &claim("k")).await;
    let error = take(&default, &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("?layout=setnx"), "{error}");
}

/// The text of another client is another owner, also for the condition of a swap.
#[tokio::test]
async fn a_swap_and_a_read_see_whether_the_owner_holds_the_string() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let held = claim("k");
    fences(&redis, &held).await;
    let mut version = create(&redis, "r", "one").await;
    let mut client = server.client();
    for value in [None, Some("0123456789abcdef:1"), Some("random text"), Some("77"), Some("")] {
        let is_ours = value.is_none();
        if let Some(value) = value {
            server.cmd(&["DEL", "k"]);
            assert!(theirs_take(&mut client, value, "30000"));
        }
        let swap = Swap { held: Some(holding(&held)), ..from("r", version, "two") };
        match swap_one(&redis, &swap).await.unwrap() {
            Swapped::Done(new) if is_ours => version = new.unwrap(),
            Swapped::NotHeld if !is_ours => {}
            other => panic!("{value:?}: {other:?}"),
        }
        let reading = redis.read(&[], &[holding(&held), holding(&claim("free"))]).await.unwrap();
        assert_eq!(reading.held.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [is_ours, false], "{value:?}");
    }
    // A key of another type is no lock of this layout.
    server.cmd(&["DEL", "k"]);
    server.cmd(&["HSET", "k", "field", "1"]);
    let swap = Swap { held: Some(holding(&held)), ..from("r", version, "two") };
    assert_eq!(swap_one(&redis, &swap).await.unwrap_err().kind(), ErrorKind::Denied);
}

// Promise: RD21
#[tokio::test]
async fn only_mutexes_have_handles_and_the_refusal_names_the_layout() {
    let server = RedisServer::start();
    assert_eq!(setnx(&server).profile().kinds, Kinds::MUTEX);
    let client = Client::over(setnx(&server)).unwrap();
    let errors = [
        client.mutex("k").fair().try_lock().await.map(|_| ()).unwrap_err(),
        client.rwlock("k").try_read().await.map(|_| ()).unwrap_err(),
        client.rwlock("k").try_write().await.map(|_| ()).unwrap_err(),
        client.semaphore("k", 2).try_acquire().await.map(|_| ()).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Misused);
        assert!(error.to_string().contains("layout=setnx"), "{error}");
    }
    for kind in [Kind::Fair, Kind::Read, Kind::Write] {
        let error = take(&setnx(&server), &Claim { kind, ..claim("k") }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused);
    }
    assert_eq!(server.keys(), [""; 0]);
}

/// The fence is a number in a key of ours. If it cannot be written, there is no hold.
// Promise: RD22
#[tokio::test]
async fn without_a_fence_a_claim_is_refused_and_writes_nothing() {
    let server = RedisServer::start();
    let (redis, wanted) = (setnx(&server), claim("k"));
    for plant in [&["SET", TOKEN, "text"][..], &["RPUSH", TOKEN, "1"], &["SET", TOKEN, "9007199254740992"]] {
        server.cmd(plant);
        assert_eq!(take(&redis, &wanted).await.unwrap_err().kind(), ErrorKind::Corrupt, "{plant:?}");
        assert_eq!(server.keys(), [TOKEN]);
        server.cmd(&["DEL", TOKEN]);
    }
    let limited = at(&format!("redis://u:p@{}", server.addr()));
    for rules in [&["resetkeys", "~k", "%R~*"][..], &["resetkeys", "%R~k", "~redisson*"], &["-set"], &["-get"]] {
        server.cmd(&[&["ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all"], rules].concat());
        assert_eq!(take(&limited, &wanted).await.unwrap_err().kind(), ErrorKind::Denied, "{rules:?}");
        assert_eq!(server.keys(), [""; 0], "{rules:?}");
    }
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(take(&redis, &wanted).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn renewals_and_releases_work_at_the_memory_limit() {
    let server = RedisServer::start();
    let (redis, held) = (setnx(&server), claim("k"));
    fences(&redis, &held).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: TTL });
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) });
}

#[tokio::test]
async fn operators_see_and_evict_holds_of_both_sides() {
    let server = RedisServer::start();
    let (redis, ours) = (operator(&server), claim("k"));
    let granted = fences(&redis, &ours).await;
    fences(&redis, &claim("{tag}:a")).await;
    // A string that bandog has never locked may be anything. It is not listed, but it can be shown.
    server.cmd(&["SET", "cache", "page"]);
    let names = async || {
        let rows = redis.list(&Pattern::all()).await.unwrap();
        rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["k", "{tag}:a"]);
    let holder = |row: &Row| row.holders[0].clone();
    let row = redis.show(&ours.key).await.unwrap();
    assert_eq!((row.kind, holder(&row).owner), (Some(Kind::Mutex), Some(ours.id.to_string())));
    assert_eq!(holder(&row).last_fence, Some(granted.last()));
    assert!(holder(&row).ttl.is_some());

    release(&redis, &ours).await.unwrap();
    assert_eq!(names().await, ["{tag}:a"]);
    // Lua writes the second value, because it is not a text.
    for (value, shown) in [("random", "random"), ("\\255\\0", "ff00")] {
        server.cmd(&["EVAL", &format!("return redis.call('set', 'k', '{value}')"), "0"]);
        let row = redis.show(&ours.key).await.unwrap();
        assert_eq!((holder(&row).owner.as_deref(), holder(&row).ttl), (Some(shown), None));
        assert_eq!(holder(&row).last_fence, None, "the fence orders our grants only");
        assert_eq!(names().await, ["k", "{tag}:a"]);
    }
    let mut subscription = subscriber(&server, CHANNEL);
    assert!(redis.evict(&ours.key).await.unwrap().is_some());
    assert_eq!(subscription.read().unwrap().texts()[2], "0");
    assert_eq!(redis.evict(&ours.key).await.unwrap(), None);
    assert_eq!(server.cmd(&["EXISTS", "k"]).int(), 0);
}

/// Many locks of one batch share a command. A key of another type does not affect the others.
#[tokio::test]
async fn a_batch_is_one_command() {
    let server = RedisServer::start();
    let redis = setnx(&server);
    let claims: Vec<_> = (0..5).map(|number| claim(&format!("k{number}"))).collect();
    server.cmd(&["HSET", "k2", "field", "1"]);
    let before = server.calls("evalsha");
    let answers = redis.apply(&claims.iter().cloned().map(Step::Claim).collect::<Vec<_>>()).await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true, true]);
    let renewals = redis.renew(&claims).await;
    assert_eq!(renewals.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true, true]);
    assert_eq!(server.calls("evalsha") - before, 2);
}

/// The value of another client can be very long. It is not read whole, and it is another owner even if it begins with an
/// owner of ours.
#[tokio::test]
async fn a_long_value_of_another_client_is_not_read_whole() {
    let server = RedisServer::start();
    let (redis, ours) = (operator(&server), claim("k"));
    let owner = ours.id.to_string();
    for value in [format!("{owner}0"), format!("{owner}{}", "x".repeat(1_000_000)), String::new()] {
        server.cmd(&["SET", "k", &value, "PX", "20000"]);
        let reads = server.calls("get");
        assert!(!is_granted(&redis, &ours).await);
        assert_eq!(renew(&redis, &ours).await.unwrap(), Renewal::Gone);
        assert_eq!(release(&redis, &ours).await.unwrap(), Released::NotHeld);
        assert_eq!(server.calls("get"), reads);
        let shown = redis.show(&ours.key).await.unwrap().holders[0].owner.clone().unwrap();
        assert!(value.starts_with(&shown) && shown.len() <= 64, "{shown}");
        assert_eq!(server.cmd(&["STRLEN", "k"]).int(), i64::try_from(value.len()).unwrap());
    }
}
