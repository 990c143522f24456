//! Connections with TLS.

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::{Authority, SqlServer};

use super::{Database, Place, claim, open, take};

pub(crate) async fn the_certificate_of_the_server_is_checked<D: Database>() {
    let (authority, other) = (Authority::new("shop"), Authority::new("other"));
    let files = authority.issue("localhost", |_| ());
    let server = D::with_tls(&files);
    let (place, ca) = (Place::on(&server), &files.ca);
    let (login, port, database) = (SqlServer::<D>::LOCKS, server.port(), &place.database);
    let url = |host: &str, options: &str| format!("{}://{login}@{host}:{port}/{database}?{options}", D::SCHEME);
    let verified = |mode: &str| url("localhost", &format!("sslmode={mode}&sslrootcert={}", ca.display()));
    let stores =
        [verified("verify-full"), verified("require"), url("127.0.0.1", "sslmode=prefer")].map(|url| open(&url));
    for (number, store) in stores.iter().enumerate() {
        take(store, &claim(&format!("k{number}"))).await;
        // The sessions of the store are open.
        D::expect_tls(&place).await;
    }

    for (host, ca) in [("127.0.0.1", ca), ("localhost", &other.ca)] {
        let store = open(&url(host, &format!("sslmode=require&sslrootcert={}", ca.display())));
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{host}: {error}");
        assert!(!error.to_string().contains("PASSWORD"), "{error}");
    }
    let missing = open(&url("localhost", "sslmode=require&sslrootcert=/no/such/file.pem"));
    assert_eq!(missing.ping().await.unwrap_err().kind(), ErrorKind::Misused);
}

pub(crate) async fn a_server_without_tls_is_refused<D: Database>() {
    let place = Place::on(D::without_tls());
    let error = open(&format!("{}?sslmode=require", place.url())).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    take(&open(&format!("{}?sslmode=prefer", place.url())), &claim("k")).await;
}
