//! Locks over TLS, and the errors when the client or the server refuses the other side.

use std::{fs, path::Path, process::Command, time::Instant};

use bandog_core::{Error, ErrorKind, Inspect, Leases, Level, Released, Renewal};
use bandog_testkit::{Authority, RedisServer, TlsFiles, Wire, eventually_async};
use rcgen::date_time_ymd;

use crate::help::{SOON, at, claim, fences, notifier, release, renew, with_timeout};

// Promise: RD17
#[tokio::test]
async fn locks_work_over_tls() {
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&for_localhost(&authority), &[]);
    let redis = at(&url(&authority, &server));
    redis.ping().await.unwrap();
    let held = claim("k");
    fences(&redis, &held).await;
    assert_eq!(server.hash("k").len(), 1);
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });
    let (on_release, notified) = notifier();
    let _subscription = redis.subscribe(&held, on_release).await.unwrap();
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) });
    eventually_async(SOON, async || notified() == 1).await;
    assert_eq!(redis.profile().store, format!("rediss://localhost:{}/0", server.tls_addr().port()));
    let findings = redis.check().await.unwrap();
    assert!(findings.iter().any(|finding| finding.subject == "tls" && finding.level == Level::Fine), "{findings:?}");
}

#[tokio::test]
async fn each_of_many_steps_over_tls_is_answered() {
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&for_localhost(&authority), &[]);
    let redis = at(&url(&authority, &server));
    let long = "n".repeat(1000);
    let claims: Vec<_> = (0..500).map(|number| claim(&format!("{number}{long}"))).collect();
    for steps in claims.chunks(32) {
        let steps: Vec<_> = steps.iter().cloned().map(bandog_core::Step::Claim).collect();
        assert!(redis.apply(&steps).await.iter().all(Result::is_ok));
    }
    let renewals = redis.renew(&claims).await;
    assert!(renewals.iter().all(|renewal| matches!(renewal, Ok(Renewal::Extended { .. }))));
}

// Promise: RD17
#[tokio::test]
async fn a_server_of_an_untrusted_authority_is_refused() {
    let (authority, other) = (Authority::new("shop"), Authority::new("other"));
    let server = RedisServer::start_tls(&for_localhost(&authority), &[]);
    let port = server.tls_addr().port();
    refused(&format!("rediss://locks:PASSWORD@localhost:{port}?ca={}", other.ca.display()), "we refuse", "?ca=PATH")
        .await;
    refused(&format!("rediss://locks:PASSWORD@localhost:{port}"), "we refuse", "?ca=PATH").await;
}

// Promise: RD17
#[tokio::test]
async fn a_server_with_another_name_is_refused() {
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&authority.issue("elsewhere", |_| ()), &[]);
    refused(&url(&authority, &server), "we refuse", "not issued for this host").await;
    let by_address = url(&authority, &server).replace("localhost", "127.0.0.1");
    refused(&by_address, "we refuse", "not issued for this host").await;
}

#[tokio::test]
async fn a_certificate_may_be_issued_for_an_ip_address() {
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&authority.issue("127.0.0.1", |_| ()), &[]);
    at(&url(&authority, &server).replace("localhost", "127.0.0.1")).ping().await.unwrap();
}

#[tokio::test]
async fn a_certificate_outside_its_validity_period_is_refused() {
    let authority = Authority::new("shop");
    for (from, to, part) in [(2001, 2002, "has expired"), (2199, 2200, "not valid yet")] {
        let files = authority.issue("localhost", |params| {
            (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        });
        let server = RedisServer::start_tls(&files, &[]);
        refused(&url(&authority, &server), "we refuse", part).await;
    }
}

#[tokio::test]
async fn a_server_that_requires_a_client_certificate_gets_it() {
    let (authority, other) = (Authority::new("shop"), Authority::new("other"));
    for protocol in ["TLSv1.3", "TLSv1.2"] {
        let args = ["--tls-auth-clients", "yes", "--tls-protocols", protocol];
        let server = RedisServer::start_tls(&for_localhost(&authority), &args);
        let url = url(&authority, &server);
        refused(&url, "the server", "?cert=PATH&key=PATH").await;
        refused(&with_identity(&url, &other.issue("till", |_| ())), "the server refuses our", "?cert=PATH").await;
        let redis = at(&with_identity(&url, &authority.issue("till", |_| ())));
        fences(&redis, &claim("k")).await;
        redis.subscribe(&claim("k"), notifier().0).await.unwrap();
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let (authority, other) = (Authority::new("shop"), Authority::new("other"));
    let server = RedisServer::start_tls(&for_localhost(&authority), &[]);
    let empty = authority.path("empty.pem");
    fs::write(&empty, "nothing\n").unwrap();
    let (mine, theirs) = (authority.issue("a", |_| ()), other.issue("b", |_| ()));
    let url = |rest: String| format!("rediss://locks:PASSWORD@localhost:{}?{rest}", server.tls_addr().port());
    for (url, part) in [
        (url("ca=/none.pem".into()), "/none.pem"),
        (url(format!("ca={}", empty.display())), "empty.pem"),
        (url(format!("ca={}&cert={}&key=/none.key", mine.ca.display(), mine.cert.display())), "/none.key"),
        (url(format!("ca={}&cert=/none.crt&key={}", mine.ca.display(), mine.key.display())), "/none.crt"),
        (url(format!("cert={}&key={}", mine.cert.display(), theirs.key.display())), "does not match"),
        (url(format!("cert={}&key={}", mine.cert.display(), mine.cert.display())), "cannot be used"),
    ] {
        let error = at(&url).ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
        assert!(error.to_string().contains(part), "{error} does not contain {part}");
        let key = fs::read_to_string(&mine.key).unwrap();
        assert!(!error.to_string().contains(key.lines().nth(1).unwrap()), "{error}");
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_used_by_the_next_connection() {
    let (authority, other) = (Authority::new("shop"), Authority::new("other"));
    let server = RedisServer::start_tls(&for_localhost(&authority), &["--tls-auth-clients", "yes"]);
    let files = authority.issue("till", |_| ());
    let redis = at(&with_identity(&url(&authority, &server), &files));
    redis.ping().await.unwrap();
    let wrong = other.issue("till", |_| ());
    let (cert, key) = (fs::read(&files.cert).unwrap(), fs::read(&files.key).unwrap());
    fs::copy(&wrong.cert, &files.cert).unwrap();
    fs::copy(&wrong.key, &files.key).unwrap();
    server.kill_clients();
    eventually_async(SOON, async || redis.ping().await.is_err_and(|error| error.kind() == ErrorKind::Denied)).await;
    fs::write(&files.cert, cert).unwrap();
    fs::write(&files.key, key).unwrap();
    eventually_async(SOON, async || redis.ping().await).await;
}

#[tokio::test]
async fn a_client_waits_while_its_certificate_files_are_being_replaced() {
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&for_localhost(&authority), &["--tls-auth-clients", "yes"]);
    let files = authority.issue("till", |_| ());
    let redis = at(&with_identity(&url(&authority, &server), &files));
    let (on_release, notified) = notifier();
    let _subscription = redis.subscribe(&claim("k"), on_release).await.unwrap();
    redis.ping().await.unwrap();
    let mut epoch = redis.profile().epoch;
    epoch.borrow_and_update();
    let key = fs::read(&files.key).unwrap();
    fs::remove_file(&files.key).unwrap();
    server.kill_clients();
    let error = eventually_async(SOON, async || {
        redis.ping().await.err().filter(|error| error.to_string().contains("till.key"))
    })
    .await;
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false), "{error}");
    fs::write(&files.key, key).unwrap();
    // Both connections are reopened without a call.
    tokio::time::timeout(SOON, epoch.changed()).await.unwrap().unwrap();
    eventually_async(SOON, async || notified() >= 1).await;
}

#[tokio::test]
async fn a_client_that_starts_reports_tls_errors_immediately() {
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&for_localhost(&authority), &[]);
    for (url, kind) in [
        (format!("rediss://localhost:{}", server.tls_addr().port()), ErrorKind::Denied),
        (format!("rediss://localhost:{}?ca=/none.pem", server.tls_addr().port()), ErrorKind::Misused),
        (url(&authority, &server).replace("PASSWORD", "wrong"), ErrorKind::Denied),
    ] {
        let client = bandog_sync::Client::options().over(at(&url)).unwrap();
        // If the error were temporary, the client would retry for five seconds.
        let error = tokio::time::timeout(SOON / 2, client.ready())
            .await
            .expect("the error did not come before the timeout")
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test]
async fn the_programs_own_crypto_provider_is_not_used() {
    // This provider has no cipher suites, so any use of it fails.
    let mut other = rustls::crypto::ring::default_provider();
    other.cipher_suites.clear();
    other.kx_groups.clear();
    let _ = other.install_default();
    assert!(rustls::crypto::CryptoProvider::get_default().unwrap().cipher_suites.is_empty());
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&for_localhost(&authority), &[]);
    fences(&at(&url(&authority, &server)), &claim("k")).await;
}

#[tokio::test]
async fn a_cut_connection_is_reopened() {
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&for_localhost(&authority), &[]);
    let wire = Wire::to(server.tls_addr());
    let redis = at(&format!("rediss://locks:PASSWORD@localhost:{}?ca={}", wire.port(), authority.ca.display()));
    let (on_release, notified) = notifier();
    let held = claim("k");
    fences(&redis, &held).await;
    let _subscription = redis.subscribe(&held, on_release).await.unwrap();
    let mut epoch = redis.profile().epoch;
    for times in 1..=3 {
        epoch.borrow_and_update();
        wire.cut();
        tokio::time::timeout(SOON, epoch.changed()).await.unwrap().unwrap();
        assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });
        eventually_async(SOON, async || notified() >= times).await;
    }
}

#[tokio::test]
async fn servers_with_and_without_tls_are_distinguished() {
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&for_localhost(&authority), &[]);
    let plain = url(&authority, &server).replace(&server.tls_addr().port().to_string(), &server.port().to_string());
    let encrypted = format!("redis://localhost:{}", server.tls_addr().port());
    // Whether a Redis server without TLS answers a handshake depends on the random bytes of the handshake.
    for _ in 0..10 {
        for (url, cure) in [(&plain, "write redis://"), (&encrypted, "write rediss://")] {
            let start = Instant::now();
            let error = at(url).ping().await.unwrap_err();
            assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unsupported, false), "{error}");
            assert!(error.to_string().contains(cure), "{error}");
            assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        }
    }
}

/// A stopped server answers neither with TLS nor without TLS. So the error does not name TLS, and the client retries.
#[tokio::test]
async fn a_silent_server_is_retried() {
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&for_localhost(&authority), &[]);
    server.pause();
    for url in [url(&authority, &server), format!("redis://{}", server.addr())] {
        let error = with_timeout(&url, SOON / 5).ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    server.resume();
    at(&url(&authority, &server)).ping().await.unwrap();
}

/// The trusted authorities depend on environment variables, so the client runs in another process: this test starts
/// its own program again, with a URL in the environment.
#[test]
fn the_systems_authorities_are_trusted() {
    const URL: &str = "BANDOG_TEST_TLS_URL";
    if let Ok(url) = std::env::var(URL) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(at(&url).ping()).unwrap();
    }
    let authority = Authority::new("shop");
    let server = RedisServer::start_tls(&for_localhost(&authority), &[]);
    let run = |ca: &Path| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tls::the_systems_authorities_are_trusted"])
            .env(URL, format!("rediss://locks:PASSWORD@localhost:{}", server.tls_addr().port()))
            .env("SSL_CERT_FILE", ca)
            .env_remove("SSL_CERT_DIR")
            .output()
            .unwrap()
    };
    let output = run(&authority.ca);
    assert!(output.status.success(), "{output:?}");
    let none = authority.path("none.pem");
    fs::write(&none, "").unwrap();
    let output = run(&none);
    assert!(String::from_utf8_lossy(&output.stdout).contains("?ca=PATH"), "{output:?}");
}

/// Checks that each call is denied, and that the error contains the texts `who` (the side that refuses) and `cure` (the
/// advice).
#[track_caller]
fn refused(url: &str, who: &str, cure: &str) -> impl Future<Output = ()> {
    let (redis, who, cure) = (at(url), who.to_owned(), cure.to_owned());
    async move {
        let error: Error = redis.ping().await.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Denied, false), "{error}");
        assert!(error.to_string().contains(&who) && error.to_string().contains(&cure), "{error}");
        assert_eq!(redis.subscribe(&claim("k"), notifier().0).await.unwrap_err().kind(), ErrorKind::Denied);
    }
}

fn with_identity(url: &str, files: &TlsFiles) -> String {
    format!("{url}&cert={}&key={}", files.cert.display(), files.key.display())
}

/// The files of a server for localhost.
fn for_localhost(authority: &Authority) -> TlsFiles {
    authority.issue("localhost", |_| ())
}

fn url(authority: &Authority, server: &RedisServer) -> String {
    format!("rediss://locks:PASSWORD@localhost:{}?ca={}", server.tls_addr().port(), authority.ca.display())
}
