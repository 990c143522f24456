//! Connections with TLS.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::PostgresServer;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::support::{SERVER, claim, open, take};

/// The files of an authority, and of a server whose certificate it has signed.
struct Files(TempDir);

impl Files {
    fn new(host: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = KeyPair::generate().unwrap();
        let ca = params.self_signed(&authority).unwrap();
        let issuer = Issuer::new(params, authority);
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let files = Self(dir);
        fs::write(files.path("ca"), ca.pem()).unwrap();
        fs::write(files.path("cert"), cert.pem()).unwrap();
        fs::write(files.path("key"), key.serialize_pem()).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.pem"))
    }
}

/// A server with these certificates. It starts without TLS, and then reads its copies of the files.
fn server_with(files: &Files) -> PostgresServer {
    let server = PostgresServer::start();
    let copy = |from: &str, to: &str| {
        let text = fs::read_to_string(files.path(from)).unwrap();
        let path = server.directory().join("data").join(to);
        // The server itself writes its files, so that they have its user.
        server.sql("postgres", &format!("copy (select '') to '{}'", path.display()));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    copy("cert", "server.crt");
    copy("key", "server.key");
    server.sql("postgres", "alter system set ssl = on");
    server.restart();
    server
}

#[tokio::test]
async fn the_certificate_of_the_server_is_checked() {
    let files = Files::new("localhost");
    let server = server_with(&files);
    let (port, database, ca) = (server.port(), server.new_database(), files.path("ca"));
    let url =
        |host: &str, options: &str| format!("postgres://{}@{host}:{port}/{database}?{options}", PostgresServer::LOCKS);
    let good = open(&url("localhost", &format!("sslmode=verify-full&sslrootcert={}", ca.display())));
    take(&good, &claim("k")).await;
    let encrypted =
        "select bool_and(ssl) from pg_stat_ssl s join pg_stat_activity a using (pid) where usename = 'locks'";
    assert_eq!(server.sql(&database, encrypted), "t");

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
    let url = format!("postgres://{}@127.0.0.1:{}/postgres?sslmode=require", PostgresServer::LOCKS, SERVER.port());
    let error = open(&url).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
