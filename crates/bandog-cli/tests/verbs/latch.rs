//! Tests of `latch`.

use serde_json::Value;

use crate::{
    help::{Place, Ran, SOON, ends},
    store::Store,
};

fn latch(place: &Place, url: &str, words: &[&str]) -> Ran {
    place.run(&[&["latch", "--url", url, "parts"], words].concat())
}

#[test]
fn a_latch_is_set_once_counted_down_and_awaited() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let run = |words: &[&str], code: i32, stdout: &str| {
        let ran = latch(place, url, words);
        assert_eq!((ran.code, ran.stdout.as_str()), (code, stdout), "{words:?}: {ran:?}");
        ran
    };
    run(&["set", "3"], 0, "");
    run(&["set", "5"], 75, "").assert_ended(75, &["\"parts\"", "exists", "count is 3"]);
    run(&["count"], 0, "3\n");
    run(&["wait", "--timeout", "0s"], 75, "").assert_ended(75, &["not open", "count is 3"]);
    let mut waiter = place.start(&["latch", "--url", url, "parts", "wait", "--timeout", "1h"]);
    run(&["down"], 0, "2\n");
    assert!(waiter.try_wait().is_none());
    run(&["down", "2"], 0, "0\n");
    ends(&mut waiter, 0);
    run(&["wait"], 0, "");
    run(&["down"], 0, "0\n");
    run(&["set", "1"], 0, "");
    run(&["wait", "--timeout", "2s"], 75, "");
}

/// `show` knows a latch that is not open. A latch that is open looks like a free lock.
#[test]
fn show_prints_the_count_of_a_latch() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    latch(place, url, &["set", "3"]).assert_ended(0, &[]);
    let shown = place.show("parts", &["--url", url]);
    assert_eq!((&shown["kind"], &shown["count"], &shown["held"]), (&"latch".into(), &3.into(), &false.into()));
    assert_eq!((&shown["name"], &shown["waiters"]), (&"parts".into(), &Value::Array(Vec::new())));
    let text = place.run(&["show", "parts", "--url", url]).stdout;
    assert!(text.contains("parts is a latch, and its count is 3"), "{text}");
    latch(place, url, &["down", "3"]).assert_ended(0, &[]);
    let shown = place.show("parts", &["--url", url]);
    assert_eq!((&shown["kind"], &shown["count"]), (&Value::Null, &Value::Null));
}

/// `release --force` does not say that a latch is free, and `delete` opens the latch.
#[test]
fn a_latch_is_deleted_and_not_released() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    latch(place, url, &["set", "3"]).assert_ended(0, &[]);
    let release = ["release", "parts", "--force", "--url", url];
    place.run(&release).assert_ended(75, &["is a latch", "count is 3", "`bandog latch parts delete`"]);
    assert_eq!(latch(place, url, &["count"]).stdout, "3\n");
    let mut waiter = place.start(&["latch", "--url", url, "parts", "wait", "--timeout", "1h"]);
    for existed in [true, false] {
        let ran = latch(place, url, &["delete", "--json"]);
        let row: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((ran.code, &row["deleted"], &row["open"]), (0, &existed.into(), &true.into()), "{ran:?}");
    }
    ends(&mut waiter, 0);
    place.run(&release).assert_ended(75, &["is free"]);
    latch(place, url, &["delete", "3"]).assert_ended(64, &["take no number"]);
}

/// `ls` lists the latches that are not open beside the locks that are held, sorted by name.
// Promise: CL9
#[test]
fn ls_lists_latches_that_are_not_open() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    latch(place, url, &["set", "3"]).assert_ended(0, &[]);
    for (name, count) in [("another", "7"), ("open", "1")] {
        place.run(&["latch", "--url", url, name, "set", count]).assert_ended(0, &[]);
    }
    place.run(&["latch", "--url", url, "open", "down"]).assert_ended(0, &[]);
    let listed =
        place.run(&["lock", "busy", "--url", url, "--", env!("CARGO_BIN_EXE_bandog"), "ls", "--url", url, "--json"]);
    let rows: Vec<Value> = listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cells = |row: &Value| format!("{} {} {} {}", row["name"], row["kind"], row["held"], row["count"]);
    let expected =
        [r#""another" "latch" false 7"#, r#""busy" "mutex" true null"#, r#""parts" "latch" false 3"#].map(String::from);
    assert_eq!(rows.iter().map(cells).collect::<Vec<_>>(), expected, "{listed:?}");
    let text = place.run(&["ls", "pa*", "--url", url]).stdout;
    assert!(text.contains("parts  latch, count 3") && !text.contains("another"), "{text}");
}

#[test]
fn the_json_of_a_latch_has_its_count() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let json = |words: &[&str], code: i32| -> Value {
        let ran = latch(place, url, &[words, &["--json"]].concat());
        assert_eq!(ran.code, code, "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    };
    let is = |row: &Value, count: u64, set: Value| {
        assert_eq!((&row["name"], &row["count"], &row["open"]), (&"parts".into(), &count.into(), &(count == 0).into()));
        assert_eq!(row["set"], set);
        assert!(row["store"].is_string());
    };
    is(&json(&["set", "2"], 0), 2, true.into());
    is(&json(&["set", "2"], 75), 2, false.into());
    is(&json(&["down"], 0), 1, Value::Null);
    is(&json(&["wait", "--timeout", "0s"], 75), 1, Value::Null);
    is(&json(&["down", "7"], 0), 0, Value::Null);
    is(&json(&["wait"], 0), 0, Value::Null);
    is(&json(&["count"], 0), 0, Value::Null);
}

#[test]
fn wrong_arguments_of_a_latch_are_usage_errors() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let cases: [(&[&str], &str); 8] = [
        (&["set"], "needs the count"),
        (&["set", "0"], "1..="),
        (&["down", "9007199254740993"], "1..="),
        (&["down", "x"], "invalid digit"),
        (&["wait", "3"], "take no number"),
        (&["count", "--timeout", "1s"], "belongs to `wait`"),
        (&["wait", "--timeout", "soon"], "write it like"),
        (&["open"], "possible values"),
    ];
    for (words, part) in cases {
        latch(place, url, words).assert_ended(64, &[part]);
    }
    // The name of an action is a name like any other.
    place.run(&["latch", "wait", "set", "1", "--url", url]).assert_ended(0, &[]);
    assert_eq!(place.run(&["latch", "wait", "count", "--url", url]).stdout, "1\n");
    let help = place.run(&["latch", "--help"]).stdout;
    for word in ["does not exist is open", "set N", "--timeout", "Exit codes", "75", "RCountDownLatch"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn a_waiter_that_is_terminated_leaves_the_latch_as_it_was() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    latch(place, url, &["set", "1"]).assert_ended(0, &[]);
    let mut waiter = place.start(&["latch", "--url", url, "parts", "wait"]);
    waiter.term();
    assert!(waiter.wait(SOON).code().is_none(), "ended by the signal");
    assert_eq!(latch(place, url, &["down"]).stdout, "0\n");
    latch(place, url, &["wait"]).assert_ended(0, &[]);
}
