//! Servers that are not Redis.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::eventually_async;

use crate::help::{SOON, at, with_timeout};

/// The bytes that a server of another kind sends, and a part of the expected error.
const FOREIGN_SERVERS: [(&[u8], &str); 5] = [
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a web server"),
    (b"\x4a\x00\x00\x00\x0a8.0.36\x00\x08\x00\x00\x00", "a MySQL server"),
    (b"SSH-2.0-OpenSSH_9.2p1\r\n", "an SSH server"),
    (b"\x15\x03\x01\x00\x02\x02\x46", "write rediss://"),
    (b"220 mail.example ESMTP\r\n", "\"220 mail.example"),
];

#[tokio::test]
async fn a_peer_that_is_not_redis_is_reported_immediately() {
    for (bytes, part) in FOREIGN_SERVERS {
        for closes in [true, false] {
            let url = foreign_server(bytes, closes);
            let redis = with_timeout(&url, Duration::from_secs(1));
            let start = Instant::now();
            let error = redis.ping().await.unwrap_err();
            assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unsupported, false), "{error}");
            assert!(error.to_string().contains(part) && error.to_string().contains("is not Redis"), "{error}");
            assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        }
    }
}

#[tokio::test]
async fn the_error_for_a_silent_peer_names_tls() {
    let error = at(&foreign_server(b"", true)).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("write rediss://"), "{error}");
    // An attempt to connect ends before the request, and then the error of the request is that of the attempt. On a busy
    // machine the request can end before, so the test waits for a request that reports the end of an attempt.
    let redis = with_timeout(&foreign_server(b"", false), Duration::from_secs(1));
    eventually_async(12 * SOON, async || {
        let error = redis.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        error.to_string().contains("write rediss://")
    })
    .await;
}

/// Starts a server that sends these bytes to every client. Returns its URL.
fn foreign_server(bytes: &'static [u8], closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                let _ = stream.read(&mut buffer);
                let _ = stream.write_all(bytes);
                while !closes && stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
            });
        }
    });
    url
}
