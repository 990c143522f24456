//! Tests of the ZooKeeper backend with real servers that speak TLS.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::{fmt::Display, fs, time::Duration};

use bandog_core::{ErrorKind, Leases, Level};
use bandog_sync::{Client, Guard};
use bandog_testkit::{Authority, TlsFiles, Wire, ZooKeeperServer, eventually_async};
use bandog_zookeeper::{ZooKeeper, ZooKeeperOptions};

/// Timeout for expected events. A test reaches it only if it fails.
const SOON: Duration = Duration::from_secs(40);
/// The server requires no certificate of the client.
const OPEN: &str = "ssl.clientAuth=none";

fn for_localhost(authority: &Authority) -> TlsFiles {
    authority.issue("localhost", |_| ())
}

fn url(authority: &Authority, server: &ZooKeeperServer) -> String {
    url_at(authority, server.tls_addr().port())
}

fn url_at(authority: &Authority, port: u16) -> String {
    format!("zookeeper+tls://localhost:{port}/locks?session=20s&ca={}", authority.ca.display())
}

fn with_identity(url: &str, files: &TlsFiles) -> String {
    format!("{url}&cert={}&key={}", files.cert.display(), files.key.display())
}

fn backend(url: &str) -> ZooKeeper {
    ZooKeeper::new(ZooKeeperOptions::from_url(url).unwrap())
}

fn client(url: &str) -> Client {
    Client::options().over(backend(url)).unwrap()
}

/// Takes a free lock. On a loaded machine, the first connection to a new server can take longer than a call.
async fn take(client: &Client, name: &str) -> Guard {
    eventually_async(SOON, async || match client.mutex(name).try_lock().await {
        Ok(Some(guard)) => Ok(guard),
        Ok(None) => Err("the lock is not free".to_owned()),
        Err(error) => Err(error.to_string()),
    })
    .await
}

async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, event).await.expect("an expected event did not come")
}

/// Awaits that a request is refused with this message. A repetition cannot help, so the error is not retryable.
async fn refused(url: &str, part: impl Display) {
    let backend = backend(url);
    let part = part.to_string();
    let error = eventually_async(SOON, async || match backend.ping().await {
        // On a loaded machine, the handshake can take longer than a call.
        Err(error) if error.kind() != ErrorKind::Unavailable => Ok(error),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Denied, false), "{error}");
    assert!(error.to_string().contains(&part), "{error} does not contain {part}");
}

// Promise: Z31
#[tokio::test]
async fn locks_work_over_tls() {
    let authority = Authority::new("shop");
    let server = ZooKeeperServer::start_tls(&for_localhost(&authority), &[OPEN]);
    let (ours, theirs) = (client(&url(&authority, &server)), client(&url(&authority, &server)));
    let guard = take(&ours, "orders").await;
    let waiter = tokio::spawn(async move { theirs.mutex("orders").lock().await.map(|guard| guard.fence()) });
    let plain = Client::options().over(backend(&format!("zookeeper://{}/locks", server.addr()))).unwrap();
    eventually_async(SOON, async || plain.show("orders").await.is_ok_and(|lock| !lock.waiters.is_empty())).await;
    let first = guard.fence();
    guard.release().await.unwrap();
    assert!(soon(waiter).await.unwrap().unwrap() > first);

    let store = backend(&url(&authority, &server));
    assert_eq!(store.profile().store, format!("zookeeper+tls://localhost:{}/locks", server.tls_addr().port()));
    let findings = eventually_async(SOON, async || bandog_core::Inspect::check(&store).await).await;
    let server_says = findings.iter().find(|finding| finding.subject == "server").unwrap();
    assert_eq!((server_says.level, server_says.says.contains("standalone")), (Level::Fine, true), "{server_says:?}");
}

// Promise: Z31
#[tokio::test]
async fn each_refused_certificate_is_named() {
    let (authority, other) = (Authority::new("shop"), Authority::new("other"));
    let server = ZooKeeperServer::start_tls(&for_localhost(&authority), &[]);
    let good = with_identity(&url(&authority, &server), &authority.issue("till", |_| ()));
    take(&client(&good), "orders").await.release().await.unwrap();
    refused(&url(&other, &server), "no authority that we trust").await;
    refused(&good.replace("localhost", "127.0.0.1"), "not issued for this host").await;
    refused(&url(&authority, &server), "?cert=PATH&key=PATH").await;
    refused(&with_identity(&url(&authority, &server), &other.issue("till", |_| ())), "the server refuses").await;
    let backend =
        backend(&with_identity(&url(&authority, &server), &TlsFiles { key: "/none".into(), ..for_localhost(&other) }));
    let error = backend.ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert!(error.to_string().contains("/none"), "{error}");
}

#[tokio::test]
async fn a_wrong_scheme_is_named() {
    let authority = Authority::new("shop");
    let server = ZooKeeperServer::start_tls(&for_localhost(&authority), &[OPEN]);
    let expect_hint = async |url: String, part: &str| {
        let backend = backend(&url);
        eventually_async(SOON, async || match backend.ping().await {
            Err(error) if error.to_string().contains(part) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    };
    expect_hint(format!("zookeeper://{}/locks", server.tls_addr()), "write zookeeper+tls://").await;
    expect_hint(url_at(&authority, server.addr().port()), "write zookeeper:// in the URL").await;
}

#[tokio::test]
async fn the_user_of_a_certificate_owns_its_nodes() {
    let authority = Authority::new("shop");
    let server = ZooKeeperServer::start_tls(&for_localhost(&authority), &[]);
    let of = |name: &str| with_identity(&url(&authority, &server), &authority.issue(name, |_| ()));
    let (till, clerk) = (client(&format!("{}&acl=creator", of("till"))), client(&of("clerk")));
    let guard = take(&till, "orders").await;
    let denied = eventually_async(SOON, async || match clerk.mutex("orders").try_lock().await {
        Err(error) if error.kind() != ErrorKind::Unavailable => Ok(error),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
    guard.release().await.unwrap();
}

/// The client gets a certificate of another authority, which only the restarted server trusts. The session goes on.
// Promise: Z31
#[tokio::test]
async fn a_renewed_certificate_is_used_by_the_next_connection() {
    let (authority, next) = (Authority::new("shop"), Authority::new("next"));
    let trusted = authority.path("trusted.pem");
    fs::copy(&authority.ca, &trusted).unwrap();
    let server = ZooKeeperServer::start_tls(&TlsFiles { ca: trusted.clone(), ..for_localhost(&authority) }, &[]);
    let files = authority.issue("till", |_| ());
    let ours = client(&with_identity(&url(&authority, &server), &files));
    let guard = take(&ours, "orders").await;
    let renewed = next.issue("till", |_| ());
    fs::copy(&renewed.cert, &files.cert).unwrap();
    fs::copy(&renewed.key, &files.key).unwrap();
    fs::copy(&next.ca, &trusted).unwrap();
    server.restart();
    take(&ours, "another").await.release().await.unwrap();
    assert!(!guard.is_lost(), "the session has ended");
    guard.release().await.unwrap();
}

// Promise: Z31
#[tokio::test]
async fn a_cut_connection_is_made_again_over_tls() {
    let authority = Authority::new("shop");
    let server = ZooKeeperServer::start_tls(&for_localhost(&authority), &[OPEN]);
    let wire = Wire::to(server.tls_addr());
    let ours = client(&url_at(&authority, wire.port()));
    let guard = take(&ours, "orders").await;
    for _ in 0..5 {
        wire.cut();
        take(&ours, "another").await.release().await.unwrap();
    }
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
}

#[test]
fn urls_for_tls_are_checked() {
    for url in [
        "zookeeper+tls://under_score.:1/locks?ca=",
        "zookeeper+tls://one two",
        "zookeeper+tls://one?cert=a",
        "zookeeper+tls://one?key=a",
        "zookeeper+tls://one?ca=%zz",
        "zookeeper://one?ca=a",
        "zookeeper+tls://one?acl=creator",
    ] {
        assert_eq!(ZooKeeperOptions::from_url(url).unwrap_err().kind(), ErrorKind::Misused, "{url}");
    }
    let options = ZooKeeperOptions::from_url("zookeeper+tls://one,[::1],two:7/locks?cert=a&key=b&acl=creator").unwrap();
    assert!(format!("{options:?}").contains("zookeeper+tls://one:2281,[::1]:2281,two:7/locks"), "{options:?}");
}
