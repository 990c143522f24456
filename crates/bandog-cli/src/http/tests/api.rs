//! What programs are told.

use std::thread;

use super::{
    Served, TOKEN,
    fixed::{NAME, SPELT},
};
use crate::http::source::Act;

#[test]
fn rows_come_with_their_time_and_their_store() {
    let page = Served::to_look_at();
    let jobs = page.get("/api/jobs").json();
    assert_eq!((&jobs["store"], &jobs["jobs"][0]["name"]), (&"redis://cache.example".into(), &NAME.into()));
    for time in ["now", "at"] {
        assert!(jobs[time].as_str().unwrap().ends_with('Z'), "{jobs}");
    }
    assert_eq!(page.get("/api/locks").json()["locks"][0]["name"], "deploy");
    assert_eq!(page.get("/api/nodes").json()["nodes"]["running"][0]["node"], "web-1:17");
    assert_eq!(page.get(&format!("/api/jobs/{SPELT}")).json()["job"]["name"], NAME);
    assert_eq!(page.get(&format!("/api/jobs/{SPELT}/history")).json()["runs"][0]["job"], NAME);
    let about = page.get("/api/about").json();
    assert_eq!((&about["acts"], &about["version"]), (&false.into(), &env!("CARGO_PKG_VERSION").into()));
    assert_eq!(Served::to_act_on().get("/api/about").json()["acts"], true);
}

#[test]
fn what_is_not_there_is_told_apart() {
    let page = Served::to_act_on();
    page.get("/api/jobs/other").refuses(404, "job");
    for path in ["/api", "/api/jobs/", "/api/jobs/x/y", "/../etc/passwd", "/index.html"] {
        page.get(path).refuses(404, "path");
    }
    page.get("/api/jobs/%FF").refuses(400, "path");
    page.get("/api/jobs/x/run").refuses(405, "method");
    page.asker().ask("POST", "/api/jobs", &["Host: localhost"], "").refuses(405, "method");
    page.asker().ask("DELETE", "/", &["Host: localhost"], "").refuses(405, "method");
}

#[test]
fn a_store_that_is_away_is_told_and_the_page_is_served_on() {
    let page = Served::to_act_on();
    page.source.goes_away();
    page.get("/api/jobs").refuses(503, "unavailable");
    page.get("/api/locks").refuses(503, "unavailable");
    page.get("/api/jobs/x/history").refuses(503, "unavailable");
    assert_eq!((page.get("/").status, page.get("/healthz").status), (200, 200));
}

#[test]
fn many_who_look_at_once_ask_the_store_once() {
    let page = Served::to_look_at();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(page.get("/api/jobs").status, 200));
        }
    });
    assert!(page.source.looks() < 8, "{} looks", page.source.looks());
}

#[test]
fn acts_reach_their_job_with_what_they_carry() {
    let page = Served::to_act_on();
    let key = format!("Authorization: Bearer {TOKEN}");
    let act = |verb: &str, body: &str| {
        let headers = ["Host: localhost", "Content-Type: application/json", &key];
        page.asker().ask("POST", &format!("/api/jobs/{SPELT}/{verb}"), &headers, body)
    };
    assert_eq!(act("run", "").json()["done"]["id"], 8);
    assert_eq!(act("pause", r#"{"reason": "stocktaking"}"#).status, 200);
    assert_eq!(act("resume", "{}").status, 200);
    assert_eq!(act("cancel", "{}").status, 200);
    assert_eq!(act("cancel", r#"{"id": 7}"#).status, 200);
    let acts = [
        Act::Run,
        Act::Pause { reason: "stocktaking".into() },
        Act::Resume,
        Act::Cancel { id: None },
        Act::Cancel { id: Some(7) },
    ];
    assert_eq!(page.source.acts(), acts.map(|act| (NAME.to_owned(), act)));
    for (verb, body) in
        [("run", r#"{"id": 7}"#), ("resume", r#"{"reason": "x"}"#), ("pause", "{"), ("pause", r#"{"x": 1}"#)]
    {
        act(verb, body).refuses(400, "body");
    }
    act("pause", &format!(r#"{{"reason": "{}"}}"#, "x".repeat(1025))).refuses(400, "body");
    assert_eq!(page.source.acts().len(), 5);
}

#[test]
fn what_was_done_is_seen_at_the_next_look() {
    let page = Served::to_act_on();
    page.get("/api/jobs");
    let key = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(page.asker().ask("POST", "/api/jobs/x/run", &["Host: localhost", &key], "").status, 200);
    page.get("/api/jobs");
    assert_eq!(page.source.looks(), 2, "the rows of before were kept");
}
