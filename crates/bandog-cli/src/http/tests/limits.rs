//! What a client cannot do to the page.

use std::thread;

use super::{Asker, Served, TOKEN};

fn post(length: usize) -> String {
    let key = format!("Authorization: Bearer {TOKEN}");
    let head = "POST /api/jobs/x/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    format!("{head}\r\n{key}\r\nContent-Length: {length}\r\n\r\n")
}

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
fn what_is_no_http_ends_the_connection() {
    let page = Served::to_look_at();
    let mut asker = page.asker();
    asker.send(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n");
    assert!(asker.ends());
    assert_eq!(page.get("/healthz").status, 200);
}

#[test]
fn more_than_32_connections_wait_for_their_turn() {
    let page = Served::to_look_at();
    let mut here: Vec<Asker> = (0..32).map(|_| page.asker()).collect();
    here.iter_mut().for_each(|asker| assert_eq!(asker.get("/healthz").status, 200));
    let mut late = page.asker();
    thread::scope(|scope| {
        let answer = scope.spawn(|| late.get("/healthz").status);
        // Those that are here are still served, and the late one as soon as one of them has gone.
        assert!(here.iter_mut().all(|asker| asker.get("/healthz").status == 200));
        assert!(!answer.is_finished(), "the 33rd was served");
        here.clear();
        assert_eq!(answer.join().unwrap(), 200);
    });
}

#[test]
fn who_says_nothing_is_let_go() {
    let page = Served::to_look_at();
    let mut silent = page.asker();
    let mut slow = page.asker();
    slow.send(b"GET / HTTP/1.1\r\nHost: loc");
    let mut idle = page.asker();
    assert_eq!(idle.get("/healthz").status, 200);
    assert!(silent.ends() && slow.ends() && idle.ends());
}

#[test]
fn a_stop_lets_answers_out_and_takes_no_more() {
    let mut page = Served::to_look_at();
    let mut here = page.asker();
    assert_eq!(here.get("/healthz").status, 200);
    page.source.hangs();
    let mut hanging = page.asker();
    hanging.send(b"GET /api/locks HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(page.serving.take().unwrap().stop());
    assert!(here.ends() && hanging.ends());
    assert!(std::net::TcpStream::connect(page.address).is_err(), "nobody listens any more");
}
