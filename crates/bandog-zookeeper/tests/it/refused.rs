//! Servers that refuse a client before it has a session.

use bandog_core::{ErrorKind, Inspect, Leases};
use bandog_testkit::ZooKeeperServer;

use crate::backend;

#[tokio::test]
async fn a_server_with_too_many_connections_of_this_machine_is_named() {
    let server = ZooKeeperServer::start_with(&["maxClientCnxns=1"]);
    let (first, second) = (backend(server.addr()), backend(server.addr()));
    first.ping().await.unwrap();
    let error = second.ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("maxClientCnxns (60 by default)"), "{error}");
    // The check of the client that has its connection says it too: it asks each server on a connection of its own.
    let findings = first.check().await.unwrap();
    assert!(findings.iter().any(|finding| format!("{finding:?}").contains("maxClientCnxns")), "{findings:#?}");
}

#[tokio::test]
async fn a_server_that_requires_sasl_is_named() {
    let server = ZooKeeperServer::start_with(&[
        "sessionRequireClientSASLAuth=true",
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    ]);
    let error = backend(server.addr()).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("SASL"), "{error}");
}
