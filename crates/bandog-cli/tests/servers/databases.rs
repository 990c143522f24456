//! The list of locks and the page, over PostgreSQL and MariaDB.

use std::fs;

use bandog_testkit::{Process, eventually};
use serde_json::Value;

use crate::{
    help::{Place, Ran, SOON, ends},
    http::{address, ask, get},
    sql::Database,
};

const TOKEN: &str = "correct-horse-battery-staple";

/// One job without ticks during a test.
const JOBS: &str = "[[job]]\nname = 'by hand'\ncron = '0 0 0 1 1 ?'\ncommand = 'echo x >> ran'\n";

fn assert_no_password(texts: &[&str]) {
    assert!(!texts.iter().any(|text| text.contains("PASSWORD")), "{texts:?}");
}

/// Runs a query that succeeds and prints nothing but its result.
fn query(place: &Place, args: &[&str]) -> Ran {
    let ran = place.run(args);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    assert_no_password(&[&ran.stdout]);
    ran
}

pub(crate) fn held_locks_are_listed_as_a_table_and_as_json<D: Database>() {
    let url = D::url();
    let place = Place::new();
    let ls = |more: &[&str]| query(&place, &[&["ls", "--url", &url], more].concat()).stdout;
    // There are no tables yet.
    assert!(ls(&[]).contains("no lock is held"), "{url}: {}", ls(&[]));
    assert_eq!(ls(&["--json"]), "", "{url}");
    let kinds = [
        ("order-1", &[][..], "mutex"),
        ("order-2", &["--fair"], "fair"),
        ("order-3", &["--exclusive"], "read-write"),
        ("stock", &["--permits", "2", "--of", "5"], "semaphore"),
    ];
    let store = ["--url", &url];
    let held: Vec<_> = kinds
        .into_iter()
        .map(|(name, options, kind)| {
            let options = [options, &store].concat();
            let holder = place.start(&Place::lock(name, &options, "echo $BANDOG_FENCE; read word; exit 0"));
            let fence = holder.stdout_line("", SOON);
            (name, kind, fence, holder)
        })
        .collect();
    let table = ls(&[]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2 + held.len(), "{table}");
    assert!(lines[0].contains("locks:***@127.0.0.1") && lines[1].starts_with("NAME  "), "{table}");
    // A client registers in the store shortly after the grant.
    let rows = eventually(SOON, || {
        let rows: Vec<Value> = ls(&["--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if rows.iter().all(|row| !row["holders"][0]["holder"].is_null()) { Ok(rows) } else { Err(rows) }
    });
    assert_eq!(rows.len(), held.len(), "{rows:?}");
    for ((name, kind, fence, holder), (row, line)) in held.iter().zip(rows.iter().zip(&lines[2..])) {
        assert_eq!((&row["name"], &row["kind"], &row["held"]), (&(*name).into(), &(*kind).into(), &true.into()));
        let first = &row["holders"][0];
        assert_eq!((first["fence"].to_string(), &first["holder"]["pid"]), (fence.clone(), &holder.pid().into()));
        assert!(line.starts_with(name) && line.contains(kind), "{table}");
    }
    assert_eq!(ls(&["order-*", "--json"]).lines().count(), 3, "{url}");
    assert_eq!(ls(&["order-?"]).lines().count(), 5, "{url}");
    for (_, _, _, mut holder) in held {
        holder.close_stdin();
        ends(&mut holder, 0);
        assert_no_password(&[&holder.stderr().join(" ")]);
    }
    assert!(ls(&[]).contains("no lock is held"), "{url}");
}

pub(crate) fn the_page_shows_locks_and_jobs_and_runs_a_job<D: Database>() {
    let url = D::url();
    let place = Place::new();
    fs::write(place.path("jobs.toml"), JOBS).unwrap();
    let mut node = place.start(&["schedule", "jobs.toml", "--url", &url]);
    node.stderr_line("bandog: started", SOON);
    let holder = place.start(&Place::lock("stock", &["--url", &url], "echo in; read word"));
    holder.stdout_line("in", SOON);
    let mut page = place.bandog(&["page", "--url", &url, "--http", "127.0.0.1:0"]);
    page.env("BANDOG_HTTP_TOKEN", TOKEN);
    let mut page = Process::spawn(&page);
    let at = address(&page);

    assert_eq!(get(&at, "/api/jobs")["jobs"][0]["name"], "by hand", "{url}");
    let lock = eventually(SOON, || {
        let locks = get(&at, "/api/locks")["locks"].as_array().unwrap().clone();
        locks.iter().find(|lock| lock["name"] == "stock" && !lock["holder"].is_null()).cloned().ok_or(locks)
    });
    assert_eq!(lock["holder"]["pid"], holder.pid(), "{url}");
    let key = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(ask(&at, "POST", "/api/jobs/by%20hand/run", &key, "").0, 200);
    eventually(SOON, || {
        let runs = get(&at, "/api/jobs/by%20hand/history")["runs"].clone();
        if runs[0]["state"] == "ok" { Ok(()) } else { Err(runs) }
    });
    assert_eq!(place.lines("ran"), ["x"], "{url}");
    for path in ["/", "/api/jobs", "/api/locks", "/api/nodes", "/api/summary", "/metrics", "/healthz"] {
        let (status, body) = ask(&at, "GET", path, "X: y", "");
        assert_eq!(status, 200, "{url} {path}: {body}");
        assert_no_password(&[&body]);
    }
    for process in [&mut page, &mut node] {
        process.term();
        ends(process, 0);
        assert_no_password(&[&process.stderr().join(" ")]);
    }
}
