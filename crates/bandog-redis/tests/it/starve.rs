//! A client starves if it has waited for a lock for a second or more, because other clients take the lock again and
//! again. These tests check that such a client gets the lock, even if it has no right to subscribe.
//!
//! The claims of a starving client set the starving key, `bandog:starving:{k}` for the lock `k`. The next release then
//! makes an offer: it reserves the lock for starving clients for a short time.

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

// Promise: L13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_may_not_subscribe_is_served() {
    for clients in [1, 2, 4] {
        let server = RedisServer::start();
        let busy: Vec<_> = (0..clients).map(|_| Client::over(backend(&server)).unwrap()).collect();
        let busy: Vec<_> = busy.iter().map(|client| BusyTasks::start(client, 4)).collect();
        let limit = Duration::from_secs(10);
        eventually_async(limit, async || busy.iter().all(|busy| busy.grants() > 0)).await;
        let polling = Client::over(at(&without_subscribe(&server))).unwrap();
        let polling = BusyTasks::start(&polling, 1);
        for _ in 0..3 {
            let (ours, theirs) = (polling.grants(), busy.iter().map(BusyTasks::grants).collect::<Vec<_>>());
            eventually_async(limit, async || polling.grants() > ours).await;
            eventually_async(limit, async || busy.iter().zip(&theirs).all(|(busy, grants)| busy.grants() > *grants))
                .await;
        }
        for tasks in busy.into_iter().chain([polling]) {
            tasks.end().await;
        }
    }
}

/// A lock can have a name that is the starving key of another lock. The lock with this name is not changed, and a
/// waiter of the other lock is served.
#[tokio::test]
async fn a_lock_with_the_name_of_the_starving_key_stays_unchanged() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (starving_key, holder) = (claim("bandog:starving:{k}"), claim_with_offers("k"));
    fences(&redis, &starving_key).await;
    fences(&redis, &holder).await;
    let waiter = claim_with_offers("k");
    busy(take(&redis, &waiter).await.unwrap());
    assert_eq!(release(&redis, &holder).await.unwrap(), Released::Freed { others: Some(0) });
    assert_eq!(renew(&redis, &starving_key).await.unwrap(), Renewal::Extended { valid_for: TTL });
    fences(&redis, &waiter).await;
    assert_eq!(renew(&redis, &starving_key).await.unwrap(), Renewal::Extended { valid_for: TTL });
}

/// The starving key and the offer expire. A full server does not prevent the release of a lock.
// Promise: L13
#[tokio::test]
async fn the_starving_key_and_an_offer_expire() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (holder, waiter) = (claim_with_offers("k"), claim_with_offers("k"));
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

/// A user without the right to use the starving key can take locks.
// Promise: L13
#[tokio::test]
async fn locks_need_no_right_for_the_starving_key() {
    let server = RedisServer::start();
    let mut users = vec!["~k ~redisson_lock_token:* &* +@all"];
    // Since Redis 7, a user can have the right to read a key without the right to write it.
    if RedisServer::version().is_since(7, 0) {
        users.push("%R~* ~k ~redisson_lock_token:* &* +@all");
    }
    for rules in users {
        server
            .cmd(&[&["ACL", "SETUSER", "u", "reset", "on", ">p"], &rules.split(' ').collect::<Vec<_>>()[..]].concat());
        let (full, confined) = (backend(&server), at(&format!("redis://u:p@{}", server.addr())));
        let (holder, waiter) = (claim_with_offers("k"), claim_with_offers("k"));
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

/// A claim of a client that takes part in offers. If the lock is busy, the claim sets the starving key. If the starving
/// key is set, the release makes an offer.
fn claim_with_offers(name: &str) -> Claim {
    Claim { offers: true, ..claim(name) }
}

fn busy(verdict: Verdict) {
    assert!(matches!(verdict, Verdict::Busy { .. }), "{verdict:?}");
}

/// The URL of a user that has all rights of locks except SUBSCRIBE, so its client polls.
fn without_subscribe(server: &RedisServer) -> String {
    let rights = RedisServer::least_rights();
    let rules = [&["ACL", "SETUSER", "polling"], &rights[..], &["-subscribe", "resetpass", ">p"]].concat();
    assert_eq!(server.cmd(&rules).text(), "OK");
    format!("redis://polling:p@{}", server.addr())
}

/// Tasks of one client that take and release a lock repeatedly, and count the grants.
struct BusyTasks {
    grants: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Result<(), Error>>>,
}

impl BusyTasks {
    fn start(client: &Client, tasks: usize) -> Self {
        let grants = Arc::new(AtomicU64::new(0));
        let task = |_| {
            let (mutex, grants) = (client.mutex("orders"), Arc::clone(&grants));
            tokio::spawn(async move {
                loop {
                    let guard = mutex.lock().await?;
                    grants.fetch_add(1, Relaxed);
                    time::sleep(Duration::from_millis(5)).await;
                    drop(guard);
                }
            })
        };
        Self { tasks: (0..tasks).map(task).collect(), grants }
    }

    fn grants(&self) -> u64 {
        self.grants.load(Relaxed)
    }

    async fn end(self) {
        for task in self.tasks {
            task.abort();
            assert!(task.await.is_err(), "a task ended before it was aborted");
        }
    }
}
