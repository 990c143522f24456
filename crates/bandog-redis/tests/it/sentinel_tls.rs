//! Sentinels and servers that require TLS and have users of their own.

use bandog_core::{ErrorKind, Leases, Released, Renewal};
use bandog_testkit::{Authority, RedisServer, eventually, eventually_async};

use crate::{
    help::{SOON, TTL, at, claim, fences, notifier, release, renew},
    sentinels::Watched,
};

/// A user of the sentinels with the rights of `docs/redis.md`.
const USER: &str = "?sentinel_user=client&sentinel_password=sniff";

/// A master and a replica with passwords and TLS, and three sentinels with users and TLS.
fn start(authority: &Authority) -> Watched {
    let files = authority.issue("127.0.0.1", |_| ());
    let master = RedisServer::start_tls(&files, &["--tls-replication", "yes", "--requirepass", "bone"]);
    let watched = Watched::of(master, Some("watch"));
    for sentinel in watched.sentinels.iter() {
        let rules = "ACL SETUSER client on >sniff resetchannels &+switch-master -@all +sentinel|get-master-addr-by-name \
                     +sentinel|master +sentinel|sentinels +subscribe";
        assert_eq!(sentinel.cmd(&rules.split(' ').collect::<Vec<_>>()).text(), "OK");
    }
    watched
}

// Promise: SE6
#[tokio::test(flavor = "multi_thread")]
async fn locks_work_over_tls_before_and_after_a_failover() {
    let authority = Authority::new("shop");
    let watched = start(&authority);
    let redis = at(&format!("{}{USER}&ca={}", watched.url(), authority.ca.display()));
    assert!(redis.profile().store.starts_with("rediss+sentinel://127.0.0.1:"), "{}", redis.profile().store);
    let held = claim("held");
    fences(&redis, &held).await;
    let (on_release, notified) = notifier();
    let _subscription = redis.subscribe(&held, on_release).await.unwrap();
    // All connections of the client use TLS.
    let clients = watched.master.cmd(&["CLIENT", "LIST"]);
    let port = watched.master.tls_addr().port();
    let lines: Vec<&str> = clients.text().lines().filter(|line| line.contains(" user=locks ")).collect();
    assert_eq!(lines.len(), 2, "{}", clients.text());
    assert!(lines.iter().all(|line| line.contains(&format!(" laddr=127.0.0.1:{port} "))), "{lines:?}");
    watched.replica.wait_until_equal(&watched.master);
    let promotion = watched.promotion();
    watched.sentinels.order_failover();
    watched.works_again(&redis, promotion).await;
    let renewal = eventually_async(SOON, async || renew(&redis, &held).await).await;
    assert_eq!(renewal, Renewal::Extended { valid_for: TTL });
    eventually_async(SOON, async || notified() > 0).await;
    eventually(SOON, || watched.replica.cmd(&["PUBSUB", "CHANNELS", "redisson*"]).texts().len() == 1);
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) });
}

// Promise: SE6
#[tokio::test(flavor = "multi_thread")]
async fn each_wrong_login_and_certificate_is_named() {
    let (authority, other) = (Authority::new("shop"), Authority::new("other"));
    let watched = start(&authority);
    let url = format!("{}{USER}&ca={}", watched.url(), authority.ca.display());
    for (url, kind, part) in [
        (
            url.replace(&authority.ca.display().to_string(), &other.ca.display().to_string()),
            ErrorKind::Denied,
            "we refuse",
        ),
        (url.replace("sniff", "wrong"), ErrorKind::Denied, "?sentinel_user=USER&sentinel_password=PASSWORD"),
        (url.replace(USER, "?"), ErrorKind::Denied, "?sentinel_user=USER&sentinel_password=PASSWORD"),
        (url.replacen("PASSWORD", "wrong", 1), ErrorKind::Denied, "write USER:PASSWORD@ directly after ://"),
        (
            url.replacen("rediss", "redis", 1).split("&ca=").next().unwrap().into(),
            ErrorKind::Unavailable,
            "rediss+sentinel://",
        ),
    ] {
        let error = at(&url).ping().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error}");
        assert!(error.to_string().contains(part), "{url}: {error}");
        assert!(!format!("{error:?} {error}").contains("wrong"), "{error}");
    }
}
