//! The check for operators.

use bandog_core::{ErrorKind, Inspect, Leases, Level};
use bandog_testkit::MariaDbServer;

use super::{BARE_SERVER, SERVER};
use crate::suite::open;

#[tokio::test]
async fn the_check_reports_what_endangers_locks() {
    let database = BARE_SERVER.new_database();
    let store = open(&BARE_SERVER.url(&database));
    let level = async |subject: &str| {
        let findings = store.check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == subject).map(|finding| finding.level)
    };
    let ours = ["server", "tables", "replicas", "connections", "clock", "rights", "time zone", "isolation"];
    for fine in ours.into_iter().chain(["innodb_flush_log_at_trx_commit", "sync_binlog"]) {
        assert_eq!(level(fine).await, Some(Level::Fine), "{fine}");
    }
    BARE_SERVER.sql(&database, "alter table bandog_client engine = MyISAM");
    assert_eq!(level("tables").await, Some(Level::Danger));
}

#[tokio::test]
async fn the_check_reports_a_server_that_loses_commits() {
    let server = MariaDbServer::start_with(&[
        "max-connections=15",
        "innodb-flush-log-at-trx-commit=2",
        "skip-innodb-doublewrite",
        "log-bin",
        "sync-binlog=0",
    ]);
    let store = open(&server.url(&server.new_database()));
    let findings = store.check().await.unwrap();
    let level = |subject: &str| findings.iter().find(|finding| finding.subject == subject).map(|finding| finding.level);
    for danger in ["innodb_flush_log_at_trx_commit", "innodb_doublewrite"] {
        assert_eq!(level(danger), Some(Level::Danger), "{danger}: {findings:?}");
    }
    for advice in ["sync_binlog", "replicas", "connections"] {
        assert_eq!(level(advice), Some(Level::Advice), "{advice}: {findings:?}");
    }
}

// Promise: MY12
#[tokio::test]
async fn the_check_reports_missing_rights_and_what_the_sessions_replace() {
    let server = MariaDbServer::start_with(&["default-time-zone=+02:00", "transaction-isolation=SERIALIZABLE"]);
    let database = server.new_database();
    let administrator = server.administrator(&database);
    open(&administrator).ping().await.unwrap();
    let user = "locks@'%'";
    server.sql("mysql", &format!("revoke all on {database}.* from {user}; grant select on {database}.* to {user}"));
    for table in ["meta", "fence", "lease", "record", "line", "client", "channel"] {
        let rights = match table {
            "line" => "update, delete",
            "record" => "insert, update",
            _ => "insert, update, delete",
        };
        server.sql("mysql", &format!("grant {rights} on {database}.bandog_{table} to {user}"));
    }
    let findings = open(&server.url(&database)).check().await.unwrap();
    let find = |subject: &str| findings.iter().find(|finding| finding.subject == subject).unwrap();
    assert_eq!(find("rights").level, Level::Danger);
    let lacking = format!("delete on `{database}`.bandog_record, insert on `{database}`.bandog_line");
    assert_eq!(find("rights").says, format!("the user lacks these rights: {lacking}"));
    assert!(find("time zone").says.contains("+02:00"), "{findings:?}");
    assert!(find("isolation").says.contains("SERIALIZABLE"), "{findings:?}");
}

/// The user may not even read the version of the tables, so no session of a client is possible.
// Promise: MY12
#[tokio::test]
async fn the_check_lists_the_rights_of_a_user_with_few_and_the_cure_grants_them() {
    let database = SERVER.new_database();
    let administrator = SERVER.administrator(&database);
    open(&administrator).ping().await.unwrap();
    let user = "locks@'%'";
    SERVER.sql("mysql", &format!("revoke all on {database}.* from {user}"));
    let denied = open(&SERVER.url(&database)).check().await.unwrap_err();
    let grant = format!("grant select, insert, update, delete, create on `{database}`.* to 'locks'@'%'");
    assert!(denied.kind() == ErrorKind::Denied && denied.to_string().contains(&grant), "{denied}");

    SERVER.sql("mysql", &format!("grant select on {database}.bandog_lease to {user}"));
    let findings = open(&SERVER.url(&database)).check().await.unwrap();
    let [rights] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((rights.subject.as_str(), rights.level), ("rights", Level::Danger));
    for missing in ["select on `DB`.bandog_meta", "insert on `DB`.bandog_lease"] {
        assert!(rights.says.contains(&missing.replace("DB", &database)), "{rights:?}");
    }
    let cure = rights.cure.as_ref().unwrap();
    SERVER.sql("mysql", cure.split_once("execute: ").unwrap().1.split(" (with the host").next().unwrap());
    let findings = open(&SERVER.url(&database)).check().await.unwrap();
    let rights = findings.iter().find(|finding| finding.subject == "rights").unwrap();
    assert_eq!(rights.level, Level::Fine, "{rights:?}");
}

/// This format does not allow the isolation level of the sessions.
// Promise: MY27
#[tokio::test]
async fn a_server_whose_binary_log_has_statements_is_refused_with_the_cure() {
    let server = MariaDbServer::start_with(&["log-bin", "binlog-format=STATEMENT"]);
    let error = open(&server.url(&server.new_database())).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("set binlog_format to MIXED or ROW"), "{error}");
}
