//! The page of `bandog schedule --http`, as the command serves it.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use bandog_testkit::{Process, eventually};
use serde_json::Value;

use crate::{
    help::{Place, SOON, ends},
    http::{address, ask, get},
};

const TOKEN: &str = "correct-horse-battery-staple";

/// One job without ticks during a test. The job prints whether its environment has the token.
const JOBS: &str = r#"
[[job]]
name = "by hand"
cron = "0 0 0 1 1 ?"
zone = "Europe/Berlin"
command = "echo \"token: ${BANDOG_HTTP_TOKEN:-none}\"; echo x >> ran"
"#;

fn serving(place: &Place, more: &[&str]) -> Process {
    fs::write(place.path("jobs.toml"), JOBS).unwrap();
    let mut command = place.bandog(&[&["schedule", "jobs.toml", "--http", "127.0.0.1:0"], more].concat());
    command.env("BANDOG_HTTP_TOKEN", TOKEN);
    Process::spawn(&command)
}

// Promise: P3
#[test]
fn a_job_is_shown_run_paused_and_resumed_on_the_page() {
    let place = Place::new();
    let mut process = serving(&place, &[]);
    let at = address(&process);
    let job = || get(&at, "/api/jobs").get("jobs").unwrap()[0].clone();
    let row = job();
    assert_eq!((&row["name"], &row["zone"], &row["ok"]), (&"by hand".into(), &"Europe/Berlin".into(), &0.into()));
    assert!(row["next"].as_str().unwrap().ends_with("-12-31T23:00:00Z"), "{row}");

    let act = |verb: &str, key: &str, body: &str| ask(&at, "POST", &format!("/api/jobs/by%20hand/{verb}"), key, body);
    let key = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(act("run", "X: y", "").0, 401);
    assert_eq!(act("run", &format!("{key}x"), "").0, 401);
    let (status, body) = act("run", &key, "");
    assert_eq!(status, 200, "{body}");
    let run = serde_json::from_str::<Value>(&body).unwrap()["done"]["id"].as_u64().unwrap();
    let done = eventually(SOON, || {
        let runs = get(&at, "/api/jobs/by%20hand/history")["runs"].clone();
        if runs[0]["state"] == "ok" { Ok(runs[0].clone()) } else { Err(runs) }
    });
    assert_eq!((&done["id"], &done["kind"]), (&run.into(), &"manual".into()), "{done}");
    assert!(done["note"].as_str().unwrap().contains("token: none"), "a command got the token: {done}");
    assert_eq!(place.lines("ran"), ["x"], "the job did not run exactly once");

    assert_eq!(act("pause", &key, r#"{"reason": "stocktaking"}"#).0, 200);
    let row = job();
    assert_eq!(row["paused"]["reason"], "stocktaking");
    assert!(row["paused"]["by"].as_str().unwrap().starts_with("page@"), "{row}");
    assert_eq!(act("resume", &key, "").0, 200);
    assert!(job()["paused"].is_null());
    assert_eq!(act("cancel", &key, "").0, 200);

    process.term();
    ends(&mut process, 0);
    assert!(TcpStream::connect(&at).is_err(), "the page still accepts connections");
}

/// Half of the page's timeout for a silent connection.
const IN_TIME: Duration = Duration::from_secs(5);

// Promise: P4
#[test]
fn silent_connections_do_not_exclude_others() {
    let place = Place::new();
    let process = serving(&place, &[]);
    let at = address(&process);
    let head = format!("POST /api/jobs/by%20hand/run HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {TOKEN}");
    let half_a_body = format!("{head}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{{");
    let whole = format!("GET /healthz HTTP/1.1\r\nHost: {at}\r\n\r\n");
    for said in ["", "GET /healthz HT", &half_a_body, &whole] {
        let _connections: Vec<_> = (0..200)
            .map(|_| {
                let mut stream = TcpStream::connect(&at).unwrap();
                // An error is ignored: the page might have closed this connection in favour of a newer one.
                let _ = stream.write_all(said.as_bytes());
                stream
            })
            .collect();
        for path in ["/healthz", "/metrics"] {
            let mut stream = TcpStream::connect(&at).unwrap();
            stream.set_read_timeout(Some(IN_TIME)).unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes()).unwrap();
            let mut answer = [0; 15];
            stream.read_exact(&mut answer).unwrap_or_else(|error| panic!("{path} after {said:?}: {error}"));
            assert_eq!(&answer, b"HTTP/1.1 200 OK");
        }
    }
}

#[test]
fn locks_and_metrics_are_served() {
    let place = Place::new();
    let process = serving(&place, &[]);
    let at = address(&process);
    let holder = place.start(&Place::lock("stock", &[], "echo in; read word"));
    holder.stdout_line("in", SOON);
    let locks = eventually(SOON, || {
        let nodes = get(&at, "/api/nodes")["nodes"].clone();
        assert!(nodes["running"][0]["zones"].is_string() && nodes["pauses"]["all"].is_null(), "{nodes}");
        let locks = get(&at, "/api/locks")["locks"].as_array().unwrap().clone();
        locks.iter().find(|lock| lock["name"] == "stock" && !lock["holder"].is_null()).cloned().ok_or(locks)
    });
    assert_eq!(locks["holder"]["pid"], holder.pid());
    let key = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(ask(&at, "POST", "/api/jobs/by%20hand/run", &key, "").0, 200);
    eventually(SOON, || {
        let (_, figures) = ask(&at, "GET", "/metrics", "X: y", "");
        let has_line = |line: &str| figures.lines().any(|found| found == line);
        let all = [
            r#"bandog_runs_total{job="by hand",outcome="ok"} 1"#,
            r#"bandog_run_lag_seconds_count{job="by hand"} 1"#,
            "# TYPE bandog_run_lag_seconds histogram",
            "bandog_holds 1",
        ];
        if all.into_iter().all(has_line) { Ok(()) } else { Err(figures) }
    });
}

#[test]
fn characters_that_change_the_text_direction_are_escaped() {
    let place = Place::new();
    let job = "[[job]]\nname = 'für\u{202e}gpj'\ncron = '0 0 0 1 1 ?'\ncommand = 'echo done'\n";
    let name = r"für\u{202e}gpj";
    fs::write(place.path("jobs.toml"), format!("{job}lease = 1 # \u{202e}\n")).unwrap();
    let ran = place.run(&["schedule", "jobs.toml", "--check"]);
    assert!(ran.stderr.contains("lease = 1 #") && !ran.stderr.contains('\u{202e}'), "{}", ran.stderr);
    fs::write(place.path("jobs.toml"), job.replace("'echo done'", "['nowhere/to/be']")).unwrap();
    let ran = place.run(&["schedule", "jobs.toml", "--check"]);
    ran.assert_ended(0, &[&format!("bandog: {name}: no such command")]);
    fs::write(place.path("jobs.toml"), job).unwrap();
    let ran = place.run(&["schedule", "jobs.toml", "--check"]);
    assert!(ran.stdout.starts_with(&format!("{name}: ")) && !ran.stdout.contains('\u{202e}'), "{}", ran.stdout);

    let mut command = place.bandog(&["schedule", "jobs.toml", "--http", "127.0.0.1:0"]);
    command.env("BANDOG_HTTP_TOKEN", TOKEN);
    let process = Process::spawn(&command);
    let at = address(&process);
    let key = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(ask(&at, "POST", "/api/jobs/f%C3%BCr%E2%80%AEgpj/run", &key, "").0, 200);
    process.stdout_line(&format!("[{name}] done"), SOON);
    process.stderr_line(&format!("{name}: done in "), SOON);
    eventually(SOON, || {
        let (_, figures) = ask(&at, "GET", "/metrics", "X: y", "");
        assert!(!figures.contains('\u{202e}'), "{figures}");
        let line = r#"bandog_runs_total{job="für\\u{202e}gpj",outcome="ok"} 1"#;
        if figures.lines().any(|found| found == line) { Ok(()) } else { Err(figures) }
    });
    let stderr = process.stderr().join("\n");
    assert!(stderr.contains(&format!("bandog: {name}: At 00:00")) && !stderr.contains('\u{202e}'), "{stderr}");
}

#[test]
fn wrong_options_are_refused() {
    let place = Place::new();
    fs::write(place.path("jobs.toml"), JOBS).unwrap();
    let refused = |more: &[&str], code, words: &[&str]| {
        place.run(&[&["schedule", "jobs.toml"], more].concat()).assert_ended(code, words)
    };
    refused(&["--http", "8080"], 64, &["8080", "127.0.0.1:8080"]);
    refused(&["--http-token-file", "token"], 64, &["--http"]);
    refused(&["--http", "127.0.0.1:0", "--http-token-file", "token"], 64, &["\"token\"", "No such file"]);
    fs::write(place.path("token"), "hunter2").unwrap();
    let ran = place.run(&["schedule", "jobs.toml", "--http", "127.0.0.1:0", "--http-token-file", "token"]);
    ran.assert_ended(64, &["\"token\"", "7 characters", "16 to 256"]);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&["--http", &address], 71, &["cannot listen", &address]);
}

#[test]
fn an_address_that_other_machines_can_reach_causes_a_warning() {
    let place = Place::new();
    fs::write(place.path("jobs.toml"), JOBS).unwrap();
    let process = place.start(&["schedule", "jobs.toml", "--http", "0.0.0.0:0"]);
    process.stderr_line("can read jobs, runs and locks", SOON);
    process.stderr_line("read-only", SOON);
}

#[test]
fn a_store_has_a_page_without_running_jobs() {
    let place = Place::new();
    let mut runs = serving(&place, &[]);
    address(&runs);
    let mut command = place.bandog(&["page", "--http", "127.0.0.1:0", "--http-host", "jobs.example"]);
    command.env("BANDOG_HTTP_TOKEN", TOKEN);
    let mut process = Process::spawn(&command);
    let at = address(&process);
    assert_eq!(get(&at, "/api/jobs?limit=10")["jobs"][0]["name"], "by hand");
    assert_eq!(get(&at, "/api/summary")["summary"]["last_24h"]["jobs"], 1);
    let key = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(ask(&at, "POST", "/api/jobs/by%20hand/run", &key, "").0, 200);
    eventually(SOON, || if place.lines("ran") == ["x"] { Ok(()) } else { Err(place.lines("ran")) });
    assert_eq!(ask(&at, "GET", "/metrics", "X: y", "").0, 200);
    process.term();
    ends(&mut process, 0);
    runs.term();
    ends(&mut runs, 0);
}

#[test]
fn a_page_is_served_without_an_answer_of_the_store_but_not_without_the_file() {
    let place = Place::new();
    place.run(&["page", "--url", "sqlite:nowhere.db", "--http", "127.0.0.1:0"]).assert_ended(69, &["nowhere.db"]);
    place.run(&["page", "--http", "127.0.0.1:0", "--http-host", "http://x"]).assert_ended(64, &["jobs.example"]);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut process = place.start(&["page", "--url", &format!("redis://{free}?timeout=1s"), "--http", "127.0.0.1:0"]);
    let at = address(&process);
    process.stderr_line("the page is served nevertheless", SOON);
    assert_eq!(ask(&at, "GET", "/api/jobs", "X: y", "").0, 503);
    assert_eq!(ask(&at, "GET", "/healthz", "X: y", "").0, 200);
    process.term();
    ends(&mut process, 0);
}
