//! The load that many requests cause for the store, measured as the number of queries.

use std::{thread, time::Instant};

use bandog_testkit::eventually;

use super::{
    Served,
    ask::SOON,
    fixed::{NAME, SPELT},
};
use crate::pace::{BURST, PER_SECOND};

/// Opens this number of connections, which request these paths at the same time. Each path is requested once.
fn crowd(page: &Served, clients: usize, paths: &[String]) {
    thread::scope(|scope| {
        for client in 0..clients {
            scope.spawn(move || {
                let mut asker = page.asker();
                for path in paths.iter().skip(client).step_by(clients) {
                    let status = asker.get(path).status;
                    assert!([200, 404, 429].contains(&status), "{path}: {status}");
                }
            });
        }
    });
}

// Promise: P4
#[test]
fn a_history_is_read_once_a_second_for_all_clients() {
    let page = Served::read_only();
    let begun = Instant::now();
    crowd(&page, 20, &vec![format!("/api/jobs/{SPELT}/history"); 2000]);
    let most = 2 + begun.elapsed().as_secs();
    let (asked, job_queries) = (page.source.histories() as u64, page.source.job_queries() as u64);
    assert!(asked <= most && job_queries <= most, "{asked} histories and {job_queries} job_queries, at most {most}");
}

// Promise: P4
#[test]
fn histories_of_many_jobs_are_read_at_a_limited_pace() {
    let page = Served::read_only();
    page.source.has_more_jobs(3000);
    let paths: Vec<String> = (0..3000).map(|number| format!("/api/jobs/job-{number}/history")).collect();
    let begun = Instant::now();
    // Without the rate limit, the page could read more histories in this time.
    crowd(&page, 100, &paths[..1200]);
    let most = u64::from(BURST) + u64::from(PER_SECOND) * (1 + begun.elapsed().as_secs());
    let asked = page.source.histories() as u64;
    assert!(asked <= most, "{asked} histories, at most {most}");
}

// Promise: P4
#[test]
fn requests_for_unknown_jobs_cause_no_further_queries() {
    let page = Served::read_only();
    let path = |number| format!("/api/jobs/nobody-{number}{}", if number % 2 == 0 { "" } else { "/history" });
    let begun = Instant::now();
    crowd(&page, 20, &(0..1000).map(path).collect::<Vec<_>>());
    let most = 2 + begun.elapsed().as_secs();
    let (asked, job_queries) = (page.source.histories(), page.source.job_queries() as u64);
    assert!(asked == 0 && job_queries <= most, "{asked} histories, and {job_queries} job_queries, at most {most}");
}

#[test]
fn a_history_that_has_not_changed_is_not_read_again_for_bars() {
    let page = Served::read_only();
    let bars = || {
        let body = page.get("/api/jobs?limit=50").json();
        body["bars"][NAME].as_array().cloned().ok_or(body)
    };
    assert_eq!(eventually(SOON, bars).len(), 2);
    assert_eq!(page.source.histories(), 1);
    let job_queries = page.source.job_queries();
    eventually(SOON, || bars().is_ok() && page.source.job_queries() > job_queries + 1);
    assert_eq!(page.source.histories(), 1, "the history was read again");
    page.source.runs();
    eventually(SOON, || bars().is_ok() && page.source.histories() == 2);
}

#[test]
fn the_last_day_is_read_in_steps() {
    let page = Served::read_only();
    page.source.has_more_jobs(1000);
    let begun = Instant::now();
    let read = || page.get("/api/summary").json()["summary"]["last_24h"].clone();
    let first = read();
    assert_eq!(first["jobs"], 1001);
    assert!(first["jobs_read"].as_u64() < Some(500), "{first}");
    let all = eventually(SOON, || {
        let day = read();
        if day["jobs_read"] == 1001 { Ok(day) } else { Err(day) }
    });
    assert_eq!((&all["runs"], &all["failures"]), (&2002.into(), &1001.into()));
    let most = 400 + 100 * (1 + begun.elapsed().as_secs());
    assert!(page.source.histories() as u64 <= most, "{} histories, at most {most}", page.source.histories());
}

#[test]
fn histories_of_jobs_that_have_not_run_for_a_day_are_not_read() {
    let page = Served::read_only();
    page.source.has_quiet_jobs(5000);
    let day = eventually(SOON, || {
        let day = page.get("/api/summary").json()["summary"]["last_24h"].clone();
        if day["jobs_read"] == 5001 { Ok(day) } else { Err(day) }
    });
    assert_eq!((&day["jobs"], page.source.histories()), (&5001.into(), 1));
}

#[test]
fn the_last_answer_is_served_while_a_new_one_takes_long() {
    let page = Served::read_only();
    let ask = || page.get("/api/jobs?limit=1");
    let first = ask().json();
    page.source.hangs();
    eventually(SOON, || {
        assert_eq!(ask().status, 200);
        page.source.job_queries() == 2
    });
    let later = ask().json();
    assert_eq!((&later["jobs"], &later["at"]), (&first["jobs"], &first["at"]), "an old answer must have its own time");
}

// Promise: P4
#[test]
fn a_scan_is_shared_and_ends_with_the_last_client_that_waits_for_it() {
    let page = Served::read_only();
    page.source.hangs();
    let mut first = page.asker();
    first.send(b"GET /api/locks HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually(SOON, || page.source.scans() == (1, 1));
    let mut second = page.asker();
    second.send(b"GET /api/locks HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // The answer to a later request proves that the page has read the earlier requests, and has noticed each
    // disconnected client.
    assert_eq!(page.get("/healthz").status, 200);
    drop(first);
    assert_eq!(page.get("/healthz").status, 200);
    assert_eq!(page.source.scans(), (1, 1), "the scan ended although a client still waits for it");
    drop(second);
    eventually(SOON, || page.source.scans() == (1, 0));
}

#[test]
fn a_long_scan_continues_for_the_next_request() {
    let page = Served::read_only();
    page.source.hangs();
    page.get("/api/locks").refuses(503, "scanning");
    page.get("/api/locks").refuses(503, "scanning");
    assert_eq!(page.source.scans(), (1, 1), "the page began a second scan");
}

#[test]
fn requests_are_answered_while_a_snapshot_is_computed() {
    let page = Served::read_only();
    page.source.has_more_jobs(20_000);
    let mut slow = page.asker();
    slow.send(b"GET /api/jobs?limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually(SOON, || page.source.job_queries() == 1);
    // If the page computed the snapshot on its only thread, this request would have to wait.
    assert_eq!(page.get("/healthz").status, 200);
    assert!(slow.waits(), "the request was answered already");
    assert_eq!(slow.reply("GET").unwrap().json()["total"], 20_001);
}
