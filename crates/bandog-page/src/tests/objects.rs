//! The list of objects.

use std::{collections::BTreeSet, thread};

use super::{Served, ask::SOON};
use crate::objects::{STEP, STEPS};
use bandog_testkit::eventually;
use serde_json::Value;

/// The names of an answer, and the cursor of the next objects.
fn read(answer: &Value) -> (Vec<String>, Option<String>) {
    let names = answer["objects"].as_array().unwrap().iter().map(|object| object["name"].as_str().unwrap().to_owned());
    (names.collect(), answer["next"].as_str().map(str::to_owned))
}

#[test]
fn objects_are_read_in_parts_that_have_a_limit() {
    let page = Served::read_only();
    page.source.has_names(30_000);
    let (mut all, mut path, mut requests) = (BTreeSet::new(), "/api/objects".to_owned(), 0);
    loop {
        let before = page.source.object_queries();
        let (names, next) = read(&page.get(&path).json());
        requests += 1;
        assert!(names.len() < 50 + STEP && page.source.object_queries() - before <= STEPS);
        all.extend(names);
        let Some(next) = next else { break };
        path = format!("/api/objects?cursor={next}");
    }
    assert_eq!(all.len(), 300);
    assert!(requests >= 6, "{requests}");
}

#[test]
fn a_name_that_no_object_has_ends_a_request_nevertheless() {
    let page = Served::read_only();
    page.source.has_names(10 * STEP * STEPS);
    let (names, next) = read(&page.get("/api/objects?name=nothing").json());
    assert!(names.is_empty() && next.is_some() && page.source.object_queries() <= STEPS);
}

#[test]
fn objects_are_filtered_by_a_part_of_their_name() {
    let page = Served::read_only();
    page.source.has_names(10_000);
    let names = |part: &str| read(&page.get(&format!("/api/objects?name={part}")).json()).0;
    assert_eq!(names("%3C9900%3E"), ["object <9900>"]);
    assert_eq!(names("+%3C12*"), ["object <1200>"]);
    assert_eq!(names("OBJECT"), [""; 0]);
    page.get("/api/objects?name=%FF").refuses(400, "query");
}

#[test]
fn a_store_without_objects_says_so() {
    let page = Served::read_only();
    assert_eq!(page.get("/api/about").json()["objects"], false);
    page.source.has_names(1);
    assert_eq!(page.get("/api/about").json()["objects"], true);
    page.source.goes_away();
    page.get("/api/objects").refuses(503, "unavailable");
}

#[test]
fn one_request_at_a_time_reads_objects() {
    let page = Served::read_only();
    page.source.has_names(1);
    page.source.hangs();
    let mut first = page.asker();
    first.send(b"GET /api/objects HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually(SOON, || page.source.object_queries() == 1);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| page.get("/api/objects").refuses(429, "busy"));
        }
    });
    assert_eq!(page.source.object_queries(), 1);
    // The next request begins when the client of the first one has gone.
    drop(first);
    let mut second = page.asker();
    second.send(b"GET /api/objects HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually(SOON, || page.source.object_queries() == 2);
}
