//! Connections with TLS.

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::MariaDbServer;

use crate::claims::certificates::Files;
use crate::support::{SERVER, claim, open, take};

/// A server with these certificates.
fn server_with(files: &Files) -> MariaDbServer {
    let option = |name: &str, file: &str| format!("ssl-{name}={}", files.path(file).display());
    let options = [option("ca", "ca"), option("cert", "cert"), option("key", "key")];
    MariaDbServer::start_with(&options.each_ref().map(String::as_str))
}

#[tokio::test]
async fn the_certificate_of_the_server_is_checked() {
    let files = Files::new("localhost");
    let server = server_with(&files);
    let (port, database, ca) = (server.port(), server.new_database(), files.path("ca"));
    let url =
        |host: &str, options: &str| format!("mysql://{}@{host}:{port}/{database}?{options}", MariaDbServer::LOCKS);
    let good = open(&url("localhost", &format!("sslmode=verify-full&sslrootcert={}", ca.display())));
    take(&good, &claim("k")).await;
    server.sql(&database, "alter user locks@'%' require ssl");
    take(&open(&url("localhost", &format!("sslmode=require&sslrootcert={}", ca.display()))), &claim("encrypted")).await;
    let error = open(&url("localhost", "")).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");

    let other = Files::new("localhost");
    for (host, ca) in [("127.0.0.1", &ca), ("localhost", &other.path("ca"))] {
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
    let url = format!("mysql://{}@127.0.0.1:{}/mysql?sslmode=require", MariaDbServer::LOCKS, SERVER.port());
    let error = open(&url).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
