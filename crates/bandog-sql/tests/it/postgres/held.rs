//! The modes `rowlock` and `advisory`: mutexes beside locks that other programs take in sessions of `psql`.

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::{Postgres, eventually_async};

use super::SERVER;
use crate::suite::{SOON, claim, held::ByHand, open, release, renew, take};

// Promise: PG23
#[tokio::test]
async fn a_table_that_cannot_have_rows_of_locks_is_refused() {
    let database = SERVER.new_database();
    for (table, part) in [
        ("select 1", "does not exist"),
        ("create table public.a (lockname text)", "unique key"),
        ("create table public.a (id int primary key)", "has no column"),
        ("create table public.a (lockname int primary key)", "no text"),
    ] {
        SERVER.sql(&database, &format!("drop table if exists public.a; {table}"));
        let options = "mode=rowlock&table=a&column=lockname";
        let error = open(&format!("{}?{options}", SERVER.url(&database))).ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// A session with a snapshot delays `create index concurrently` of other tables. The library of connections leaves the result
/// of the last statement of a transaction open, and its snapshot with it.
// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_holds_a_lock_has_no_snapshot() {
    let [rows, numbers] = ByHand::<Postgres>::both();
    let leases = ByHand::new(rows.mode);
    let usual = leases.place.url();
    for (hand, url) in [(&rows, rows.url()), (&numbers, numbers.url()), (&leases, usual)] {
        let (store, ours, database) = (open(&url), claim("k"), &hand.place.database);
        let is_without = async |when: &str| {
            let snapshots = "select count(*) from pg_stat_activity where datname = current_database() \
                             and pid <> pg_backend_pid() and backend_xmin is not null";
            eventually_async(SOON, async || SERVER.sql(database, snapshots) == "0").await;
            let mut session = hand.session();
            let create = "drop table if exists public.other; create table public.other (id int); set statement_timeout = '20s'; \
                          create index concurrently on public.other (id)";
            tokio::task::spawn_blocking(move || session.ask(create)).await.unwrap();
            let valid = "select count(*) from pg_index where indrelid = 'public.other'::regclass and indisvalid";
            assert_eq!(SERVER.sql(database, valid), "1", "{when}, {url}");
        };
        take(&store, &ours).await;
        is_without("after the claim").await;
        renew(&store, &ours).await.unwrap();
        is_without("after a renewal").await;
        release(&store, &ours).await;
        is_without("after the release").await;
    }
}
