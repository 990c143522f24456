//! The check for operators.

use bandog_core::{ErrorKind, Inspect, Leases, Level};
use bandog_testkit::PostgresServer;

use super::SERVER;
use crate::suite::open;

#[tokio::test]
async fn the_check_reports_what_endangers_locks() {
    let database = SERVER.new_database();
    let store = open(&SERVER.url(&database));
    let level = async |subject: &str| {
        let findings = store.check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == subject).map(|finding| finding.level)
    };
    // The servers of tests write nothing to the disk.
    assert_eq!(level("fsync").await, Some(Level::Danger));
    for fine in [
        "full_page_writes",
        "synchronous_commit",
        "tables",
        "replicas",
        "connections",
        "clock",
        "rights",
        "time zone",
        "isolation",
    ] {
        assert_eq!(level(fine).await, Some(Level::Fine), "{fine}");
    }
    SERVER.sql(&database, "alter table bandog.bandog_lease set unlogged");
    assert_eq!(level("tables").await, Some(Level::Danger));
}

// Promise: PG12
#[tokio::test]
async fn the_check_reports_missing_rights_and_what_the_sessions_replace() {
    let database = SERVER.new_database();
    SERVER.sql(&database, &format!("alter database {database} set timezone to 'Europe/Berlin'"));
    SERVER.sql(&database, &format!("alter database {database} set default_transaction_isolation to 'serializable'"));
    let administrator = SERVER.administrator(&database);
    open(&administrator).ping().await.unwrap();
    let user = "locks";
    SERVER.sql(&database, &format!("grant usage on schema bandog to {user}"));
    SERVER.sql(&database, &format!("grant select, insert, update, delete on all tables in schema bandog to {user}"));
    SERVER.sql(&database, &format!("revoke insert on bandog.bandog_line from {user}"));
    SERVER.sql(&database, &format!("revoke delete on bandog.bandog_record from {user}"));
    let findings = open(&SERVER.url(&database)).check().await.unwrap();
    let find = |subject: &str| findings.iter().find(|finding| finding.subject == subject).unwrap();
    assert_eq!(find("rights").level, Level::Danger);
    assert_eq!(
        find("rights").says,
        "the user lacks these rights: delete on bandog.bandog_record, insert on bandog.bandog_line"
    );
    assert!(find("time zone").says.contains("Europe/Berlin"), "{findings:?}");
    assert!(find("isolation").says.contains("SERIALIZABLE"), "{findings:?}");
}

/// The user may read nothing, so no session of a client is possible. The check reads the catalogue.
// Promise: PG12
#[tokio::test]
async fn the_check_lists_the_rights_of_a_user_without_any_and_the_cure_grants_them() {
    let database = SERVER.new_database();
    let administrator = SERVER.administrator(&database);
    open(&administrator).ping().await.unwrap();
    SERVER.sql(&database, "create schema app; create table app.jobs (lockname varchar(64) primary key)");
    SERVER.sql("postgres", &format!("revoke create on database {database} from locks"));
    let url = format!("{}?mode=rowlock&table=app.jobs&column=lockname", SERVER.url(&database));
    // Each step of an administrator shows the rights that are still missing.
    for (grant, missing) in [
        ("", "usage on schema"),
        ("grant usage on schema bandog to locks; grant usage on schema app to locks", "select on bandog.bandog_meta"),
        ("grant select on all tables in schema bandog to locks", "insert on bandog.bandog_meta"),
    ] {
        SERVER.sql(&database, grant);
        let findings = open(&url).check().await.unwrap();
        let rights = findings.iter().find(|finding| finding.subject == "rights").expect("no finding");
        assert_eq!(rights.level, Level::Danger, "{rights:?}");
        assert!(rights.says.contains(&format!("lacks these rights: {missing}")), "{grant}: {rights:?}");
        assert!(
            rights.says.contains("insert on app.jobs") && !rights.says.contains("delete on app.jobs"),
            "{rights:?}"
        );
    }
    SERVER.sql(&database, &cure_of(&open(&url).check().await.unwrap()));
    let rights = open(&url).check().await.unwrap().into_iter().find(|finding| finding.subject == "rights").unwrap();
    assert_eq!(rights.level, Level::Fine, "{rights:?}");
    open(&url).ping().await.unwrap();
}

// Promise: PG12
#[tokio::test]
async fn the_check_says_that_a_user_may_not_create_the_tables() {
    let database = SERVER.new_database();
    SERVER.sql("postgres", &format!("revoke create on database {database} from locks"));
    let url = SERVER.url(&database);
    let findings = open(&url).check().await.unwrap();
    assert!(findings[0].says.contains(&format!("create on database {database}")), "{findings:?}");
    SERVER.sql(&database, "create schema bandog");
    let findings = open(&url).check().await.unwrap();
    assert!(findings[0].says.contains("usage on schema bandog, create on schema bandog"), "{findings:?}");
    SERVER.sql(&database, &cure_of(&findings));
    open(&url).ping().await.unwrap();
}

/// A login that is refused says nothing about rights.
#[tokio::test]
async fn the_check_of_a_wrong_login_is_the_error() {
    let url = format!("postgres://locks:wrong@127.0.0.1:{}/{}", SERVER.port(), SERVER.new_database());
    let error = open(&url).check().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.is_about_login(), "{error}");
}

/// The statements of the cure of the finding about rights.
fn cure_of(findings: &[bandog_core::Finding]) -> String {
    let rights = findings.iter().find(|finding| finding.subject == "rights").expect("no finding");
    let cure = rights.cure.as_ref().unwrap();
    cure.split_once("execute: ").unwrap().1.split("; or ").next().unwrap().to_owned()
}

/// A holder that is stopped inside a transaction of its own keeps the rows of its data locked.
#[tokio::test]
async fn the_check_reports_a_database_without_a_limit_for_idle_transactions() {
    let database = SERVER.new_database();
    let check = async || {
        let findings = open(&SERVER.url(&database)).check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == "idle transactions").expect("no finding")
    };
    let finding = check().await;
    assert_eq!(finding.level, Level::Advice);
    assert!(finding.cure.unwrap().contains("idle_in_transaction_session_timeout = '30s'"));
    SERVER.sql(&database, &format!("alter database {database} set idle_in_transaction_session_timeout to '45s'"));
    let finding = check().await;
    assert_eq!((finding.level, finding.cure), (Level::Fine, None));
    assert!(finding.says.contains("45 s"), "{}", finding.says);
}

#[tokio::test]
async fn the_check_reports_a_server_that_is_nearly_full() {
    let server = PostgresServer::start_with(&["max_connections=15", "synchronous_commit=off"]);
    let store = open(&server.url(&server.new_database()));
    let findings = store.check().await.unwrap();
    let level = |subject: &str| findings.iter().find(|finding| finding.subject == subject).map(|finding| finding.level);
    assert_eq!((level("connections"), level("synchronous_commit")), (Some(Level::Advice), Some(Level::Danger)));
}
