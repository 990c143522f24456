//! The interface for programs.

use std::thread;

use super::{
    Served, TOKEN,
    ask::SOON,
    fixed::{NAME, SPELT},
};
use crate::source::{Act, Target};

#[test]
fn rows_come_with_their_time_and_their_store() {
    let page = Served::read_only();
    let jobs = page.get("/api/jobs").json();
    assert_eq!((&jobs["store"], &jobs["jobs"][0]["name"]), (&"redis://cache.example".into(), &NAME.into()));
    for time in ["now", "at"] {
        assert!(jobs[time].as_str().unwrap().ends_with('Z'), "{jobs}");
    }
    let locks = |query: &str| page.get(&format!("/api/locks{query}")).json();
    assert_eq!((&locks("")["locks"][0]["name"], &locks("")["locks"][1]["name"]), (&"deploy".into(), &"nightly".into()));
    let some = locks("?limit=1");
    assert_eq!((some["locks"].as_array().unwrap().len(), &some["total"]), (1, &2.into()), "{some}");
    page.get("/api/locks?limit=0").refuses(400, "query");
    assert_eq!(page.get("/api/nodes").json()["nodes"]["running"][0]["node"], "web-1:17");
    assert_eq!(page.get(&format!("/api/jobs/{SPELT}")).json()["job"]["name"], NAME);
    assert_eq!(page.get(&format!("/api/jobs/{SPELT}/history")).json()["runs"][0]["job"], NAME);
    let about = page.get("/api/about").json();
    assert_eq!(about["metrics"], true);
    assert_eq!((&about["acts"], &about["version"]), (&false.into(), &env!("CARGO_PKG_VERSION").into()));
    assert_eq!(Served::to_act_on().get("/api/about").json()["acts"], true);
}

#[test]
fn missing_things_have_different_errors() {
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
fn a_store_without_an_answer_is_reported_and_the_page_is_served() {
    let page = Served::to_act_on();
    page.source.goes_away();
    page.get("/api/jobs").refuses(503, "unavailable");
    page.get("/api/locks").refuses(503, "unavailable");
    page.get("/api/jobs/x/history").refuses(503, "unavailable");
    page.get("/api/summary").refuses(503, "unavailable");
    assert_eq!((page.get("/").status, page.get("/healthz").status), (200, 200));
}

// Promise: P4
#[test]
fn many_simultaneous_clients_cause_one_query_of_the_store() {
    let page = Served::read_only();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(page.get("/api/jobs").status, 200));
        }
    });
    assert!(page.source.job_queries() < 8, "{} job_queries", page.source.job_queries());
}

#[test]
fn acts_reach_their_job_with_their_fields() {
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
    assert_eq!(page.source.acts(), acts.map(|act| (Target::Job(NAME.to_owned()), act)));
    for (verb, body) in
        [("run", r#"{"id": 7}"#), ("resume", r#"{"reason": "x"}"#), ("pause", "{"), ("pause", r#"{"x": 1}"#)]
    {
        act(verb, body).refuses(400, "body");
    }
    act("pause", &format!(r#"{{"reason": "{}"}}"#, "x".repeat(1025))).refuses(400, "body");
    assert_eq!(page.source.acts().len(), 5);
}

/// The page acts as the command does. Each action needs the token, and its own fields only.
#[test]
fn all_other_acts_reach_their_targets() {
    let page = Served::to_act_on();
    let key = format!("Authorization: Bearer {TOKEN}");
    let act = |path: &str, body: &str| {
        let headers = ["Host: localhost", "Content-Type: application/json", &key];
        page.asker().ask("POST", path, &headers, body)
    };
    let (from, to) = ("2026-05-01T00:00:00Z", "2026-05-01T02:00:00Z");
    let job = |verb: &str| format!("/api/jobs/{SPELT}/{verb}");
    let range = format!(r#"{{"from": "{from}", "to": "{to}"}}"#);
    let acts = [
        (job("backfill"), range.as_str()),
        (job("forget"), ""),
        ("/api/all/pause".into(), r#"{"reason": "stocktaking"}"#),
        ("/api/all/resume".into(), ""),
        ("/api/nodes/web-1%3A17/pause".into(), r#"{"reason": "disk"}"#),
        ("/api/nodes/web-1%3A17/resume".into(), ""),
        ("/api/locks/deploy%2Fshop/release".into(), ""),
    ];
    for (path, body) in &acts {
        assert_eq!(act(path, body).status, 200, "{path}");
        page.asker().ask("POST", path, &["Host: localhost"], "").refuses(401, "token");
        let foreign = ["Host: localhost", &key, "Sec-Fetch-Site: cross-site"];
        page.asker().ask("POST", path, &foreign, "").refuses(403, "origin");
        page.get(path).refuses(405, "method");
        Served::read_only().asker().ask("POST", path, &["Host: localhost", &key], "").refuses(403, "read_only");
    }
    let (name, node) = (|| Target::Job(NAME.to_owned()), || Target::Node("web-1:17".into()));
    let pause = |reason: &str| Act::Pause { reason: reason.into() };
    let expected = [
        (name(), Act::Backfill { from: from.parse().unwrap(), to: to.parse().unwrap() }),
        (name(), Act::Forget),
        (Target::All, pause("stocktaking")),
        (Target::All, Act::Resume),
        (node(), pause("disk")),
        (node(), Act::Resume),
        (Target::Lock("deploy/shop".into()), Act::Release),
    ];
    assert_eq!(page.source.acts(), expected);
    for body in ["", r#"{"from": "2026-05-01T00:00:00Z"}"#, r#"{"from": "yesterday", "to": "today"}"#] {
        act(&job("backfill"), body).refuses(400, "body");
    }
    act("/api/locks/deploy/release", r#"{"id": 7}"#).refuses(400, "body");
    // Half a range is not taken for none: `cancel` without a body cancels all runs.
    for verb in ["cancel", "run", "forget", "resume", "pause"] {
        for half in [r#"{"from": "2026-05-01T00:00:00Z"}"#, r#"{"to": "2026-05-01T00:00:00Z"}"#] {
            act(&job(verb), half).refuses(400, "body");
        }
    }
    for path in ["/api/all/run", "/api/nodes/x/forget", "/api/locks/x/pause", "/api/jobs/x/release"] {
        act(path, "").refuses(404, "path");
    }
    assert_eq!(page.source.acts().len(), acts.len());
}

#[test]
fn an_act_is_visible_in_the_next_answer() {
    let page = Served::to_act_on();
    page.get("/api/jobs");
    let key = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(page.asker().ask("POST", "/api/jobs/x/run", &["Host: localhost", &key], "").status, 200);
    page.get("/api/jobs");
    assert_eq!(page.source.job_queries(), 2, "the page served an old answer");
}

#[test]
fn jobs_are_served_in_parts() {
    let page = Served::read_only();
    page.source.has_more_jobs(300);
    let names = |query: &str| {
        let body = page.get(&format!("/api/jobs{query}")).json();
        let jobs = body["jobs"].as_array().unwrap().iter();
        let names: Vec<String> = jobs.map(|job| job["name"].as_str().unwrap().to_owned()).collect();
        (names, body["total"].as_u64().unwrap())
    };
    assert_eq!(names("").0.len(), 301, "the answer without a limit does not have all jobs");
    let (first, total) = names("?limit=2");
    assert_eq!((first, total), (vec!["job-0".to_owned(), "job-1".into()], 301));
    assert_eq!(names("?limit=2&offset=2").0, ["job-10", "job-100"]);
    assert_eq!(names("?limit=2&offset=301").0, [""; 0]);
    assert_eq!(names("?limit=9&name=SWEEP+fr%C3%BCh"), (vec![NAME.to_owned()], 1));
    assert_eq!(names("?limit=9&is=failing"), (vec![], 0));
    let counts = page.get("/api/jobs?limit=1&name=sweep").json()["counts"].clone();
    assert_eq!(counts, serde_json::json!({ "all": 301, "running": 0, "paused": 0, "failing": 0 }));
    for query in ["?limit=0", "?limit=201", "?limit=x", "?offset=-1", "?is=odd", "?name=%FF"] {
        page.get(&format!("/api/jobs{query}")).refuses(400, "query");
    }
}

#[test]
fn the_summary_has_the_last_day_and_the_next_hour() {
    let page = Served::read_only();
    let day = bandog_testkit::eventually(SOON, || {
        let summary = page.get("/api/summary").json()["summary"].clone();
        if summary["last_24h"]["jobs_read"] == 1 { Ok(summary) } else { Err(summary) }
    });
    let (day, hour) = (&day["last_24h"], &day["next_hour"]);
    assert_eq!((&day["runs"], &day["failures"], &day["jobs_cut"]), (&2.into(), &1.into(), &0.into()), "{day}");
    assert_eq!((&day["oldest_failure"]["job"], &day["lag"]["p99_ms"]), (&NAME.into(), &3.into()), "{day}");
    assert_eq!((hour["minutes"].as_array().unwrap().len(), &hour["starts"][0]["job"]), (60, &NAME.into()), "{hour}");
}
