//! Connections with TLS.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::{Authority, PostgresServer, TlsFiles};

use crate::support::{SERVER, claim, open, take};

/// A server with these certificates. It starts without TLS, and then reads its copies of the files.
fn server_with(files: &TlsFiles) -> PostgresServer {
    let server = PostgresServer::start();
    let copy = |from: &Path, to: &str| {
        let text = fs::read_to_string(from).unwrap();
        let path = server.directory().join("data").join(to);
        // The server itself writes its files, so that they have its user.
        server.sql("postgres", &format!("copy (select '') to '{}'", path.display()));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    copy(&files.cert, "server.crt");
    copy(&files.key, "server.key");
    server.sql("postgres", "alter system set ssl = on");
    server.restart();
    server
}

// Promise: PG11
#[tokio::test]
async fn the_certificate_of_the_server_is_checked() {
    let (authority, other) = (Authority::new("shop"), Authority::new("other"));
    let files = authority.issue("localhost", |_| ());
    let server = server_with(&files);
    let (port, database, ca) = (server.port(), server.new_database(), &files.ca);
    let url =
        |host: &str, options: &str| format!("postgres://{}@{host}:{port}/{database}?{options}", PostgresServer::LOCKS);
    let good = open(&url("localhost", &format!("sslmode=verify-full&sslrootcert={}", ca.display())));
    take(&good, &claim("k")).await;
    let encrypted =
        "select bool_and(ssl) from pg_stat_ssl s join pg_stat_activity a using (pid) where usename = 'locks'";
    assert_eq!(server.sql(&database, encrypted), "t");

    for (host, ca) in [("127.0.0.1", ca), ("localhost", &other.ca)] {
        let store = open(&url(host, &format!("sslmode=require&sslrootcert={}", ca.display())));
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{host}: {error}");
        assert!(!error.to_string().contains("PASSWORD"), "{error}");
    }
    let preferred = open(&url("127.0.0.1", "sslmode=prefer"));
    preferred.ping().await.unwrap();
    assert_eq!(server.sql(&database, encrypted), "t");
    let missing = open(&url("localhost", "sslmode=require&sslrootcert=/no/such/file.pem"));
    assert_eq!(missing.ping().await.unwrap_err().kind(), ErrorKind::Misused);
}

#[tokio::test]
async fn a_server_without_tls_is_refused() {
    let url = format!("postgres://{}@127.0.0.1:{}/postgres?sslmode=require", PostgresServer::LOCKS, SERVER.port());
    let error = open(&url).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let database = SERVER.new_database();
    let store =
        open(&format!("postgres://{}@127.0.0.1:{}/{database}?sslmode=prefer", PostgresServer::LOCKS, SERVER.port()));
    take(&store, &claim("k")).await;
}
