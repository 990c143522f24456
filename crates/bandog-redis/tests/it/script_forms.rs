//! The form in which calls send their scripts: by their hash, or as text if the user has no right for that.

use std::time::Duration;

use bandog_core::{Answer, Inspect, Latches, Leases, Pattern, Released, Renewal, Step, Verdict};
use bandog_testkit::RedisServer;

use crate::{
    help::{SOON, at, claim, fences, granted, lock_user_url, member, release, renew, take, with_timeout},
    latches::set,
    records::{create, value},
    rights::{limited, refused},
};

#[tokio::test]
async fn scripts_that_may_not_be_loaded_or_called_by_their_hash_are_sent_as_text() {
    for rules in [&["-script", "-evalsha", "+eval"][..], &["-script", "+eval"], &["-evalsha", "+eval"]] {
        let (server, redis) = limited();
        server.cmd(&[&["ACL", "SETUSER", "u"], rules].concat());
        let mut epoch = redis.profile().epoch;
        for calls in [3, 6] {
            let held = claim("k");
            granted(take(&redis, &held).await.unwrap());
            assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });
            assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }));
            // EVAL also adds the script to the server's cache, so later connections can call it by its hash.
            assert!(!rules.contains(&"-evalsha") || server.calls("eval") == calls, "{rules:?}");
            epoch.borrow_and_update();
            server.kill_clients();
            tokio::time::timeout(SOON, epoch.changed()).await.unwrap().unwrap();
        }
    }
}

/// Records, latches, the registry, queries and batches are sent as text, too. A command that is not a script, or that
/// was not refused, is sent once.
#[tokio::test]
async fn every_call_works_without_the_right_to_call_scripts_by_their_hash() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-evalsha"]);
    let connect = || at(&format!("redis://u:p@{}", server.addr()));
    let held = claim("k");
    let steps = [Step::Claim(held.clone()), Step::Claim(claim("other"))];
    for answer in connect().apply(&steps).await {
        assert!(matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. }))), "{answer:?}");
    }
    for renewal in connect().renew(&[held.clone(), held.clone()]).await {
        assert_eq!(renewal.unwrap(), Renewal::Extended { valid_for: held.ttl });
    }
    create(&connect(), "r", "text").await;
    assert_eq!(value(&connect(), "r").await.unwrap(), "text");
    connect().register(&member(&["k"]), held.ttl).await.unwrap();
    assert!(connect().show(&held.key).await.unwrap().is_held());
    assert_eq!(connect().list(&Pattern::all()).await.unwrap().len(), 2);
    assert!(connect().evict(&held.key).await.unwrap().is_some());
    assert!(connect().change_latch(&set("latch", 1)).await.unwrap().unwrap().has_changed);
}

/// If the rights change while a connection is open, the next call uses the form that is allowed then.
#[tokio::test]
async fn a_connection_follows_a_change_of_the_right_to_run_scripts() {
    let (server, redis) = limited();
    let held = claim("k");
    fences(&redis, &held).await;
    for (rules, is_allowed) in [
        (["-evalsha", "+eval"], true),
        (["+evalsha", "-eval"], false), // The connection sends texts. The next call tries the hash.
        (["+evalsha", "-eval"], true),
        (["-evalsha", "-eval"], false),
        (["-evalsha", "+eval"], true),
    ] {
        server.cmd(&[&["ACL", "SETUSER", "u"], &rules[..]].concat());
        if is_allowed {
            assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });
        } else {
            refused(renew(&redis, &held).await, "renew", &held, &rules.join(" "));
        }
    }
}

/// Three round trips take longer than the timeout.
#[tokio::test]
async fn a_server_that_has_lost_the_scripts_costs_one_more_round_trip() {
    let server = RedisServer::start();
    let wire = server.wire();
    let timeout = Duration::from_millis(900);
    let redis = with_timeout(&lock_user_url(wire.addr()), timeout);
    let held = claim("k");
    fences(&redis, &held).await;
    server.flush_scripts();
    wire.delay_replies(timeout * 2 / 5);
    let renewal = renew(&redis, &held).await;
    wire.delay_replies(Duration::ZERO);
    assert_eq!(renewal.unwrap(), Renewal::Extended { valid_for: held.ttl });
}

/// If the right to load scripts is taken before the server loses its scripts, the text is sent.
#[tokio::test]
async fn lost_scripts_that_may_not_be_loaded_again_are_sent_as_text() {
    let (server, redis) = limited();
    let held = claim("k");
    fences(&redis, &held).await;
    server.flush_scripts();
    server.cmd(&["ACL", "SETUSER", "u", "-script", "+eval"]);
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });
    assert_eq!(server.calls("eval"), 1);
    assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }));
    assert_eq!(server.calls("eval"), 2);
}
