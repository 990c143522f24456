//! `bandog doctor` over SQLite, and its findings about the command line.

use serde_json::Value;

use crate::{
    help::{Place, Ran},
    queues::Queues,
};

/// The finding about this subject, if there is one.
fn finding(ran: &Ran, subject: &str) -> Option<Value> {
    let mut findings = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    findings.find(|finding| finding["subject"] == subject)
}

#[test]
fn a_healthy_file_has_no_findings() {
    let place = Place::new();
    place.run(&["lock", "x", "--url", "sqlite:a.db", "--", "true"]).assert_ended(0, &[]);
    let ran = place.run(&["doctor", "--url", "sqlite:a.db", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    let store = finding(&ran, "store").unwrap();
    assert_eq!((&store["level"], &store["cure"]), (&"fine".into(), &Value::Null));
    assert!(store["says"].as_str().unwrap().ends_with("/a.db, from --url"), "{store}");
    assert!(finding(&ran, "url-password").is_none());
    let table = place.run(&["doctor", "--url", "sqlite:a.db"]).stdout;
    assert!(table.lines().count() >= ran.stdout.lines().count() && table.contains("fine    store"), "{table}");
}

#[test]
fn the_store_and_its_origin_are_printed() {
    let place = Place::new();
    let finding_text = |ran: &Ran| finding(ran, "store").unwrap()["says"].as_str().unwrap().to_owned();
    let ran = place.run(&["doctor", "--json"]);
    ran.assert_ended(0, &[]);
    assert!(finding_text(&ran).ends_with("state/bandog/locks.db, the default without --url and BANDOG_URL"));
    assert_eq!(finding(&ran, "database").unwrap()["level"], "fine");
    assert!(!place.path("state").exists(), "the query has created a file");
    let mut command = place.bandog(&["doctor", "--json"]);
    command.env("BANDOG_URL", "sqlite:gone.db");
    let ran = Ran::from(command);
    ran.assert_ended(69, &["gone.db"]);
    assert!(finding_text(&ran).ends_with("gone.db, from BANDOG_URL"), "findings that need no store are missing");
}

#[test]
fn queues_that_nobody_looks_after_are_found() {
    let queues = Queues::new();
    let url = format!("sqlite:{}", queues.place.path("a.db").display());
    for name in ["fine", "old", "paused"] {
        queues.push(&[name, "x", "--url", &url]);
    }
    queues.push(&["broken", "x", "--url", &url]);
    queues
        .run(&["work", "broken", "--url", &url, "--deliveries", "1", "--until-empty", "--", "false"])
        .assert_ended(1, &[]);
    queues.run(&["queue", "paused", "pause", "--url", &url]).assert_ended(0, &[]);
    let doctor = || queues.run(&["doctor", "--url", &url, "--json"]);
    assert!(finding(&doctor(), "dead-elements").is_none() && finding(&doctor(), "no-worker").is_none());
    let file = rusqlite::Connection::open(queues.place.path("a.db")).unwrap();
    let day = 86_400_000_000_i64;
    let sql = "update work set pushed = pushed - ?1, place = place - ?1, at = at - ?1 \
               where queue in (select id from work_queue where name <> 'fine')";
    assert_eq!(file.execute(sql, [day + 1]).unwrap(), 3);
    let ran = doctor();
    ran.assert_ended(0, &[]);
    let says = |subject| finding(&ran, subject).unwrap()["says"].as_str().unwrap().to_owned();
    assert!(says("dead-elements").ends_with("are dead in \"broken\""), "{ran:?}");
    assert!(says("no-worker").ends_with("in \"old\""), "{ran:?}");
}
