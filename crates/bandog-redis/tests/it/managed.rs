//! Servers that refuse commands, as managed services do: the commands are renamed, or the user has no right to run them.

use std::time::Duration;

use bandog_core::{ErrorKind, Inspect, Leases, Level, Pattern, Records, Swap, Swapped};
use bandog_redis::{Redis, RedisOptions};
use bandog_sync::{Client, ClientOptions};
use bandog_testkit::RedisServer;

use crate::help::{SOON, at, claim, notifier, take};

/// Commands that some services refuse. Locks need none of them, except that a user who may not load scripts needs EVAL.
const REFUSED: [&str; 12] =
    ["CONFIG", "INFO", "WAIT", "CLIENT", "SCRIPT", "SCAN", "KEYS", "ACL", "PUBSUB", "DEBUG", "MONITOR", "FLUSHALL"];

/// Uses locks of all kinds, with waiters, and records and latches.
async fn use_everything(url: &str) {
    let (client, other) = (client(url), client(url));
    let mutex = client.mutex("mutex");
    let guard = mutex.lock().await.unwrap();
    // Another client waits and is notified.
    let waiting = other.mutex("mutex");
    let (next, ()) = tokio::join!(waiting.lock(), async {
        tokio::task::yield_now().await;
        guard.release().await.unwrap();
    });
    next.unwrap().release().await.unwrap();
    client.mutex("fair").fair().lock().await.unwrap().release().await.unwrap();
    let lock = client.rwlock("rwlock");
    let (reader, second) = (lock.read().await.unwrap(), other.rwlock("rwlock").read().await.unwrap());
    reader.release().await.unwrap();
    second.release().await.unwrap();
    lock.write().await.unwrap().release().await.unwrap();
    client.semaphore("semaphore", 2).acquire().await.unwrap().release().await.unwrap();
    let latch = client.latch("latch");
    assert!(latch.set(1).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert!(latch.wait_for(SOON).await.unwrap());
    client.close().await.unwrap();
    other.close().await.unwrap();
    let redis = at(url);
    let (notifier, count) = notifier();
    let name = bandog_core::Key::new("record").unwrap();
    let _subscription = redis.subscribe_record(&name, notifier).await.unwrap();
    let swaps = redis.swap(&[Swap { notifies: true, ..Swap::new(name.clone(), None, "one") }]).await.unwrap();
    let Ok(Swapped::Done(version @ Some(_))) = &swaps.each[0] else { panic!("{swaps:?}") };
    bandog_testkit::eventually_async(SOON, async || count() > 0).await;
    assert_eq!(redis.names(&Pattern::all()).await.unwrap(), std::slice::from_ref(&name));
    let deletion = Swap { to: None, ..Swap::new(name, *version, "") };
    assert!(redis.swap(&[deletion]).await.unwrap().each[0].is_ok());
}

fn client(url: &str) -> Client {
    let backend = Redis::new(RedisOptions::from_url(url).unwrap().timeout(2 * SOON)).unwrap();
    ClientOptions::default().watchdog(Duration::from_secs(30)).over(backend).unwrap()
}

/// Checks what depends on the refused commands: `ls`, `doctor` and `replicas=`.
async fn says_what_it_cannot_know(url: &str, refused: &[&str]) {
    let is_refused = |command| refused.contains(&command);
    let redis = at(url);
    let listed = redis.list(&Pattern::all()).await;
    match &listed {
        Err(error) => assert!(is_refused("SCAN") && error.kind() == ErrorKind::Denied, "{refused:?}: {error}"),
        Ok(_) => assert!(!is_refused("SCAN")),
    }
    let findings = redis.check().await.unwrap();
    let finding = |subject: &str| findings.iter().find(|finding| finding.subject == subject).unwrap();
    let (no_info, no_config) = (is_refused("INFO"), is_refused("CONFIG"));
    for (subject, is_unknown) in [
        ("version", no_info),
        ("maxmemory-policy", no_info && no_config),
        ("persistence", no_config),
        ("replication", no_info),
        ("rights", is_refused("ACL")),
    ] {
        let says = &finding(subject).says;
        let says_so = says.contains("could not be checked");
        assert!(says_so == is_unknown || subject == "rights" && says_so, "{refused:?}, {subject}: {says}");
    }
    for finding in &findings {
        assert!(finding.level != Level::Danger, "{refused:?}: {finding:?}");
    }
    if is_refused("WAIT") || no_info {
        let redis = Redis::new(RedisOptions::from_url(url).unwrap().replicas(1)).unwrap();
        let error = take(&redis, &claim("replicated")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{refused:?}: {error}");
        assert!(error.to_string().contains("SET, WAIT and INFO"), "{refused:?}: {error}");
    }
}

// Promise: RD25
#[tokio::test]
async fn locks_work_on_a_server_without_the_commands_that_services_remove() {
    let all = REFUSED.map(|command| vec![command]).into_iter().chain([REFUSED.to_vec()]);
    for refused in all {
        let renamed: Vec<&str> = refused.iter().flat_map(|command| ["--rename-command", command, ""]).collect();
        let server = RedisServer::start_with(&renamed);
        use_everything(&server.url()).await;
        says_what_it_cannot_know(&server.url(), &refused).await;
    }
}

// Promise: RD25
#[tokio::test]
async fn locks_work_for_a_user_without_the_rights_that_services_deny() {
    let server = RedisServer::start();
    let url = format!("redis://u:p@{}", server.addr());
    let all = REFUSED.map(|command| vec![command]).into_iter().chain([REFUSED.to_vec()]);
    for refused in all {
        let rules: Vec<String> = refused.iter().map(|command| format!("-{}", command.to_lowercase())).collect();
        let mut words = vec!["ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all"];
        words.extend(rules.iter().map(String::as_str));
        server.cmd(&words);
        use_everything(&url).await;
        says_what_it_cannot_know(&url, &refused).await;
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_server_without_resp3_is_refused_with_the_reason() {
    let server = RedisServer::start_with(&["--rename-command", "HELLO", ""]);
    let error = at(&server.url()).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("RESP3"), "{error}");
}
