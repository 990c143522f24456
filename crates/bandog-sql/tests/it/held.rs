//! The modes `rowlock` and `advisory`: mutexes beside locks that other programs take in sessions of `psql`.

use std::process::Command;

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::eventually_async;

use crate::{
    claims::{
        held::{self, ByHand},
        terminal::Terminal,
    },
    support::{SERVER, SOON, claim, open, release, renew, take, url},
};

/// Creates the table of the rows.
pub(crate) const TABLE: &str =
    "create table public.tb_lock (id serial primary key, lockname varchar(64) not null unique);
     grant select, insert, update on public.tb_lock to locks;
     grant usage on sequence public.tb_lock_id_seq to locks;";

fn psql(database: &str) -> Terminal {
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-A", "-t", "-U", "postgres", "-d", database, "-p", &SERVER.port().to_string()]);
    Terminal::start(command.arg("-h").arg(SERVER.directory()))
}

/// A database of each mode.
pub(crate) fn both() -> [ByHand; 2] {
    [rowlock(), advisory()]
}

fn rowlock() -> ByHand {
    let hand = ByHand {
        attempt: "begin; select lockname from tb_lock where lockname = 'k' for update skip locked",
        wait: "begin; select lockname from tb_lock where lockname = 'k' for update",
        free: "commit",
        success: "k",
        ..advisory()
    };
    SERVER.sql(&hand.database, TABLE);
    let url = hand.url.replace("mode=advisory", "mode=rowlock&table=tb_lock&column=lockname");
    ByHand { url, ..hand }
}

fn advisory() -> ByHand {
    let database = SERVER.new_database();
    ByHand {
        url: format!("{}?mode=advisory", url(&SERVER, &database)),
        database,
        sql: |database, statements| SERVER.sql(database, statements),
        end_sessions: |database| SERVER.end_sessions(database),
        terminal: psql,
        attempt: "select pg_try_advisory_lock(hashtextextended('k', 0))",
        wait: "select 't' from pg_advisory_lock(hashtextextended('k', 0))",
        free: "select pg_advisory_unlock_all()",
        success: "t",
        leases: "bandog.bandog_lease",
    }
}

// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn sessions_by_hand_and_ours_exclude_each_other() {
    for hand in both() {
        held::both_sides_exclude_each_other(&hand).await;
    }
}

// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_under_sessions_by_hand_and_ours_is_exact() {
    for hand in both() {
        held::a_contended_counter_is_exact(&hand).await;
    }
}

// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_the_lock_of_a_session_that_ends() {
    for hand in both() {
        held::a_waiter_gets_the_lock_of_a_session_that_ends(&hand).await;
    }
}

// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_is_lost_with_its_session() {
    for hand in both() {
        held::a_guard_is_lost_with_its_session(&hand).await;
    }
}

// Promise: PG24
#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_connections_is_limited() {
    for hand in both() {
        held::the_number_of_connections_is_limited(&hand).await;
    }
}

// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_before_its_batch_is_answered_is_no_grant() {
    for hand in both() {
        held::a_session_that_ends_before_its_batch_is_answered_is_no_grant(&hand).await;
    }
}

// Promise: PG25
#[tokio::test(flavor = "multi_thread")]
async fn the_check_tries_a_row() {
    held::the_check_tries_a_row(&rowlock(), "revoke update on public.tb_lock from locks").await;
}

// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_release_after_the_end_of_the_session_is_a_loss() {
    for hand in both() {
        held::a_release_after_the_end_of_the_session_is_a_loss(&hand).await;
    }
}

// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_release_during_a_renewal_is_answered() {
    for hand in both() {
        held::a_release_during_a_renewal_is_answered(&hand).await;
    }
}

// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_release_beside_a_locked_lease_is_no_loss() {
    for hand in both() {
        held::a_release_beside_a_locked_lease_is_no_loss(&hand).await;
    }
}

// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_expires_after_its_ttl() {
    for hand in both() {
        held::a_hold_expires_after_its_ttl(&hand).await;
    }
}

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
        let error = open(&format!("{}?{options}", url(&SERVER, &database))).ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// A session with a snapshot delays `create index concurrently` of other tables. The library of connections leaves the result
/// of the last statement of a transaction open, and its snapshot with it.
// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_holds_a_lock_has_no_snapshot() {
    let leases = advisory();
    let leases = ByHand { url: url(&SERVER, &leases.database), ..leases };
    for hand in [rowlock(), advisory(), leases] {
        let (store, ours) = (hand.store(), claim("k"));
        let is_without = async |when: &str| {
            let snapshots = "select count(*) from pg_stat_activity where datname = current_database() \
                             and pid <> pg_backend_pid() and backend_xmin is not null";
            eventually_async(SOON, async || SERVER.sql(&hand.database, snapshots) == "0").await;
            let database = hand.database.clone();
            let create = "drop table if exists other; create table other (id int); set statement_timeout = '20s'; \
                          create index concurrently on other (id)";
            tokio::task::spawn_blocking(move || psql(&database).ask(create)).await.unwrap();
            let valid = "select count(*) from pg_index where indrelid = 'other'::regclass and indisvalid";
            assert_eq!(SERVER.sql(&hand.database, valid), "1", "{when}, {}", hand.url);
        };
        take(&store, &ours).await;
        is_without("after the claim").await;
        renew(&store, &ours).await.unwrap();
        is_without("after a renewal").await;
        release(&store, &ours).await;
        is_without("after the release").await;
    }
}
