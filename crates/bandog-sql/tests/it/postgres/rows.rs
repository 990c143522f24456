//! The rows of the tables.

use bandog_core::{Inspect, Renewal};
use bandog_testkit::{PostgresServer, eventually_async};

use super::SERVER;
use crate::suite::{SOON, claim, open, take};

/// The test has a server of its own: while a transaction is open in any database of a server, sessions remove old versions
/// of rows late.
// Promise: PG9
#[tokio::test]
async fn renewals_write_no_index() {
    let server = PostgresServer::start();
    let database = server.new_database();
    let store = open(&server.url(&database));
    let claims: Vec<_> = (0..50).map(|n| claim(&format!("name {n}"))).collect();
    for claim in &claims {
        take(&store, claim).await;
    }
    for _ in 0..40 {
        for renewal in bandog_core::Leases::renew(&store, &claims).await {
            assert!(matches!(renewal.unwrap(), Renewal::Extended { .. }));
        }
    }
    // The statistics arrive after the session has been idle for a moment.
    let query =
        "select n_tup_upd - n_tup_hot_upd, n_tup_upd >= 2000 from pg_stat_user_tables where relname = 'bandog_lease'";
    let all_hot = async || match server.sql(&database, query) {
        found if found.ends_with("|t") => Ok(found),
        found => Err(found),
    };
    let found = eventually_async(SOON, all_hot).await;
    let cold: u32 = found.split('|').next().unwrap().parse().unwrap();
    assert!(cold <= 40, "{cold} of more than 2000 updates were not HOT");
}

/// Rows of one lock in a table of many.
#[tokio::test]
async fn a_read_of_named_locks_uses_the_index() {
    let database = SERVER.new_database();
    let (store, ours) = (open(&SERVER.url(&database)), claim("k"));
    take(&store, &ours).await;
    let fill = "insert into bandog.bandog_fence select 'free ' || n, 1 from generate_series(1, 5000) n;
                insert into bandog.bandog_lease (name) select 'free ' || n from generate_series(1, 5000) n";
    SERVER.sql(&database, fill);
    let read = async || {
        for _ in 0..3 {
            assert!(store.show(&ours.key).await.unwrap().is_held());
        }
        // The statistics of a session arrive when it ends.
        SERVER.end_sessions(&database);
    };
    read().await;
    let rows = "select seq_tup_read + coalesce(idx_tup_fetch, 0) < 1000 from pg_stat_user_tables \
                where relname = 'bandog_lease' and idx_tup_fetch > 2";
    eventually_async(SOON, async || SERVER.sql(&database, rows) == "t").await;
}
