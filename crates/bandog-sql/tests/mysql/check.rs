//! The check for operators.

use bandog_core::{Inspect, Level};
use bandog_testkit::MariaDbServer;

use crate::support::{BARE_SERVER, open, url};

#[tokio::test]
async fn the_check_reports_what_endangers_locks() {
    let database = BARE_SERVER.new_database();
    let store = open(&url(&BARE_SERVER, &database));
    let level = async |subject: &str| {
        let findings = store.check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == subject).map(|finding| finding.level)
    };
    for fine in
        ["server", "innodb_flush_log_at_trx_commit", "sync_binlog", "tables", "replicas", "connections", "clock"]
    {
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
    let store = open(&url(&server, &server.new_database()));
    let findings = store.check().await.unwrap();
    let level = |subject: &str| findings.iter().find(|finding| finding.subject == subject).map(|finding| finding.level);
    for danger in ["innodb_flush_log_at_trx_commit", "innodb_doublewrite"] {
        assert_eq!(level(danger), Some(Level::Danger), "{danger}: {findings:?}");
    }
    for advice in ["sync_binlog", "replicas", "connections"] {
        assert_eq!(level(advice), Some(Level::Advice), "{advice}: {findings:?}");
    }
}
