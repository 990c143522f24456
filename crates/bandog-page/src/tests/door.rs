//! Access: hosts, tokens and origins.

use std::net::SocketAddr;

use super::{Served, TOKEN};

const JSON: &str = "Content-Type: application/json";

/// The header with the token.
fn key() -> String {
    format!("Authorization: Bearer {TOKEN}")
}

// Promise: P2
#[test]
fn a_loopback_address_answers_under_its_own_names_only() {
    let page = Served::read_only();
    let ask = |host: &str| page.asker().ask("GET", "/api/jobs", &[&format!("Host: {host}")], "");
    for host in ["localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:1", "127.9.9.9", "[::1]:8080", "x.localhost"] {
        assert_eq!(ask(host).status, 200, "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "[::2]",
        "",
        "[",
        "localhost:80@evil.example",
        "[::1].evil.example",
    ] {
        ask(host).refuses(421, "host");
    }
    page.asker().ask("GET", "/api/jobs", &[], "").refuses(421, "host");
    page.asker().ask("GET", "http://evil.example/api/jobs", &["Host: localhost"], "").refuses(421, "host");
    page.asker().ask("GET", "/", &["Host: evil.example"], "").refuses(421, "host");
}

// Promise: P2
#[test]
fn another_address_answers_to_ip_addresses_and_to_the_names_that_are_allowed() {
    let page = Served::with(None, SocketAddr::from(([0, 0, 0, 0], 0)), &["Jobs.Example"]);
    let ask = |host: &str| page.asker().ask("GET", "/api/jobs", &[&format!("Host: {host}")], "");
    for host in ["jobs.example", "JOBS.example:8080", "10.0.0.1", "192.168.1.5:80", "[2001:db8::7]:80", "localhost"] {
        assert_eq!(ask(host).status, 200, "{host}");
    }
    for host in ["evil.example", "jobs.example.evil.example", "x.jobs.example", "", "jobs.example:80@evil.example"] {
        let reply = ask(host);
        reply.refuses(421, "host");
        assert!(reply.body.contains("--http-host"), "{}", reply.body);
    }
    assert!(ask("shop.example:8080").body.contains("--http-host shop.example "));
    page.asker().ask("GET", "/api/jobs", &[], "").refuses(421, "host");
}

#[test]
fn a_loopback_address_answers_to_the_names_that_are_allowed() {
    let page = Served::with(None, SocketAddr::from(([127, 0, 0, 1], 0)), &["jobs.example"]);
    let ask = |host: &str| page.asker().ask("GET", "/api/jobs", &[&format!("Host: {host}")], "");
    assert_eq!((ask("jobs.example").status, ask("localhost").status), (200, 200));
    ask("10.0.0.1").refuses(421, "host");
    ask("evil.example").refuses(421, "host");
}

// Promise: P1
#[test]
fn without_a_token_no_client_acts() {
    let page = Served::read_only();
    for header in [key(), "Authorization: Bearer ".into(), "X: y".into()] {
        page.asker().ask("POST", "/api/jobs/x/run", &["Host: localhost", &header], "").refuses(403, "read_only");
    }
    assert_eq!(page.source.acts(), []);
}

// Promise: P1
#[test]
fn only_the_token_acts_and_only_in_its_header() {
    let page = Served::to_act_on();
    let ask = |path: &str, header: &str| page.asker().ask("POST", path, &["Host: localhost", header], "");
    let wrong = [
        "X: y".to_owned(),
        "Authorization: Bearer ".into(),
        format!("Authorization: Bearer {TOKEN}x"),
        format!("Authorization: Bearer {}", &TOKEN[1..]),
        format!("Authorization: Basic {TOKEN}"),
        format!("Cookie: token={TOKEN}"),
    ];
    for header in wrong {
        let reply = ask("/api/jobs/x/run", &header);
        reply.refuses(401, "token");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        assert!(!reply.body.contains(TOKEN), "{}", reply.body);
    }
    ask(&format!("/api/jobs/x/run?token={TOKEN}"), "X: y").refuses(401, "token");
    assert_eq!(page.source.acts(), []);
    assert_eq!(ask("/api/jobs/x/run", &key()).status, 200);
}

// Promise: P1
#[test]
fn pages_of_another_origin_do_not_act() {
    let page = Served::to_act_on();
    let ask = |header: &str| {
        let headers = ["Host: localhost:8080", JSON, &key(), header];
        page.asker().ask("POST", "/api/jobs/x/run", &headers, "{}")
    };
    for header in [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Origin: http://evil.example",
        "Origin: http://localhost:8081",
        "Origin: null",
    ] {
        ask(header).refuses(403, "origin");
    }
    assert_eq!(page.source.acts(), []);
    for header in ["Sec-Fetch-Site: same-origin", "Origin: http://localhost:8080", "X: y"] {
        assert_eq!(ask(header).status, 200, "{header}");
    }
    let preflight =
        page.asker().ask("OPTIONS", "/api/jobs/x/run", &["Host: localhost", "Origin: http://evil.example"], "");
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (405, None));
}

#[test]
fn a_body_that_is_not_declared_as_json_is_refused() {
    let page = Served::to_act_on();
    let headers = ["Host: localhost", "Content-Type: text/plain", &key()];
    page.asker().ask("POST", "/api/jobs/x/pause", &headers, "{}").refuses(415, "body");
    assert_eq!(page.source.acts(), []);
}
