//! `bandog doctor` over Redis.

use bandog_testkit::RedisServer;

use crate::help::{Place, Ran};

#[test]
fn a_server_that_may_drop_locks_is_a_danger() {
    let (redis, place) = (RedisServer::start(), Place::new());
    place.run(&["doctor", "--url", &redis.url()]).assert_ended(0, &[]);
    redis.cmd(&["CONFIG", "SET", "maxmemory", "100mb"]);
    redis.cmd(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let ran = place.run(&["doctor", "--url", &redis.url()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""), "{ran:?}");
    let worst = ran.stdout.lines().rev().take(2).collect::<Vec<_>>();
    assert!(worst[1].starts_with("danger  maxmemory-policy") && worst[0].contains("cure: "), "{ran:?}");
    assert!(worst[1].contains("queues and maps"), "{ran:?}");
}

#[test]
fn a_user_that_may_not_track_keys_is_told_of_polls() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.cmd(&["ACL", "SETUSER", "ann", "on", ">secret", "~*", "&*", "+@all"]);
    let url = redis.url().replace("redis://", "redis://ann:secret@");
    let tracking = || place.run(&["doctor", "--url", &url]).stdout.contains("may not run CLIENT TRACKING");
    assert!(!tracking());
    if !RedisServer::version().is_since(7, 0) {
        return; // The server has no ACL DRYRUN, which the check of rights needs.
    }
    redis.cmd(&["ACL", "SETUSER", "ann", "-client|tracking"]);
    assert!(tracking());
}

#[test]
fn a_password_that_others_can_read_is_reported_and_not_printed() {
    let (redis, place) = (RedisServer::start_with(&["--requirepass", "hunter2"]), Place::new());
    let url = redis.url().replace("redis://", "redis://:hunter2@");
    let by_option = place.run(&["doctor", "--json", "--url", &url]);
    by_option.assert_ended(0, &[]);
    assert!(by_option.stdout.contains("\"level\":\"advice\",\"subject\":\"url-password\""), "{by_option:?}");
    let mut command = place.bandog(&["doctor", "--json"]);
    command.env("BANDOG_URL", &url);
    let by_variable = Ran::from(command);
    by_variable.assert_ended(0, &[]);
    assert!(!by_variable.stdout.contains("url-password"), "{by_variable:?}");
    assert!(!format!("{by_option:?}{by_variable:?}").contains("hunter2"));
}

#[test]
fn a_server_that_does_not_answer_is_unavailable() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.kill();
    let ran = place.run(&["doctor", "--url", &redis.url()]);
    ran.assert_ended(69, &["bandog: ", &redis.port().to_string()]);
    assert!(ran.stdout.contains("from --url"), "{ran:?}");
}
