//! Fair mutexes: the data have the layout of Redisson's RFairLock, as recorded from Redisson 4.7.0.

use std::time::Duration;

use bandog_core::{Answer, Claim, ClaimId, ErrorKind, Inspect, Kind, Leases, PLACE, Released, Renewal, Step, Verdict};
use bandog_redis::Redis;
use bandog_sync::Client;
use bandog_testkit::{RedisServer, eventually_async};

use crate::{
    help::{
        JAVA, SOON, backend, claim, granted, is_granted, lock_user_url, notifier, now_ms, operator, pass, release,
        renew, take, with_timeout,
    },
    layout::subscriber,
};

/// Redisson's time for one claim at the head of the queue, in ms.
pub(crate) const WAIT: i64 = 300_000;
pub(crate) const QUEUE: &str = "redisson_lock_queue:{k}";
pub(crate) const DEADLINES: &str = "redisson_lock_timeout:{k}";
const WAITING: &str = "bandog:waiting:{k}";
/// Names of locks with the names of their queues, their deadlines and their channels.
const NAMES: [(&str, &str, &str, &str); 3] = [
    ("plain", "redisson_lock_queue:{plain}", "redisson_lock_timeout:{plain}", "redisson_lock__channel:{plain}"),
    ("{tag}:a", "redisson_lock_queue:{tag}:a", "redisson_lock_timeout:{tag}:a", "redisson_lock__channel:{tag}:a"),
    ("a{b}c", "redisson_lock_queue:a{b}c", "redisson_lock_timeout:a{b}c", "redisson_lock__channel:a{b}c"),
];

pub(crate) fn fair(name: &str) -> Claim {
    Claim { kind: Kind::Fair, joins: true, ..claim(name) }
}

pub(crate) fn queue(server: &RedisServer) -> Vec<String> {
    server.cmd(&["LRANGE", QUEUE, "0", "-1"]).texts()
}

pub(crate) fn deadline(server: &RedisServer, owner: &str) -> i64 {
    server.cmd(&["ZSCORE", DEADLINES, owner]).text().parse().unwrap()
}

/// A waiter of Redisson at the end of the queue.
pub(crate) fn java_waits(server: &RedisServer, owner: &str, until: i64) {
    server.cmd(&["ZADD", DEADLINES, &until.to_string(), owner]);
    server.cmd(&["RPUSH", QUEUE, owner]);
}

/// Lets the places of these claims expire.
fn die(server: &RedisServer, claims: &[&Claim]) {
    for claim in claims {
        server.cmd(&["ZADD", WAITING, "XX", "1000", &claim.id.to_string()]);
    }
}

pub(crate) async fn ahead(redis: &Redis, claim: &Claim) -> Option<u32> {
    match take(redis, claim).await.unwrap() {
        Verdict::Busy { ahead, .. } => ahead,
        Verdict::Granted { .. } => panic!("granted"),
    }
}

// Promise: X5
#[tokio::test]
async fn the_queue_is_a_list_and_a_sorted_set_with_deadlines() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for (name, queue, deadlines, channel) in NAMES {
        let [holder, first, second] = [fair(name), fair(name), fair(name)];
        granted(take(&redis, &holder).await.unwrap());
        assert_eq!(server.hash(name), [(holder.id.to_string(), "1".to_owned())].into());
        assert!((29_000..=30_000).contains(&server.pttl(name)));
        assert_eq!(server.cmd(&["EXISTS", queue, deadlines]).int(), 0);
        let asked = now_ms();
        assert_eq!((ahead(&redis, &first).await, ahead(&redis, &second).await), (Some(0), Some(1)));
        let scores = server.cmd(&["ZRANGE", deadlines, "0", "-1", "WITHSCORES"]).texts();
        let [one, one_until, two, two_until] = &scores[..] else { panic!("{scores:?}") };
        let [one_until, two_until] = [one_until, two_until].map(|until| until.parse::<i64>().unwrap());
        // The first deadline is the end of the hold, plus the time for one claim. Each further one is that much later.
        assert!((asked + 29_000 + WAIT..=now_ms() + 30_000 + WAIT).contains(&one_until), "{one_until}");
        assert_eq!(two_until, one_until + WAIT);
        assert_eq!([one, two], [&first.id.to_string(), &second.id.to_string()]);
        assert_eq!(server.cmd(&["LRANGE", queue, "0", "-1"]).texts(), [one.clone(), two.clone()]);
        assert_eq!((server.pttl(queue), server.pttl(deadlines)), (-1, -1));
        let tag = &channel["redisson_lock__channel:".len()..];
        let waiting = server.pttl(&format!("bandog:waiting:{tag}"));
        assert!((5_000..=10_000).contains(&waiting), "{waiting}");
        // A further claim changes nothing, although it comes later.
        assert_eq!(ahead(&redis, &second).await, Some(1));
        assert_eq!(server.cmd(&["ZRANGE", deadlines, "0", "-1", "WITHSCORES"]).texts(), scores);
        // Only the first in the queue is notified.
        let (base, own) = (channel.to_owned(), format!("{channel}:{}", first.id));
        let (mut everyone, mut its_own) = (subscriber(&server, &base), subscriber(&server, &own));
        assert_eq!(release(&redis, &holder).await.unwrap(), Released::Freed { others: Some(1) });
        assert_eq!(its_own.read().unwrap().texts(), ["message", &own, "0"]);
        everyone.set_patience(Duration::from_millis(20)).unwrap();
        assert!(everyone.read().is_err());
        // A grant brings the other deadlines nearer.
        assert!(!is_granted(&redis, &second).await && is_granted(&redis, &first).await);
        let left = server.cmd(&["ZRANGE", deadlines, "0", "-1", "WITHSCORES"]).texts();
        assert_eq!(left, [two.clone(), one_until.to_string()]);
        release(&redis, &first).await.unwrap();
        assert!(is_granted(&redis, &second).await);
        release(&redis, &second).await.unwrap();
        let token = format!("redisson_lock_token:{tag}");
        assert_eq!(server.keys(), [token.as_str()]);
        server.cmd(&["DEL", &token]);
    }
}

#[tokio::test]
async fn a_claim_that_gives_up_brings_those_behind_it_nearer_and_wakes_the_next() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let [holder, first, second, third] = [fair("k"), fair("k"), fair("k"), fair("k")];
    granted(take(&redis, &holder).await.unwrap());
    for claim in [&first, &second, &third] {
        ahead(&redis, claim).await;
    }
    let [until, last] = [&first, &third].map(|claim| deadline(&server, &claim.id.to_string()));
    assert_eq!(release(&redis, &second).await.unwrap(), Released::LeftQueue);
    assert_eq!(release(&redis, &second).await.unwrap(), Released::NotHeld);
    assert_eq!(queue(&server), [first.id.to_string(), third.id.to_string()]);
    assert_eq!(deadline(&server, &first.id.to_string()), until);
    assert_eq!(deadline(&server, &third.id.to_string()), last - WAIT);
    release(&redis, &holder).await.unwrap();
    // The first one leaves while the lock is free.
    let (on_release, notified) = notifier();
    let waiter = backend(&server);
    let _subscription = waiter.subscribe(&third, on_release).await.unwrap();
    assert_eq!(release(&redis, &first).await.unwrap(), Released::LeftQueue);
    eventually_async(SOON, async || notified() == 1).await;
    assert!(is_granted(&waiter, &third).await);
}

#[tokio::test]
async fn a_claim_that_does_not_join_respects_the_queue_and_never_enters_it() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (holder, waiter, attempt) = (fair("k"), fair("k"), Claim { joins: false, ..fair("k") });
    granted(take(&redis, &holder).await.unwrap());
    assert_eq!((ahead(&redis, &attempt).await, ahead(&redis, &waiter).await), (None, Some(0)));
    release(&redis, &holder).await.unwrap();
    assert_eq!(ahead(&redis, &attempt).await, None);
    assert_eq!(queue(&server), [waiter.id.to_string()]);
    release(&redis, &waiter).await.unwrap();
    assert!(is_granted(&redis, &attempt).await);
}

#[tokio::test]
async fn all_dead_claims_of_ours_are_removed_together() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let [holder, first, second, third, fourth] = [fair("k"), fair("k"), fair("k"), fair("k"), fair("k")];
    granted(take(&redis, &holder).await.unwrap());
    for claim in [&first, &second] {
        ahead(&redis, claim).await;
    }
    java_waits(&server, JAVA, now_ms() + 3 * WAIT);
    for claim in [&third, &fourth] {
        ahead(&redis, claim).await;
    }
    let [java, last] = [JAVA, &fourth.id.to_string()].map(|owner| deadline(&server, owner));
    die(&server, &[&first, &second, &third]);
    assert_eq!(ahead(&redis, &fourth).await, Some(1));
    assert_eq!(queue(&server), [JAVA.to_owned(), fourth.id.to_string()]);
    assert_eq!(deadline(&server, JAVA), java - 2 * WAIT);
    assert_eq!(deadline(&server, &fourth.id.to_string()), last - 3 * WAIT);
    assert_eq!(renew(&redis, &third).await.unwrap(), Renewal::Gone);
    // The places can have expired so long ago that the private key has expired, too.
    server.cmd(&["DEL", WAITING]);
    server.cmd(&["LREM", QUEUE, "0", JAVA]);
    release(&redis, &holder).await.unwrap();
    let next = fair("k");
    assert!(is_granted(&redis, &next).await);
    release(&redis, &next).await.unwrap();
    // The waiter of Redisson has a deadline, but is not in the list.
    assert_eq!(server.keys(), [DEADLINES, "redisson_lock_token:{k}"]);
}

#[tokio::test]
async fn a_renewal_removes_dead_claims_and_says_that_the_claim_is_next() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let [holder, first, second, alive, last] = [fair("k"), fair("k"), fair("k"), fair("k"), fair("k")];
    granted(take(&redis, &holder).await.unwrap());
    for claim in [&first, &second, &alive, &last] {
        ahead(&redis, claim).await;
    }
    let before = deadline(&server, &alive.id.to_string());
    die(&server, &[&first, &second]);
    let extended = Renewal::Waiting { is_next: false };
    assert_eq!(renew(&redis, &alive).await.unwrap(), extended, "the lock is held");
    assert_eq!(queue(&server).len(), 4, "the next release removes the dead claims");
    // Without the release: the client of the holder has died, too.
    server.cmd(&["DEL", "k"]);
    assert_eq!(renew(&redis, &last).await.unwrap(), extended, "another claim is before it");
    assert_eq!(queue(&server), [alive.id.to_string(), last.id.to_string()]);
    assert_eq!(deadline(&server, &alive.id.to_string()), before - 2 * WAIT);
    assert_eq!(renew(&redis, &alive).await.unwrap(), Renewal::Waiting { is_next: true });
    assert_eq!(renew(&redis, &second).await.unwrap(), Renewal::Gone);
    assert!(is_granted(&redis, &alive).await);
    assert_eq!(renew(&redis, &last).await.unwrap(), extended, "the lock is held");
    release(&redis, &alive).await.unwrap();
    assert_eq!(renew(&redis, &last).await.unwrap(), Renewal::Waiting { is_next: true });

    // A waiter of Redisson is before the claim until its deadline.
    server.cmd(&["ZADD", DEADLINES, &(now_ms() + 60_000).to_string(), JAVA]);
    server.cmd(&["LPUSH", QUEUE, JAVA]);
    assert_eq!(renew(&redis, &last).await.unwrap(), extended);
    server.cmd(&["ZADD", DEADLINES, &(now_ms() - 1).to_string(), JAVA]);
    assert_eq!(renew(&redis, &last).await.unwrap(), Renewal::Waiting { is_next: true });
    assert_eq!(queue(&server), [last.id.to_string()]);
}

/// Clients in the middle of the queue lose their connections for good. Their places expire together, and the renewal of
/// the next claim says so. Its client would poll only after ten seconds or more.
#[tokio::test]
async fn clients_that_lose_their_connections_cost_one_place_in_total() {
    let server = RedisServer::start();
    let client = |redis: Redis| Client::options().over(redis).unwrap();
    let lock = |client: &Client| {
        let mutex = client.mutex("k").fair();
        tokio::spawn(async move { mutex.lock().await })
    };
    let has_length = async |length| eventually_async(SOON, async || queue(&server).len() == length).await;
    let [theirs, ours] = [client(backend(&server)), client(backend(&server))];
    let held = theirs.mutex("k").fair().lock().await.unwrap();
    let mut dying = Vec::new();
    for number in 0..20 {
        let wire = server.wire();
        let client = client(with_timeout(&lock_user_url(wire.addr()), Duration::from_millis(500)));
        let call = lock(&client);
        has_length(number + 1).await;
        dying.push((wire, client, call));
    }
    let next = lock(&ours);
    has_length(dying.len() + 1).await;
    for (wire, ..) in &dying {
        wire.refuse(true);
        wire.cut();
    }
    held.release().await.unwrap();
    let guard = tokio::time::timeout(PLACE + PLACE / 3 + Duration::from_secs(2), next).await.unwrap().unwrap().unwrap();
    assert_eq!(server.cmd(&["EXISTS", QUEUE, DEADLINES, WAITING]).int(), 0);
    dying.iter().for_each(|(_, _, call)| call.abort());
    guard.release().await.unwrap();
}

// Promise: X6
#[tokio::test]
async fn waiters_of_redisson_are_removed_at_their_deadlines() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let ours = fair("k");
    java_waits(&server, JAVA, now_ms() + 60_000);
    let Verdict::Busy { retry_after, ahead } = take(&redis, &ours).await.unwrap() else { panic!("granted") };
    assert_eq!(ahead, Some(1));
    assert!((50..=60).contains(&retry_after.as_secs()), "{retry_after:?}");
    let before = deadline(&server, &ours.id.to_string());
    server.cmd(&["ZADD", DEADLINES, &(now_ms() - 1).to_string(), JAVA]);
    assert!(is_granted(&redis, &ours).await);
    assert!(before > now_ms() + WAIT);
    release(&redis, &ours).await.unwrap();
    // An owner without a deadline at the head would block Redisson forever.
    server.cmd(&["RPUSH", QUEUE, JAVA]);
    let next = fair("k");
    assert!(is_granted(&redis, &next).await);
    assert_eq!(server.cmd(&["EXISTS", QUEUE, DEADLINES]).int(), 0);
}

#[tokio::test]
async fn a_live_claim_keeps_its_place_and_its_deadline_never_passes() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (holder, waiter) = (fair("k"), fair("k"));
    granted(take(&redis, &holder).await.unwrap());
    ahead(&redis, &waiter).await;
    let owner = waiter.id.to_string();
    for _ in 0..2 {
        server.cmd(&["ZADD", DEADLINES, &(now_ms() - 1).to_string(), &owner]);
        server.cmd(&["ZADD", WAITING, &(now_ms() + 1_000).to_string(), &owner]);
        assert_eq!(renew(&redis, &waiter).await.unwrap(), Renewal::Waiting { is_next: false });
        assert!(deadline(&server, &owner) > now_ms() + WAIT - 5_000);
        let place: i64 = server.cmd(&["ZSCORE", WAITING, &owner]).text().parse().unwrap();
        assert!(place > now_ms() + 3_000);
        server.cmd(&["ZADD", DEADLINES, &(now_ms() - 1).to_string(), &owner]);
        assert_eq!(ahead(&redis, &waiter).await, Some(0));
        assert!(deadline(&server, &owner) > now_ms() + WAIT - 5_000);
    }
    // Redisson can delete the queue. Then the next claim joins again.
    for keys in [&[QUEUE, DEADLINES][..], &[QUEUE], &[DEADLINES]] {
        server.cmd(&[&["DEL"], keys].concat());
        assert_eq!(ahead(&redis, &waiter).await, Some(0), "{keys:?}");
        assert_eq!(queue(&server), [owner.as_str()], "{keys:?}");
        assert!(deadline(&server, &owner) > now_ms() + WAIT);
    }
}

/// One command releases a fair lock and claims it for the next call of the same client.
#[tokio::test]
async fn a_release_and_the_next_claim_are_one_command() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let [holder, next, last] = [fair("k"), fair("k"), fair("k")];
    granted(take(&redis, &holder).await.unwrap());
    assert_eq!(ahead(&redis, &next).await, Some(0));
    let own = format!("redisson_lock__channel:{{k}}:{}", next.id);
    let mut its_own = subscriber(&server, &own);
    server.cmd(&["CONFIG", "RESETSTAT"]);
    let release_and_claim = |from: &Claim, to: &Claim| [Step::Release(from.clone()), Step::Claim(to.clone())];
    let answers = redis.apply(&release_and_claim(&holder, &next)).await;
    assert!(matches!(answers[0], Ok(Answer::Released(Released::Freed { others: Some(0) }))), "{answers:?}");
    assert!(matches!(answers[1], Ok(Answer::Claimed(Verdict::Granted { .. }))), "{answers:?}");
    let stats = server.cmd(&["INFO", "commandstats"]).text().to_owned();
    assert!(stats.contains("cmdstat_evalsha:calls=1,"), "{stats}");
    assert_eq!(server.hash("k").into_keys().next(), Some(next.id.to_string()));
    // The claim that has got the lock needs no notification.
    its_own.set_patience(Duration::from_millis(20)).unwrap();
    assert!(its_own.read().is_err());

    // If another client is next, it is notified, and the claim gets a place behind it.
    java_waits(&server, JAVA, now_ms() + WAIT);
    let own = format!("redisson_lock__channel:{{k}}:{JAVA}");
    let mut java = subscriber(&server, &own);
    let answers = redis.apply(&release_and_claim(&next, &last)).await;
    assert!(matches!(answers[0], Ok(Answer::Released(Released::Freed { others: Some(1) }))), "{answers:?}");
    assert!(matches!(answers[1], Ok(Answer::Claimed(Verdict::Busy { ahead: Some(1), .. }))), "{answers:?}");
    assert_eq!(java.read().unwrap().texts(), ["message", &own, "0"]);
    assert_eq!(queue(&server), [JAVA.to_owned(), last.id.to_string()]);
}

/// Calls that get their turns of one hold leave the queue at once.
#[tokio::test]
async fn claims_that_leave_together_do_not_bring_the_deadline_of_redisson_too_near() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let [holder, first, second] = [fair("k"), fair("k"), fair("k")];
    granted(take(&redis, &holder).await.unwrap());
    for claim in [&first, &second] {
        ahead(&redis, claim).await;
    }
    let until = now_ms() + 3 * WAIT / 2;
    java_waits(&server, JAVA, until);
    for claim in [&first, &second] {
        assert_eq!(release(&redis, claim).await.unwrap(), Released::LeftQueue);
    }
    let left = deadline(&server, JAVA) - now_ms();
    assert!((50_000..=60_000).contains(&left), "the deadline is {left} ms away");
    assert_eq!(queue(&server), [JAVA]);
}

#[tokio::test]
async fn a_fair_mutex_and_a_plain_mutex_exclude_each_other() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let (plain, ours) = (claim("k"), fair("k"));
    let token = granted(take(&redis, &plain).await.unwrap()).last();
    assert!(!is_granted(&redis, &ours).await);
    assert_eq!(redis.show(&plain.key).await.unwrap().kind, Some(Kind::Mutex));
    release(&redis, &plain).await.unwrap();
    let fences = granted(take(&redis, &ours).await.unwrap());
    assert!(fences.clone().take().unwrap() > token);
    assert_eq!(server.cmd(&["GET", "redisson_lock_token:{k}"]).text(), fences.last().to_string());
    assert_eq!(granted(take(&redis, &ours).await.unwrap()), fences);
    assert!(!is_granted(&redis, &plain).await);
    let row = redis.show(&plain.key).await.unwrap();
    assert_eq!((row.kind, row.holders[0].last_fence), (Some(Kind::Fair), Some(fences.last())));
    assert_eq!(pass(&redis, &ours, &fair("k")).await.unwrap_err().kind(), ErrorKind::Misused);
}

#[tokio::test]
async fn an_eviction_notifies_the_first_in_the_queue() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let (holder, waiter) = (fair("k"), fair("k"));
    granted(take(&redis, &holder).await.unwrap());
    ahead(&redis, &waiter).await;
    java_waits(&server, JAVA, now_ms() + WAIT);
    let mut its_own = subscriber(&server, &format!("redisson_lock__channel:{{k}}:{}", waiter.id));
    let row = redis.evict(&holder.key).await.unwrap().unwrap();
    assert_eq!((row.kind, row.queue), (Some(Kind::Fair), vec![waiter.id.to_string(), JAVA.to_owned()]));
    assert_eq!(its_own.read().unwrap().texts()[2], "0");
    assert!(is_granted(&redis, &waiter).await);
}

#[tokio::test]
async fn a_key_of_another_type_is_refused_and_stays_unchanged() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for plant in [&["SET", "k", "text"][..], &["RPUSH", "k", "x"], &["HSET", "k", "mode", "read", JAVA, "1"]] {
        server.cmd(plant);
        let before = server.cmd(&["DUMP", "k"]);
        assert_eq!(take(&redis, &fair("k")).await.unwrap_err().kind(), ErrorKind::Denied, "{plant:?}");
        assert_eq!(release(&redis, &fair("k")).await.unwrap(), Released::NotHeld, "{plant:?}");
        assert_eq!((server.cmd(&["DUMP", "k"]), server.keys()), (before, vec!["k".to_owned()]));
        server.cmd(&["DEL", "k"]);
    }
    // A queue of another type does not prevent the release.
    let held = fair("k");
    granted(take(&redis, &held).await.unwrap());
    server.cmd(&["SET", QUEUE, "text"]);
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) });
    assert_eq!(take(&redis, &held).await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(server.keys(), [QUEUE, "redisson_lock_token:{k}"]);
}

/// Two clients with several waiting claims each are served in the order in which the claims came.
#[tokio::test]
async fn claims_of_several_clients_are_served_in_their_order() {
    let server = RedisServer::start();
    let backends = [backend(&server), backend(&server)];
    let mut last = fair("k");
    granted(take(&backends[0], &last).await.unwrap());
    let client = last.id.client;
    let waiting: Vec<_> = (0..20)
        .map(|number| {
            let id = if number % 3 == 0 { ClaimId { client, number: 1_000 + number } } else { fair("k").id };
            (usize::from(number % 3 == 0), Claim { id, ..fair("k") })
        })
        .collect();
    for (number, (at, claim)) in (0..).zip(&waiting) {
        assert_eq!(ahead(&backends[*at], claim).await, Some(number));
    }
    for (number, (at, claim)) in waiting.iter().enumerate() {
        release(&backends[*at], &last).await.unwrap();
        for (at, later) in waiting.iter().skip(number + 1) {
            assert!(ahead(&backends[*at], later).await.is_some());
        }
        assert!(is_granted(&backends[*at], claim).await);
        last = claim.clone();
    }
}

/// In a long queue of our own claims, the deadlines stay until a claim of another library joins.
#[tokio::test]
async fn a_long_queue_is_served_in_its_order_and_its_deadlines_come_nearer_for_others() {
    const LENGTH: usize = 400;
    let server = RedisServer::start();
    let redis = backend(&server);
    let holder = fair("k");
    granted(take(&redis, &holder).await.unwrap());
    let claims: Vec<_> = (0..LENGTH).map(|_| fair("k")).collect();
    let steps: Vec<_> = claims.iter().cloned().map(Step::Claim).collect();
    for (number, answer) in (0..).zip(redis.apply(&steps).await) {
        let Ok(Answer::Claimed(Verdict::Busy { ahead, .. })) = answer else { panic!("{answer:?}") };
        assert_eq!(ahead, Some(number));
    }
    let mut last = holder;
    for claim in &claims[..LENGTH - 100] {
        let steps = [Step::Release(last), Step::Claim(claim.clone())];
        let answers = redis.apply(&steps).await;
        assert!(matches!(answers[1], Ok(Answer::Claimed(Verdict::Granted { .. }))), "{answers:?}");
        last = claim.clone();
    }
    let owner = claims[LENGTH - 1].id.to_string();
    assert!(deadline(&server, &owner) > now_ms() + 300 * WAIT);
    java_waits(&server, JAVA, deadline(&server, &owner) + WAIT);
    assert!(server.pttl("bandog:stayed:{k}") > 0);
    release(&redis, &last).await.unwrap();
    assert!(is_granted(&redis, &claims[LENGTH - 100]).await);
    for (owner, ahead) in [(owner.as_str(), 99), (JAVA, 100)] {
        let left = deadline(&server, owner) - now_ms();
        assert_eq!(server.cmd(&["EXISTS", "bandog:stayed:{k}"]).int(), 0);
        assert!((ahead * WAIT..=(ahead + 1) * WAIT + 30_000).contains(&left), "{owner}: {left}");
    }
}

#[tokio::test]
async fn a_waiter_leaves_although_a_later_command_is_refused() {
    let server = RedisServer::start();
    let redis = crate::help::at(&format!("redis://u:p@{}", server.addr()));
    // The rules, whether the waiter leaves, and the time that is taken off the deadline behind it.
    for (rules, leaves, taken_off) in
        [(&["-lrem"][..], false, 0), (&["-zrem"], false, 0), (&["-zadd"], true, 0), (&["+@all"], true, WAIT)]
    {
        server.cmd(&["ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all"]);
        let [holder, first, second] = [fair("k"), fair("k"), fair("k")];
        granted(take(&redis, &holder).await.unwrap());
        for claim in [&first, &second] {
            ahead(&redis, claim).await;
        }
        let behind = second.id.to_string();
        let before = deadline(&server, &behind);
        server.cmd(&[&["ACL", "SETUSER", "u"], rules].concat());
        if leaves {
            server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
            assert_eq!(release(&redis, &first).await.unwrap(), Released::LeftQueue, "{rules:?}");
            assert_eq!(release(&redis, &first).await.unwrap(), Released::NotHeld, "{rules:?}");
            assert_eq!(queue(&server), [second.id.to_string()]);
            server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
        } else {
            for _ in 0..2 {
                assert_eq!(release(&redis, &first).await.unwrap_err().kind(), ErrorKind::Denied, "{rules:?}");
            }
        }
        assert_eq!(deadline(&server, &behind), before - taken_off, "{rules:?}");
        server.cmd(&["FLUSHALL"]);
    }
}
