//! The check for operators.

use bandog_core::{Inspect, Level};
use bandog_testkit::PostgresServer;

use crate::support::{SERVER, open, url};

#[tokio::test]
async fn the_check_reports_what_endangers_locks() {
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    let level = async |subject: &str| {
        let findings = store.check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == subject).map(|finding| finding.level)
    };
    // The servers of tests write nothing to the disk.
    assert_eq!(level("fsync").await, Some(Level::Danger));
    for fine in ["full_page_writes", "synchronous_commit", "tables", "replicas", "connections", "clock"] {
        assert_eq!(level(fine).await, Some(Level::Fine), "{fine}");
    }
    SERVER.sql(&database, "alter table bandog.bandog_lease set unlogged");
    assert_eq!(level("tables").await, Some(Level::Danger));
}

#[tokio::test]
async fn the_check_reports_a_server_that_is_nearly_full() {
    let server = PostgresServer::start_with(&["max_connections=15", "synchronous_commit=off"]);
    let store = open(&url(&server, &server.new_database()));
    let findings = store.check().await.unwrap();
    let level = |subject: &str| findings.iter().find(|finding| finding.subject == subject).map(|finding| finding.level);
    assert_eq!((level("connections"), level("synchronous_commit")), (Some(Level::Advice), Some(Level::Danger)));
}
