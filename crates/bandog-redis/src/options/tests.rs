use bandog_core::ErrorKind;

use super::*;

fn read(url: &str) -> RedisOptions {
    RedisOptions::from_url(url).unwrap()
}

#[test]
fn what_is_left_out_has_a_default() {
    for url in ["redis://", "redis://localhost", "redis://localhost/", "redis://localhost:6379/0", "redis:///0"] {
        assert_eq!(read(url).store(), "redis://localhost:6379/0", "{url}");
    }
    assert_eq!(read("redis://cache:7000/12").store(), "redis://cache:7000/12");
    assert_eq!(read("redis://[::1]:7000").store(), "redis://[::1]:7000/0");
    assert_eq!(read("redis://[::1]:7000").host, "::1");
    assert_eq!(read("redis://x").timeout, Duration::from_secs(3));
}

#[test]
fn user_and_password_are_decoded() {
    let options = read("redis://us%65r:p%40ss%2Fw%C3%B6rd@h");
    assert_eq!((options.user.as_deref(), options.password.as_deref()), (Some("user"), Some("p@ss/wörd")));
    let options = read("redis://:secret@h");
    assert_eq!((options.user.as_deref(), options.password.as_deref()), (None, Some("secret")));
    let options = read("redis://user@h");
    assert_eq!((options.user.as_deref(), options.password.as_deref()), (Some("user"), Some("")));
}

#[test]
fn what_is_unknown_is_refused_and_named() {
    for (url, named) in [
        ("rediss://h", "\"rediss\""),
        ("http://h", "\"http\""),
        ("redis://h/x", "\"/x\""),
        ("redis://h/1/2", "\"/1/2\""),
        ("redis://h/+1", "\"/+1\""),
        ("redis://h/65536", "\"/65536\""),
        ("redis://h?protocol=resp3", "\"protocol=resp3\""),
        ("redis://h#here", "\"here\""),
        ("redis://h:99999", "99999"),
        ("localhost:6379", "\"localhost\""),
        ("cache", "\"cache\""),
    ] {
        let error = RedisOptions::from_url(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused, "{url}");
        assert!(error.to_string().contains(named) && error.to_string().contains("takes "), "{url}: {error}");
    }
}

#[test]
fn no_message_has_a_password() {
    for url in [
        "redis://user:secret@h:99999",
        "redis://user:secret@h/x",
        "redis://user:se@cret@h:x",
        "redis://user:secret%ZZ@h",
        "redis://user:secret%FF@h",
        "rediss://user:secret@h",
        "redis:user:secret@h",
        "redis://user:secret%h:7412",
        "redis://user:1?secret@h",
        "redis://user:1#secret@h",
        "user:secret@h",
        "//user:secret@h",
    ] {
        let error = RedisOptions::from_url(url).unwrap_err();
        assert!(!error.to_string().contains("cret"), "{error}");
    }
    let options = format!("{:?}", read("redis://user:secret@h"));
    assert!(!options.contains("secret") && options.contains("user"), "{options}");
}
