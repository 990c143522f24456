//! The password is in a file, which is read for each connection.

use std::{fs, time::Duration};

use bandog_core::{ErrorKind, Leases, Renewal};
use bandog_sync::Client;
use bandog_testkit::{LogCapture, RedisServer, Sentinels, eventually_async};

use crate::help::{SOON, at, claim, is_granted, renew};

/// Gives the user `till` this password, and ends all connections.
fn rotate(server: &RedisServer, password: &str) {
    let rights = ["ACL", "SETUSER", "till", "on", "resetpass", &format!(">{password}"), "~*", "&*", "+@all"];
    assert_eq!(server.cmd(&rights).text(), "OK");
    server.kill_clients();
}

#[tokio::test]
async fn a_hold_survives_a_change_of_the_password() {
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let file = dir.path().join("password");
    rotate(&server, "one");
    let redis = at(&format!("redis://till@{}?password_file={}", server.addr(), file.display()));
    let missing = redis.ping().await.unwrap_err();
    assert!(missing.kind() == ErrorKind::Misused && missing.to_string().contains(file.to_str().unwrap()), "{missing}");
    fs::write(&file, "one\n").unwrap();
    let claim = claim("k");
    assert!(is_granted(&redis, &claim).await);

    rotate(&server, "two");
    // The next renewal opens a connection with the old password.
    let refused = async || match renew(&redis, &claim).await {
        Err(error) if error.kind() == ErrorKind::Denied => Ok(error.to_string()),
        other => Err(format!("{other:?}")),
    };
    let refused = eventually_async(SOON * 4, refused).await;
    assert!(refused.contains(&format!("the password in the file {}", file.display())), "{refused}");
    fs::write(&file, "two\n").unwrap();
    let renewed = async || match renew(&redis, &claim).await {
        Ok(Renewal::Extended { .. }) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually_async(SOON * 4, renewed).await;
    assert!(!format!("{redis:?}").contains("two"));
}

#[tokio::test]
async fn the_passwords_at_the_master_and_at_the_sentinels_can_change() {
    let (master, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let sentinels = Sentinels::start(1, &master, "orders");
    let (at_master, at_sentinels) = (dir.path().join("master"), dir.path().join("sentinels"));
    let address = sentinels.url().split(['/', ',']).find_map(|part| part.parse::<std::net::SocketAddr>().ok()).unwrap();
    let rotate_sentinel = |password: &str| {
        let mut sentinel = bandog_testkit::RawRedis::connect(address).unwrap();
        let rights = ["ACL", "SETUSER", "watcher", "on", "resetpass", &format!(">{password}"), "&*", "+@all"];
        assert_eq!(sentinel.cmd(&rights).unwrap().text(), "OK");
    };
    let url = sentinels.url().replacen("://", "://till@", 1);
    let url = format!(
        "{url}?password_file={}&sentinel_user=watcher&sentinel_password_file={}",
        at_master.display(),
        at_sentinels.display()
    );
    let claim = claim("k");
    for password in ["one", "two"] {
        rotate(&master, password);
        rotate_sentinel(password);
        fs::write(&at_master, password).unwrap();
        fs::write(&at_sentinels, password).unwrap();
        // A new client asks the sentinels again.
        let redis = at(&url);
        eventually_async(SOON * 4, async || redis.ping().await).await;
        let granted = is_granted(&redis, &claim).await;
        assert!(granted || matches!(renew(&redis, &claim).await, Ok(Renewal::Extended { .. })), "{password}");
    }
}

#[tokio::test]
async fn the_log_blames_the_password_and_the_client_registers_again() {
    let (server, dir, (log, _guard)) =
        (RedisServer::start(), tempfile::tempdir().unwrap(), LogCapture::of_thread("bandog"));
    let file = dir.path().join("password");
    rotate(&server, "one");
    fs::write(&file, "one").unwrap();
    let redis = at(&format!("redis://till@{}?password_file={}", server.addr(), file.display()));
    let ours = Client::options().watchdog(Duration::from_secs(12)).on_current_runtime().over(redis).unwrap();
    let guard = ours.mutex("orders").lock().await.unwrap();
    rotate(&server, "two");
    // The first registration of the client is refused.
    let warned = eventually_async(SOON * 4, async || {
        let warned = log.lines_with("WARN");
        if warned.is_empty() { Err("no warning") } else { Ok(warned) }
    });
    let warned = warned.await;
    let words = ["the server refuses the credentials", &format!("the password in the file {}", file.display())];
    assert!(warned.len() == 1 && words.iter().all(|words| warned[0].contains(*words)), "{warned:?}");
    let refused = ours.mutex("other").try_lock().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");

    fs::write(&file, "two").unwrap();
    let is_registered = async || match ours.members().await {
        Ok(members) if !members.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually_async(SOON * 4, is_registered).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    assert_eq!(log.lines_with("WARN").len(), 1, "{:?}", log.lines_with("WARN"));
    assert_eq!(log.lines_with("answers again").len(), 1);
    ours.close().await.unwrap();
}
