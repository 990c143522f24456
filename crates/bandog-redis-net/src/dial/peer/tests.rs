use super::*;

#[test]
fn a_peer_that_is_not_redis_is_recognized_by_its_first_bytes() {
    for (head, part) in [
        (&b"HTTP/1.1 400 Bad"[..], "web server"),
        (b"SSH-2.0-OpenSSH", "SSH"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "rediss://"),
        (b"\x4a\x00\x00\x00\x0a8.0.36", "MySQL"),
        (b"220 mail ready", "\"220 mail ready\""),
        (b"\x00\x01", "begins with"),
    ] {
        assert!(identify(head, "rediss").unwrap().contains(part), "{head:?}");
    }
    for head in [&b""[..], b"%7\r\n", b"-NOAUTH", b"+OK", b"*14\r\n", b"$5\r\n", b">3\r\n"] {
        assert_eq!(identify(head, "rediss"), None, "{head:?}");
    }
}
