//! Connections with TLS.

use std::path::Path;

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::{Authority, MariaDbServer, TlsFiles};

use crate::support::{BARE_SERVER, claim, open, take};

/// A server with these certificates.
fn server_with(files: &TlsFiles) -> MariaDbServer {
    let option = |name: &str, file: &Path| format!("ssl-{name}={}", file.display());
    let options = [option("ca", &files.ca), option("cert", &files.cert), option("key", &files.key)];
    MariaDbServer::start_with(&options.each_ref().map(String::as_str))
}

// Promise: MY11
#[tokio::test]
async fn the_certificate_of_the_server_is_checked() {
    let (authority, other) = (Authority::new("shop"), Authority::new("other"));
    let files = authority.issue("localhost", |_| ());
    let server = server_with(&files);
    let (port, database, ca) = (server.port(), server.new_database(), &files.ca);
    let url =
        |host: &str, options: &str| format!("mysql://{}@{host}:{port}/{database}?{options}", MariaDbServer::LOCKS);
    let good = open(&url("localhost", &format!("sslmode=verify-full&sslrootcert={}", ca.display())));
    take(&good, &claim("k")).await;
    server.sql(&database, "alter user locks@'%' require ssl");
    take(&open(&url("localhost", &format!("sslmode=require&sslrootcert={}", ca.display()))), &claim("encrypted")).await;
    take(&open(&url("127.0.0.1", "ssl-mode=PREFERRED")), &claim("not checked")).await;
    let error = open(&url("localhost", "")).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");

    for (host, ca) in [("127.0.0.1", ca), ("localhost", &other.ca)] {
        let store = open(&url(host, &format!("sslmode=require&sslrootcert={}", ca.display())));
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{host}: {error}");
        assert!(!error.to_string().contains("PASSWORD"), "{error}");
    }
    let missing = open(&url("localhost", "sslmode=require&sslrootcert=/no/such/file.pem"));
    assert_eq!(missing.ping().await.unwrap_err().kind(), ErrorKind::Misused);
}

#[tokio::test]
async fn a_server_without_tls_is_refused() {
    let url = format!("mysql://{}@127.0.0.1:{}/mysql?sslmode=require", MariaDbServer::LOCKS, BARE_SERVER.port());
    let error = open(&url).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let database = BARE_SERVER.new_database();
    let (login, port) = (MariaDbServer::LOCKS, BARE_SERVER.port());
    take(&open(&format!("mysql://{login}@127.0.0.1:{port}/{database}?sslmode=prefer")), &claim("k")).await;
}
