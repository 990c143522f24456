//! Work queues: their tables, and answers that are lost.

use bandog_testkit::MariaDbServer;

use crate::{
    claims::queues::{
        WAITING, dropped_tables_are_created_again, long_queue, lost_answers_change_nothing, missing_rights_are_named,
        missing_tables_are_named, use_of_a_long_queue, waiting_workers_are_counted,
    },
    support::{SERVER, url},
};

#[tokio::test]
async fn tables_that_the_user_may_not_create_are_named() {
    let database = SERVER.new_database();
    let grant = |rights: &str| {
        SERVER.sql("mysql", &format!("grant {rights} on {database}.* to locks@'%'"));
    };
    let forbid = || {
        SERVER.sql("mysql", &format!("revoke all on {database}.* from locks@'%'"));
        grant("select, insert, update, delete");
    };
    missing_tables_are_named(&url(&SERVER, &database), forbid, || grant("create")).await;
}

#[tokio::test]
async fn rights_that_the_user_lacks_are_named() {
    let database = SERVER.new_database();
    let forbid = || {
        SERVER.sql("mysql", &format!("revoke all on {database}.* from locks@'%'"));
        let tables = SERVER.sql(&database, "show tables");
        for table in tables.lines().filter(|table| *table != "bandog_work") {
            SERVER.sql("mysql", &format!("grant select, insert, update, delete on {database}.{table} to locks@'%'"));
        }
    };
    missing_rights_are_named(&url(&SERVER, &database), forbid).await;
}

#[tokio::test]
async fn tables_that_are_gone_are_created_again() {
    let database = SERVER.new_database();
    let tables = ["work", "work_body", "work_kept", "work_queue", "work_lock"].map(|name| format!("bandog_{name}"));
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
    let url = format!("mysql://{}@127.0.0.1:{}/{database}", MariaDbServer::LOCKS, wire.port());
    lost_answers_change_nothing(&url, &wire).await;
}

/// The planner must not decide for a scan of a queue in which many elements wait, also if it knows little about the tables.
#[tokio::test]
async fn no_call_reads_the_elements_that_wait() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    let url = url(&server, &database);
    let analyze = "analyze table bandog_work, bandog_work_body, bandog_work_kept";
    let forget_all = format!("delete from bandog_work; delete from bandog_work_body; {analyze}");
    long_queue(&url, 0).await;
    // Also if the queue was empty when the server has looked at it.
    for (step, statistics) in (1..).zip(["do 0", analyze, &forget_all]) {
        server.sql(&database, statistics);
        if statistics == forget_all {
            long_queue(&url, step * WAITING).await;
        }
        // The rows that a session reads one after the other, of a table or of an index.
        let read = || server.status(&["Handler_read_rnd_next", "Handler_read_next", "Handler_read_prev"]);
        let before = read();
        use_of_a_long_queue(&url).await;
        let rows = read() - before;
        assert!(rows < WAITING, "{rows} rows were read by scans, {statistics:?}");
    }
}
