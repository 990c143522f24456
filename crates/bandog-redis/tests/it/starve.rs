//! A waiter that may not subscribe gets the lock beside busy clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{Claim, Error, Released, Renewal, Verdict};
use bandog_sync::Client;
use bandog_testkit::{RedisServer, eventually_async};
use tokio::{task::JoinHandle, time};

use crate::help::{TTL, at, backend, claim, fences, release, renew, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_may_not_subscribe_is_served() {
    for clients in [1, 2, 4] {
        let server = RedisServer::start();
        let busy: Vec<_> = (0..clients).map(|_| Client::over(backend(&server)).unwrap()).collect();
        let busy: Vec<_> = busy.iter().map(|client| Busy::start(client, 4)).collect();
        let limit = Duration::from_secs(10);
        eventually_async(limit, async || busy.iter().all(|busy| busy.turns() > 0)).await;
        let deaf = Client::over(at(&without_subscribe(&server))).unwrap();
        let deaf = Busy::start(&deaf, 1);
        for _ in 0..3 {
            let (ours, theirs) = (deaf.turns(), busy.iter().map(Busy::turns).collect::<Vec<_>>());
            eventually_async(limit, async || deaf.turns() > ours).await;
            eventually_async(limit, async || busy.iter().zip(&theirs).all(|(busy, turns)| busy.turns() > *turns)).await;
        }
        for tasks in busy.into_iter().chain([deaf]) {
            tasks.end().await;
        }
    }
}

/// The note that a client starves is a key of its own. A lock with the same name is not changed, and its waiters are
/// served.
#[tokio::test]
async fn a_lock_with_the_name_of_the_note_stays_unchanged() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (note, holder) = (claim("bandog:starving:{k}"), generous("k"));
    fences(&redis, &note).await;
    fences(&redis, &holder).await;
    let waiter = generous("k");
    busy(take(&redis, &waiter).await.unwrap());
    assert_eq!(release(&redis, &holder).await.unwrap(), Released::Freed { others: Some(0) });
    assert_eq!(renew(&redis, &note).await.unwrap(), Renewal::Extended { valid_for: TTL });
    fences(&redis, &waiter).await;
    assert_eq!(renew(&redis, &note).await.unwrap(), Renewal::Extended { valid_for: TTL });
}

/// The note and the offer expire. A full server does not prevent the release of a lock.
#[tokio::test]
async fn a_note_and_an_offer_expire() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (holder, waiter) = (generous("k"), generous("k"));
    fences(&redis, &holder).await;
    busy(take(&redis, &waiter).await.unwrap());
    let left = server.cmd(&["PTTL", "bandog:starving:{k}"]).int();
    assert!((1..=3000).contains(&left), "{left} ms");
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(release(&redis, &holder).await.unwrap(), Released::Freed { others: Some(0) });
    let left = server.cmd(&["PTTL", "k"]).int();
    assert!((-2..=250).contains(&left) && left != -1, "{left} ms");
    eventually_async(Duration::from_secs(5), async || server.keys() == ["redisson_lock_token:{k}"]).await;
}

/// A user that may not use the note's key can take locks.
#[tokio::test]
async fn locks_need_no_right_for_the_note() {
    let server = RedisServer::start();
    let mut users = vec!["~k ~redisson_lock_token:* &* +@all"];
    // Redis 7 also has users that may only read a key.
    if RedisServer::version().is_since(7, 0) {
        users.push("%R~* ~k ~redisson_lock_token:* &* +@all");
    }
    for rules in users {
        server
            .cmd(&[&["ACL", "SETUSER", "u", "reset", "on", ">p"], &rules.split(' ').collect::<Vec<_>>()[..]].concat());
        let (full, confined) = (backend(&server), at(&format!("redis://u:p@{}", server.addr())));
        let (holder, waiter) = (generous("k"), generous("k"));
        fences(&confined, &holder).await;
        busy(take(&confined, &waiter).await.unwrap());
        busy(take(&full, &waiter).await.unwrap());
        assert_eq!(release(&confined, &holder).await.unwrap(), Released::Freed { others: Some(0) });
        let next = claim("k");
        fences(&confined, &next).await;
        assert_eq!(release(&confined, &next).await.unwrap(), Released::Freed { others: Some(0) });
        server.cmd(&["DEL", "bandog:starving:{k}"]);
    }
}

/// A claim of a starving client. Its release makes an offer.
fn generous(name: &str) -> Claim {
    Claim { offers: true, ..claim(name) }
}

fn busy(verdict: Verdict) {
    assert!(matches!(verdict, Verdict::Busy { .. }), "{verdict:?}");
}

/// A user with the rights of locks, except SUBSCRIBE.
fn without_subscribe(server: &RedisServer) -> String {
    let rights = RedisServer::least_rights();
    let rules = [&["ACL", "SETUSER", "deaf"], &rights[..], &["-subscribe", "resetpass", ">p"]].concat();
    assert_eq!(server.cmd(&rules).text(), "OK");
    format!("redis://deaf:p@{}", server.addr())
}

/// Tasks of one client that take a lock repeatedly, and count their turns.
struct Busy {
    turns: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Result<(), Error>>>,
}

impl Busy {
    fn start(client: &Client, tasks: usize) -> Self {
        let turns = Arc::new(AtomicU64::new(0));
        let task = |_| {
            let (mutex, turns) = (client.mutex("orders"), Arc::clone(&turns));
            tokio::spawn(async move {
                loop {
                    let guard = mutex.lock().await?;
                    turns.fetch_add(1, Relaxed);
                    time::sleep(Duration::from_millis(5)).await;
                    drop(guard);
                }
            })
        };
        Self { tasks: (0..tasks).map(task).collect(), turns }
    }

    fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    async fn end(self) {
        for task in self.tasks {
            task.abort();
            assert!(task.await.is_err(), "it goes on until it is ended");
        }
    }
}
