//! Limits against clients that misbehave.

use super::{Asker, Served, TOKEN};
use crate::serve::CONNECTIONS;

/// The head of a request whose body has this length.
fn post(length: usize) -> String {
    let key = format!("Authorization: Bearer {TOKEN}");
    let head = "POST /api/jobs/x/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    format!("{head}\r\n{key}\r\nContent-Length: {length}\r\n\r\n")
}

// Promise: P4
#[test]
fn heads_and_bodies_have_a_limit() {
    let page = Served::to_act_on();
    let long = format!("X: {}", "x".repeat(17 * 1024));
    assert_eq!(page.asker().ask("GET", "/", &["Host: localhost", &long], "").status, 431);
    let many: Vec<String> = (0..70).map(|number| format!("X-{number}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain(["Host: localhost"]).collect();
    assert_eq!(page.asker().ask("GET", "/", &many, "").status, 431);

    let mut asker = page.asker();
    asker.send(post(64 * 1024 + 1).as_bytes());
    asker.send(&vec![b' '; 64 * 1024 + 1]);
    asker.reply("POST").unwrap().refuses(413, "body");
    assert_eq!(page.source.acts(), []);

    let mut asker = page.asker();
    asker.send(post(64 * 1024).as_bytes());
    asker.send(&[&[b' '; 64 * 1024 - 2][..], b"{}"].concat());
    assert_eq!(asker.reply("POST").unwrap().status, 200);
}

#[test]
fn bytes_that_are_no_http_end_the_connection() {
    let page = Served::read_only();
    let mut asker = page.asker();
    asker.send(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n");
    assert!(asker.ends());
    assert_eq!(page.get("/healthz").status, 200);
}

// Promise: P4
#[test]
fn with_all_connections_in_use_the_longest_silent_one_is_closed() {
    let page = Served::read_only();
    let ask = |asker: &mut Asker| assert_eq!(asker.get("/healthz").status, 200);
    let (mut first, mut second) = (page.asker(), page.asker());
    ask(&mut first);
    ask(&mut second);
    let connect = |_| {
        let mut asker = page.asker();
        ask(&mut asker);
        ask(&mut first);
        asker
    };
    let _others: Vec<Asker> = (2..=CONNECTIONS).map(connect).collect();
    assert!(second.ends());
    ask(&mut first);
}

#[test]
fn unanswered_queries_do_not_block_other_clients() {
    let page = Served::read_only();
    page.source.hangs();
    let connect = |_| {
        let mut asker = page.asker();
        asker.send(b"GET /api/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n");
        asker
    };
    let here: Vec<Asker> = (0..CONNECTIONS).map(connect).collect();
    assert_eq!(page.get("/healthz").status, 200);
    assert!(here.last().unwrap().waits(), "the request was answered already");
}

// Promise: P4
#[test]
fn a_silent_client_is_disconnected() {
    let page = Served::read_only();
    let mut silent = page.asker();
    let mut slow = page.asker();
    slow.send(b"GET / HTTP/1.1\r\nHost: loc");
    let mut idle = page.asker();
    assert_eq!(idle.get("/healthz").status, 200);
    assert!(silent.ends() && slow.ends() && idle.ends());
}

#[test]
fn a_stop_closes_the_connections_and_takes_no_more() {
    let mut page = Served::read_only();
    let mut here = page.asker();
    assert_eq!(here.get("/healthz").status, 200);
    page.source.hangs();
    let mut hanging = page.asker();
    hanging.send(b"GET /api/locks HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(page.serving.take().unwrap().stop());
    assert!(here.ends() && hanging.ends());
    assert!(std::net::TcpStream::connect(page.address).is_err(), "the page still accepts connections");
}
