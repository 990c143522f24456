//! `bandog doctor` over SQLite, and its findings about the command line.

use serde_json::Value;

use crate::help::{Place, Ran};

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
