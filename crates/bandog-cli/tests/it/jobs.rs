//! `bandog jobs` over SQLite.

use std::fs;

use bandog_testkit::{Process, eventually};

use crate::help::{Place, SOON, ends};

#[test]
fn an_unused_store_has_no_jobs() {
    let place = Place::new();
    let ran = place.run(&["jobs", "ls"]);
    assert!(ran.code == 0 && ran.stdout.contains("no job was ever registered here"), "{ran:?}");
    assert_eq!(place.run(&["jobs", "ls", "--json"]).stdout, "[]\n");
    assert_eq!(place.run(&["jobs", "next", "--json"]).stdout, "[]\n");
    place.run(&["jobs", "show", "x"]).assert_ended(64, &["there is no job \"x\": no job was ever registered in"]);
    place.run(&["jobs", "run", "x"]).assert_ended(64, &["no job was ever registered in"]);
    assert!(!place.path("state").exists(), "a store was created");
    place.run(&["jobs", "ls", "--url", "sqlite:nowhere.db"]).assert_ended(69, &["nowhere.db"]);
}

#[test]
fn forget_asks_for_a_confirmation_on_a_terminal() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path("jobs.db").display());
    fs::write(place.path("jobs.toml"), "[[job]]\nname = 'old'\nfixed_rate = '1h'\ncommand = 'true'\n").unwrap();
    let mut scheduler = place.start(&["schedule", "jobs.toml", "--url", &url]);
    scheduler.stderr_line("started", SOON);
    scheduler.term();
    ends(&mut scheduler, 0);
    let forget = || {
        let line = format!("exec {} jobs forget old --url {url}", env!("CARGO_BIN_EXE_bandog"));
        let script = ["script", "--quiet", "--return", "--flush", "--command", &line, "screen"];
        Process::spawn(&place.command(&script))
    };
    let screen_text = || String::from_utf8(fs::read(place.path("screen")).unwrap_or_default()).unwrap_or_default();
    for (answer, code, said) in [("n", 64, "is kept"), ("y", 0, "forgot \"old\"")] {
        fs::write(place.path("screen"), "").unwrap();
        let mut screen = forget();
        eventually(SOON, || screen_text().contains("forget \"old\" and its history in sqlite:"));
        screen.write_line(answer);
        assert_eq!(screen.wait(SOON).code(), Some(code));
        assert!(screen_text().contains(said), "{}", screen_text());
    }
}

#[test]
fn a_wait_shows_the_state_of_the_run_on_a_terminal() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path("jobs.db").display());
    let command = "until [ -e go ]; do sleep 0.02; done";
    let job = format!("[[job]]\nname = 'long'\ncron = '0 0 2 1 1 ?'\ncommand = '{command}'\n");
    fs::write(place.path("jobs.toml"), job).unwrap();
    let scheduler = place.start(&["schedule", "jobs.toml", "--url", &url]);
    scheduler.stderr_line("started", SOON);
    let line = format!("exec {} jobs run long --wait --url {url}", env!("CARGO_BIN_EXE_bandog"));
    let script = ["script", "--quiet", "--return", "--flush", "--command", &line, "screen"];
    let mut screen = Process::spawn(place.command(&script).env("TERM", "xterm"));
    let screen_text = || String::from_utf8(fs::read(place.path("screen")).unwrap_or_default()).unwrap_or_default();
    eventually(SOON, || screen_text().contains("run 1 of \"long\", ") && screen_text().contains("s: it runs on "));
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(screen.wait(SOON).code(), Some(0));
    assert!(screen_text().contains("run 1 of \"long\" ended ok after "), "{}", screen_text());
}

#[test]
fn a_wait_for_a_job_that_no_scheduler_has_warns() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path("jobs.db").display());
    let start = |name: &str| {
        fs::write(place.path("jobs.toml"), format!("[[job]]\nname = '{name}'\nfixed_rate = '1h'\ncommand = 'true'\n"))
            .unwrap();
        let scheduler = place.start(&["schedule", "jobs.toml", "--url", &url]);
        scheduler.stderr_line("started", SOON);
        scheduler
    };
    let mut old = start("old");
    old.term();
    ends(&mut old, 0);
    let _new = start("new");
    let wait = place.start(&["jobs", "run", "old", "--wait", "--url", &url]);
    wait.stderr_line("of \"old\" waits although no other run of this job is running", SOON);
}
