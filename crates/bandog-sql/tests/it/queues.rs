//! Work queues: their tables, and answers that are lost.

use bandog_testkit::{PostgresServer, eventually_async};

use crate::{
    claims::{
        SOON,
        queues::{
            WAITING, dropped_tables_are_created_again, long_queue, lost_answers_change_nothing,
            missing_rights_are_named, missing_tables_are_named, use_of_a_long_queue, waiting_workers_are_counted,
        },
    },
    support::{SERVER, url},
};

#[tokio::test]
async fn tables_that_the_user_may_not_create_are_named() {
    let database = SERVER.new_database();
    let url = url(&SERVER, &database);
    let forbid = || {
        SERVER.sql(&database, "alter schema bandog owner to postgres; grant usage on schema bandog to locks");
    };
    let create = || {
        SERVER.sql(&database, "grant create on schema bandog to locks");
    };
    missing_tables_are_named(&url, forbid, create).await;
}

#[tokio::test]
async fn rights_that_the_user_lacks_are_named() {
    let database = SERVER.new_database();
    let forbid = || drop(SERVER.sql(&database, "revoke insert on bandog.bandog_work from locks"));
    missing_rights_are_named(&url(&SERVER, &database), forbid).await;
}

#[tokio::test]
async fn tables_that_are_gone_are_created_again() {
    let database = SERVER.new_database();
    let tables = ["work", "work_body", "work_kept", "work_queue"].map(|name| format!("bandog.bandog_{name}"));
    let drop_tables = || drop(SERVER.sql(&database, &format!("drop table {}", tables.join(", "))));
    dropped_tables_are_created_again(&url(&SERVER, &database), drop_tables).await;
}

#[tokio::test]
async fn a_report_of_a_worker_counts_those_that_wait() {
    waiting_workers_are_counted(&url(&SERVER, &SERVER.new_database())).await;
}

#[tokio::test]
async fn calls_without_answers_can_be_repeated() {
    let database = SERVER.new_database();
    let wire = SERVER.wire();
    let url = format!("postgres://{}@127.0.0.1:{}/{database}", PostgresServer::LOCKS, wire.port());
    lost_answers_change_nothing(&url, &wire).await;
}

/// The planner must not decide for a scan of a queue in which many elements wait, also if it knows little about the tables.
#[tokio::test]
async fn no_call_reads_the_elements_that_wait() {
    let database = SERVER.new_database();
    let url = url(&SERVER, &database);
    let forget_all = "delete from bandog.bandog_work; delete from bandog.bandog_work_body; analyze";
    long_queue(&url, 0).await;
    let sessions = format!("select count(*) from pg_stat_activity where datname = '{database}' and usename = 'locks'");
    let rows = "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables";
    let read = async || -> u64 {
        // A session reports what it has read when it ends, at the latest.
        eventually_async(SOON, async || SERVER.sql("postgres", &sessions) == "0").await;
        SERVER.sql(&database, rows).parse().unwrap()
    };
    // Also if the queue was empty when the server has looked at it.
    for (step, statistics) in (1..).zip(["", "analyze", forget_all]) {
        SERVER.sql(&database, statistics);
        if statistics == forget_all {
            long_queue(&url, step * WAITING).await;
        }
        let before = read().await;
        use_of_a_long_queue(&url).await;
        let rows = read().await - before;
        assert!(rows < WAITING, "{rows} rows were read, {statistics:?}");
    }
}
