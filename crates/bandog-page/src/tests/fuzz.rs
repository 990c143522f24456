//! Random requests.

use std::{
    cell::Cell,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
};

use bandog_testkit::fuzz;
use hyper::{Method, Uri};

use super::{Served, TOKEN, ask::SOON};
use crate::route::Route;

/// Only every twentieth random request is sent to the page, because a request over a socket is slow.
const SENT: u64 = 20;

#[test]
fn fuzz_routes() {
    let samples = [
        "/api/jobs/report/history",
        "/api/jobs?after=a&limit=100&find=x",
        "/api/locks?limit=5",
        "/api/objects?name=a*&cursor=0%2017",
        "/bandog",
        "/bandog/",
        "/api/jobs/%E2%82%AC%20x/run",
        "/healthz",
        "http://localhost/api/summary",
    ];
    let words = ["%ff", "%00", "%2F", "?", "&", "=", "limit=", "after=", "find=", "//", "/..", "18446744073709551616"];
    fuzz::texts("routes of the page", &samples, &words, |target| {
        let Ok(uri) = target.parse::<Uri>() else { return false };
        let routes = ["", "/bandog"].map(|prefix| {
            let route = Route::of(&Method::GET, &uri, prefix);
            if let Ok(Route::Slash(to)) = &route {
                assert!(to.starts_with("./"), "{target:?} leads to {to:?}, which might be another server");
            }
            route.is_ok()
        });
        routes.contains(&true)
    });
}

#[test]
fn fuzz_requests() {
    let page = Served::to_act_on();
    let samples = [
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_owned(),
        "GET /api/jobs?limit=2 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nOrigin: http://localhost\r\n\r\n".to_owned(),
        "GET /api/jobs/report/history HTTP/1.0\r\nHost: localhost\r\nIf-None-Match: \"x\"\r\n\r\n".to_owned(),
        format!(
            "POST /api/jobs/x/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
        ),
        format!(
            "POST /api/jobs/x/pause HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{{\"reason\":\"why\"}}\r\n0\r\n\r\n"
        ),
    ];
    let samples: Vec<&[u8]> = samples.iter().map(|sample| sample.as_bytes()).collect();
    let words = [
        "\r\n",
        "\r\n\r\n",
        "HTTP/1.1",
        "Host: ",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        "{\"reason\":",
        "\u{0}",
    ];
    let count = Cell::new(0_u64);
    fuzz::bytes("requests to the page", &samples, &words, |request| {
        count.set(count.get() + 1);
        if count.get() % SENT != 1 {
            return false;
        }
        let answer = sent(&page, request);
        let status = answer.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
        assert!(answer.is_empty() || status.is_some_and(|status| status != b"500"), "{}", answer.escape_ascii());
        status == Some(b"200")
    });
    assert_eq!(page.get("/healthz").status, 200, "the page does not answer any more");
}

/// Sends these bytes, closes the client's side of the connection, and returns the answer.
fn sent(page: &Served, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(page.address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut answer = Vec::new();
    // If the page refuses the request, it might reset the connection before all bytes are sent.
    if stream.write_all(request).and_then(|()| stream.shutdown(Shutdown::Write)).is_ok() {
        match stream.read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the page does not answer"),
        }
    }
    answer
}
