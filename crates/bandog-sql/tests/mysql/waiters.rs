//! Many waiters of one client.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use bandog_sync::Client;
use bandog_testkit::MariaDbServer;
use tokio::task::JoinSet;

use crate::support::{SOON, open};

/// Number of waiters.
const WAITERS: usize = 100;
/// Number of connections that a client opens for everything but held locks.
const CONNECTIONS: u64 = 4;

/// The options of the URL, and the number of connections for held locks.
const LAYOUTS: [(&str, u64); 3] =
    [("", 0), ("?mode=rowlock&table=tb_lock&column=lockname&connections=1", 1), ("?mode=advisory&connections=1", 1)];

// Promise: MY19
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_waiters_of_one_client_need_no_more_connections() {
    let server = MariaDbServer::start();
    for (layout, held) in LAYOUTS {
        for names in [1, 10] {
            let (database, wire) = (server.new_database(), server.wire());
            server.sql(&database, "create table tb_lock (lockname varchar(64) not null primary key)");
            let user = MariaDbServer::LOCKS;
            let url = format!("mysql://{user}@127.0.0.1:{}/{database}{layout}", wire.port());
            expect_all_are_served(&url, names).await;
            let opened = wire.accepted();
            assert!(opened <= CONNECTIONS + held, "{opened} connections for {names} names, {layout:?}");
        }
    }
}

/// Each waiter gets its lock, one after the other.
async fn expect_all_are_served(url: &str, names: usize) {
    let client = Client::options().over(open(url)).unwrap();
    let (inside, mut waiters) = (Arc::new((0..names).map(|_| AtomicU32::new(0)).collect::<Vec<_>>()), JoinSet::new());
    for number in 0..WAITERS {
        let (mutex, inside) = (client.mutex(format!("lock {}", number % names)), inside.clone());
        waiters.spawn(async move {
            let guard = mutex.lock().await.unwrap();
            let inside = &inside[number % names];
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "the lock was granted twice");
            tokio::task::yield_now().await;
            assert!(!guard.is_lost());
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.unwrap();
        });
    }
    tokio::time::timeout(2 * SOON, waiters.join_all()).await.expect("a waiter was not served");
}
