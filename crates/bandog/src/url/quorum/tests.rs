#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use super::{nodes, store};
use crate::url::{Parts, Scheme, redact};

#[test]
fn each_node_gets_the_login_the_database_and_the_options() {
    let url = "rediss+quorum://app:se%2Ccret@a:7001,b,[::1]:7003/2?ca=/ca.pem&max_ttl=90s&timeout=6s";
    let parts = Parts::parse(url).unwrap();
    assert_eq!(parts.scheme, Scheme::Quorum);
    assert_eq!(parts.max_ttl, Some(std::time::Duration::from_secs(90)));
    let node = |host: &str| format!("rediss://app:se%2Ccret@{host}/2?ca=/ca.pem");
    assert_eq!(nodes(&parts.rest), ["a:7001", "b", "[::1]:7003"].map(node));
    assert_eq!(store(&parts.rest), "rediss+quorum://a:7001,b,[::1]:7003/2");
}

#[test]
fn a_quorum_needs_three_different_nodes() {
    for wrong in ["//a,b", "//a,b,", "//a,b,A", "//a,b,a:6379", "//a,b,a:06379", "a,b,c", "//us/er@a,b,c"] {
        assert!(Parts::parse(&format!("redis+quorum:{wrong}")).is_err(), "{wrong}");
    }
    for wrong in ["//a,localhost:1,127.0.0.1:1", "//a,[::1],localhost", "//a,u:pw@b,c,d", "//a:1,u:pw@b,c,d"] {
        assert!(Parts::parse(&format!("redis+quorum:{wrong}")).is_err(), "{wrong}");
    }
    assert!(Parts::parse("redis+quorum://u:pa,ss@a,b,c").is_ok());
    assert!(Parts::parse("redis+quorum://[::1]:1,[::2]:1,localhost:2").is_ok());
    assert!(Parts::parse("redis+quorum://a,b,c?max_ttl=1m").is_ok());
    assert!(Parts::parse("redis://a?max_ttl=1m").is_err());
}

#[test]
fn an_error_shows_the_nodes_and_no_password() {
    let shown = "redis+quorum://a:7001,b:7002,c:7003/0";
    assert_eq!(redact(shown), shown);
    assert_eq!(redact("redis+quorum://app:secret@a,b,c"), "redis+quorum://app:***@a,b,c");
    assert_eq!(redact("redis+quorum://app:secret,b,c"), "redis+quorum://app:***");
}
