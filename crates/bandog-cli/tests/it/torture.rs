//! `bandog torture` over stores without a server.

use rusqlite::Connection;
use serde_json::Value;

use crate::help::Place;

fn report(place: &Place, url: &str) -> Value {
    let ran = place.run(&["torture", "--url", url, "--for", "1s", "--hold", "200ms", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

// Promise: C8
#[test]
fn a_file_loses_nothing_and_keeps_no_row() {
    let place = Place::new();
    let path = place.path("locks.db");
    let report = report(&place, &format!("sqlite:{}", path.display()));
    assert!(report["grants"].as_u64() > Some(0) && report["broken"] == false, "{report}");
    let db = Connection::open(path).unwrap();
    for table in ["lease", "claim", "semaphore", "sighting", "client"] {
        let rows = db.query_row(&format!("select count(*) from {table}"), [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[test]
fn the_clients_share_a_store_in_memory() {
    let place = Place::new();
    for url in ["memory:", "memory:?watchdog=5s", "memory:mine"] {
        let report = report(&place, url);
        assert!(report["grants"].as_u64() > Some(0) && report["broken"] == false, "{report}");
        // With a store of its own for each client, no call would wait for a hold of milliseconds.
        assert!(report["longest_wait_ms"].as_u64() > Some(0), "{report}");
    }
}

#[test]
fn a_kind_that_is_named_twice_is_used_once() {
    let ran = Place::new().run(&[
        "torture",
        "--url",
        "memory:",
        "--for",
        "1s",
        "--hold",
        "200ms",
        "--json",
        "--kinds",
        "mutex,fair,mutex",
    ]);
    ran.assert_ended(0, &["take mutex, fair locks"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["kinds"], serde_json::json!(["mutex", "fair"]), "{report}");
}
