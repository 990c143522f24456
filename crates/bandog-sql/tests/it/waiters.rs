//! Many waiters of one client, which has few connections.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog_core::Fence;
use bandog_sql::{Sql, SqlOptions};
use bandog_sync::Client;

use crate::{
    held,
    support::{SERVER, raw, url},
};

const WAITERS: usize = 100;
/// Number of connections of a client, without those that hold locks.
const USUAL: i64 = 4;
/// Maximum duration of a test.
const LIMIT: Duration = Duration::from_secs(120);

/// A hundred calls of one client wait for these names, and all of them are served. Returns the maximum number of the client's
/// sessions.
async fn serve(database: &str, url: &str, names: usize) -> i64 {
    let store = Sql::new(SqlOptions::from_url(url).unwrap()).unwrap();
    let client = Client::options().over(store).unwrap();
    let first = client.mutex("name 0").lock().await.unwrap();
    let holders: Arc<Mutex<HashMap<String, (bool, Fence)>>> = Arc::default();
    let hand = Arc::new(raw(&SERVER, database).await);
    let sessions = format!("select count(*) from pg_stat_activity where datname = '{database}' and usename = 'locks'");
    let waiting: Vec<_> = (0..WAITERS)
        .map(|number| {
            let mutex = client.mutex(format!("name {}", number % names));
            let (holders, hand, sessions) = (holders.clone(), hand.clone(), sessions.clone());
            tokio::spawn(async move {
                let guard = mutex.lock().await.unwrap();
                let (name, fence) = (guard.key().to_string(), guard.fence());
                if let Some((is_held, last)) = holders.lock().unwrap().insert(name.clone(), (true, fence)) {
                    assert!(!is_held, "{name} was granted twice");
                    assert!(fence > last, "{fence} after {last}");
                }
                let count: i64 = hand.query_one(&sessions, &[]).await.unwrap().get(0);
                assert!(!guard.is_lost());
                holders.lock().unwrap().insert(name, (false, fence));
                guard.release().await.unwrap();
                count
            })
        })
        .collect();
    first.release().await.unwrap();
    let mut max = 0;
    for task in waiting {
        max = max.max(tokio::time::timeout(LIMIT, task).await.expect("a waiter is not served").unwrap());
    }
    max
}

// Promise: PG24
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_waiters_share_the_usual_connections() {
    for names in [1, 10] {
        let database = SERVER.new_database();
        let sessions = serve(&database, &url(&SERVER, &database), names).await;
        assert!(sessions <= USUAL, "{names} names needed {sessions} sessions");
    }
}

/// Only one of the locks can be held at a time.
// Promise: PG24
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_waiters_share_one_connection_for_held_locks() {
    for names in [1, 10] {
        for hand in held::both() {
            let sessions = serve(&hand.database, &format!("{}&connections=1", hand.url), names).await;
            assert!(sessions <= USUAL + 1, "{}: {names} names needed {sessions} sessions", hand.url);
        }
    }
}
