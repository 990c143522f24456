//! Locks over a Unix socket.

use bandog_core::{ErrorKind, Leases, Released, Renewal};
use bandog_testkit::{RedisServer, eventually_async};

use crate::help::{SOON, at, claim, fences, notifier, release, renew};

#[tokio::test]
async fn locks_work_over_a_unix_socket() {
    let server = RedisServer::start();
    let redis = at(&format!("redis+unix://locks:PASSWORD@{}", server.socket().display()));
    let held = claim("k");
    fences(&redis, &held).await;
    assert_eq!(server.hash("k").len(), 1);
    let (on_release, notified) = notifier();
    let _subscription = redis.subscribe(&held, on_release).await.unwrap();
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) });
    eventually_async(SOON, async || notified() == 1).await;
    assert_eq!(redis.profile().store, format!("redis+unix://{}?db=0", server.socket().display()));
}

#[tokio::test]
async fn the_user_the_password_and_the_database_are_read_from_the_url() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p@ss", "~*", "&*", "+@all"]);
    let url = |login: &str| format!("redis+unix://{login}{}?db=2", server.socket().display());
    fences(&at(&url("u:p%40ss@")), &claim("k")).await;
    assert_eq!(server.keys(), [""; 0]);
    assert!(server.cmd(&["INFO", "keyspace"]).text().contains("db2:keys=2"));
    let error = at(&url("u:wrong@")).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(!error.to_string().contains("wrong@"), "{error}");
}

#[tokio::test]
async fn a_client_reconnects_to_a_socket_and_the_error_names_a_missing_socket() {
    let server = RedisServer::start();
    let redis = at(&format!("redis+unix://locks:PASSWORD@{}", server.socket().display()));
    let held = claim("k");
    fences(&redis, &held).await;
    server.kill();
    let error = eventually_async(SOON, async || match redis.ping().await {
        Err(error) if error.to_string().contains("redis.sock") => Ok(error),
        other => Err(other),
    })
    .await;
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false));
    server.restart();
    eventually_async(SOON, async || renew(&redis, &held).await.is_ok_and(|renewal| renewal == Renewal::Gone)).await;
}
