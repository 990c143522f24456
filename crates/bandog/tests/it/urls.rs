use bandog::{ConnectOptions, ErrorKind, redact, without_secrets};

/// A wrong URL is told before any I/O, with its value and what is allowed.
#[track_caller]
fn refused(url: &str, told: &[&str]) {
    let error = ConnectOptions::parse(url).and_then(ConnectOptions::connect_lazy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    for words in told {
        assert!(error.to_string().contains(words), "{error} says nothing of {words:?}");
    }
}

#[test]
fn an_unknown_scheme_is_told_with_the_known_ones() {
    refused("mongo://localhost", &["mongo", "redis", "sqlite", "memory"]);
    refused("localhost:6379", &["localhost", "redis"]);
    refused("", &["redis://HOST"]);
}

#[test]
fn an_unknown_option_is_told_with_the_known_ones() {
    refused("memory:?watchdgo=10s", &["watchdgo", "watchdog", "timeout"]);
    refused("memory:?watchdog=10s&ttl=3s", &["ttl"]);
}

#[test]
fn options_of_one_scheme_are_unknown_to_the_others() {
    refused("redis://db?ca=/x.pem", &["\"ca\"", "watchdog"]);
    refused("rediss://db?db=1", &["\"db\"", "ca, cert, key, watchdog"]);
    refused("redis+unix:///run/redis.sock?ca=/x.pem", &["\"ca\"", "db, watchdog"]);
    refused("rediss://db?cert=/x.pem&timeout=1s", &["cert=PATH&key=PATH"]);
    refused("redis+unix:run/redis.sock", &["socket", "/PATH"]);
    refused("redis+unix://host/run/redis.sock", &["socket", "/PATH"]);
}

#[test]
fn what_only_the_backend_knows_reaches_it() {
    let store = |url: &str| ConnectOptions::parse(url).unwrap().connect_lazy().unwrap().store().to_owned();
    assert_eq!(store("rediss://db?ca=/x.pem&timeout=1s"), "rediss://db:6379/0");
    assert_eq!(store("redis+unix://u:p@/run/a@b.sock?watchdog=10s&db=3"), "redis+unix:///run/a@b.sock?db=3");
}

#[test]
fn durations_out_of_bounds_are_told_with_the_bounds() {
    refused("memory:?watchdog=99ms", &["99ms", "100 ms to 365 days"]);
    refused("memory:?watchdog=0s", &["0ns", "100 ms to 365 days"]);
    refused("memory:?watchdog=400d", &["100 ms to 365 days"]);
    refused("memory:?watchdog=-5s", &["-5s", "no duration"]);
    refused("memory:?watchdog=soon", &["soon", "no duration"]);
    refused("memory:?watchdog", &["watchdog", "no duration"]);
    refused("memory:?timeout=1ms", &["1ms", "10 ms to 365 days"]);
}

#[test]
fn the_ttl_is_what_was_said_last() {
    let ttl = |url: &str| ConnectOptions::parse(url).unwrap().ttl().as_secs();
    assert_eq!((ttl("memory:"), ttl("memory:?watchdog=10s")), (30, 10));
    let options = ConnectOptions::parse("memory:?watchdog=10s").unwrap();
    assert_eq!(options.watchdog(std::time::Duration::from_secs(5)).ttl().as_secs(), 5);
}

#[test]
fn durations_set_by_hand_have_the_same_bounds() {
    let options = ConnectOptions::parse("memory:").unwrap();
    let error = options.clone().watchdog(std::time::Duration::ZERO).connect_lazy().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    let error = options.timeout(std::time::Duration::ZERO).connect_lazy().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
}

#[test]
fn no_error_and_no_debug_shows_a_password() {
    for url in [
        "redis://app:hunter2@db?x=y",
        "redis://:hunter2@db/notanumber",
        "mongo://app:hunter2@db",
        "redis://app:hunter2@:x",
        "redis://host?password=hunter2",
        "redis://app:hunter2%host:7412",
        "redis://app@host?a=b&password=hunter2",
        "redis://app:1/hunter2@db",
        "redis://app:a?hunter2@db",
        "redis://app:a#hunter2@db",
        "redis:app:hunter2@db",
        "rediss://app:hunter2@db?cert=x",
        "redis+unix://app:hunter2/run/redis.sock",
        "redis+unix://app:1?hunter2@/run/redis.sock",
        "redis+unix://app:1@hunter2@/run/redis.sock",
        "redis+unix://app:1/hunter2@/run/redis.sock",
        "app:hunter2@db",
    ] {
        let parsed = ConnectOptions::parse(url);
        assert!(!format!("{parsed:?}").contains("hunter2"), "{parsed:?}");
        let error = parsed.and_then(ConnectOptions::connect_lazy).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn a_url_is_shown_without_its_password() {
    assert_eq!(redact("redis://app:se@cret@db:6379/2?watchdog=3s"), "redis://app:***@db:6379/2?watchdog=3s");
    assert_eq!(redact("redis://:secret@db"), "redis://:***@db");
    assert_eq!(redact("redis://db"), "redis://db");
    assert_eq!(redact("redis://db:6379/2?timeout=1s"), "redis://db:6379/2?timeout=1s");
    assert_eq!(redact("redis://[::1]:6379"), "redis://[::1]:6379");
    assert_eq!(redact("redis://u:secret%db:6379/2"), "redis://u:***/2");
    assert_eq!(redact("redis://db?password=secret&timeout=1s"), "redis://db?password=***&timeout=1s");
    let files = "rediss://u:***@db:6379/2?ca=/etc/ca.pem&cert=c.pem&key=k.pem&timeout=1s";
    assert_eq!(redact(&files.replace("***", "secret")), files);
    assert_eq!(redact("redis+unix://u:secret@/run/r.sock?db=1"), "redis+unix://u:***@/run/r.sock?db=1");
    assert_eq!(redact("redis+unix:///run/a@b.sock?db=1"), "redis+unix:///run/a@b.sock?db=1");
    assert_eq!(without_secrets("rediss://u:secret@db?ca=/x"), "rediss://u@db?ca=/x");
    assert_eq!(redact("sqlite:/tmp/a@b:c.db"), "sqlite:/tmp/a@b:c.db");
    assert_eq!(redact("sqlite:///tmp/a:b@c.db"), "sqlite:///tmp/a:b@c.db");
    assert_eq!(redact("app:secret@db"), "app:***@db");
    assert_eq!(without_secrets("sqlite:///tmp/a:b@c.db"), "sqlite:///tmp/a:b@c.db");
    assert_eq!(without_secrets("redis://app:secret@db/2"), "redis://app@db/2");
    assert_eq!(without_secrets("redis://:secret@db/2"), "redis://db/2");
}
