//! Random URLs, and URLs with random passwords, which must never be shown.

use bandog::{
    ConnectOptions,
    admin::{redact, without_secrets},
};
use bandog_testkit::fuzz;

const WORDS: &[&str] = &[
    "redis",
    "rediss",
    "redis+unix",
    "sqlite",
    "memory",
    "://",
    ":",
    "@",
    "?",
    "&",
    "watchdog=",
    "timeout=",
    "prefix=",
    "db=",
    "ca=",
    "%2F",
    "%40",
    "%ff",
    "30s",
    "1ms",
    "366days",
    "1h 5m",
    "99999999999999999999s",
    "localhost",
    "[::1]",
    ":memory:",
    "~",
    "//",
];

const URLS: &[&str] = &[
    "redis://user:pw@localhost:6379/0?watchdog=30s&timeout=3s&prefix=shop:",
    "rediss://localhost?ca=/etc/ca.pem&cert=c&key=k",
    "redis+unix://u:pw@/run/redis.sock?db=3&watchdog=1m",
    "sqlite:/tmp/x.db?watchdog=10s",
    "sqlite:relative.db",
    "memory:",
    "memory:name?prefix=a%3A",
];

#[test]
fn fuzz_urls() {
    fuzz::texts("URLs", URLS, WORDS, |url| {
        for shown in [redact(url), without_secrets(url)] {
            assert_eq!(redact(&shown), redact(&redact(&shown)), "{url:?}: {shown:?} has a secret left");
        }
        let Ok(options) = ConnectOptions::parse(url) else { return false };
        assert!((100..=365 * 24 * 3_600_000).contains(&options.get_watchdog().as_millis()), "{url:?}");
        true
    });
}

#[test]
fn fuzz_passwords() {
    // Each input is a password. The characters that end a password in a URL are encoded, as the documentation says.
    let samples = ["hunter2-hunter2", "p%40ss%2Fw%C3%B6rd", "geheim:geheim", "a=b&c=d", "[::1]:6379"];
    fuzz::texts("passwords", &samples, &["hunter2", ":", "%", "&", "="], |password| {
        let encoded: String = password
            .chars()
            .map(|c| match c {
                '@' | '/' | '?' | '#' | '%' => format!("%{:02X}", u32::from(c)),
                c => c.to_string(),
            })
            .collect();
        let is_plain = password.chars().all(|c| c.is_ascii_graphic());
        // A short or common text can be in the message for another reason.
        if encoded.len() < 8 || "redis://app@db.example.org:6379/2***".contains(&encoded) {
            return false;
        }
        for tail in ["", ":6379", "/x", "/0?watchdog=never", "?unknown=1", ":port", "/0?prefix=%ff"] {
            let url = format!("redis://app:{encoded}@db.example.org{tail}");
            for shown in [redact(&url), without_secrets(&url)] {
                assert!(!shown.contains(&encoded), "{url:?} is shown as {shown:?}");
            }
            let options = ConnectOptions::parse(&url);
            let printed = match &options {
                Ok(options) => format!("{options:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!printed.contains(&encoded) && !printed.contains(password), "{url:?}: {printed}");
        }
        is_plain
    });
}
