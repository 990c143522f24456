//! Several locks at once: `--also`.

use serde_json::{Value, json};

use crate::help::{Place, SOON, ends};

const BANDOG: &str = env!("CARGO_BIN_EXE_bandog");

/// The locks that are held, as `ls --json` prints them.
fn held(place: &Place, store: &[&str]) -> Vec<Value> {
    let ran = place.run(&[&["ls", "--json"][..], store].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

// Promise: K17
#[test]
fn a_command_runs_under_several_locks_or_not_at_all() {
    let place = Place::new();
    let options = ["--also", "a b", "--also", "z"];
    let script = "echo $BANDOG_NAME $BANDOG_FENCE; echo $BANDOG_FENCES; read word; exit 7";
    let mut holder = place.start(&Place::lock("x", &options, script));
    let (first, fences) = (holder.stdout_line("x ", SOON), holder.stdout_line("{", SOON));
    let locks = held(&place, &[]);
    let shown: serde_json::Map<_, _> =
        locks.iter().map(|lock| (lock["name"].as_str().unwrap().to_owned(), lock["fence"].clone())).collect();
    assert_eq!(serde_json::from_str::<Value>(&fences).unwrap(), Value::Object(shown.clone()));
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["a b", "x", "z"]);
    assert_eq!(first, format!("x {}", shown["x"]));
    // One of them is enough to keep another command out, which then holds none of its own.
    let busy = place.run(&Place::lock("free", &["--also", "z", "--wait", "1s", "-E", "5"], "exit 0"));
    busy.assert_ended(5, &["one of \"free\" and \"z\"", "\"z\" is held by bandog lock -- sh"]);
    assert_eq!(held(&place, &[]).len(), 3);
    holder.close_stdin();
    ends(&mut holder, 7);
    assert_eq!(held(&place, &[]), [Value::Null; 0]);
}

/// An inner command has the fences of its own locks only.
#[test]
fn the_fences_of_one_lock_are_an_object_too() {
    let place = Place::new();
    let inner = format!("{BANDOG} lock inner -- sh -c 'echo $BANDOG_FENCE $BANDOG_FENCES'");
    let ran = place.run(&Place::lock("x", &["--also", "y"], &inner));
    ran.assert_ended(0, &[]);
    let (fence, fences) = ran.stdout.trim().split_once(' ').unwrap();
    assert_eq!(serde_json::from_str::<Value>(fences).unwrap(), json!({ "inner": fence.parse::<u64>().unwrap() }));
}

// Promise: K17
#[test]
fn commands_with_the_same_locks_in_opposite_orders_do_not_block_each_other() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for (name, also) in [("a", "b"), ("b", "a")] {
            let place = &place;
            scope.spawn(move || {
                for _ in 0..5 {
                    place.run(&Place::lock(name, &["--also", also], "sleep 0.01")).assert_ended(0, &[]);
                }
            });
        }
    });
}

// Promise: C2
#[test]
fn the_loss_of_one_of_the_locks_ends_the_command() {
    let place = Place::new();
    let url = format!("sqlite:{}?watchdog=3s", place.path("a.db").display());
    let store = ["--url", url.as_str()];
    let options = [&["--also", "y", "--shared"][..], &store].concat();
    let mut holder = place.start(&Place::lock("x", &options, "echo in; exec sleep 1000"));
    holder.stdout_line("in", SOON);
    assert!(held(&place, &store).iter().all(|lock| lock["holders"][0]["mode"] == "read"));
    place.run(&[&["release", "y", "--force"][..], &store].concat()).assert_ended(0, &[]);
    ends(&mut holder, 76);
    assert_eq!(held(&place, &store), [Value::Null; 0]);
}

#[test]
fn wrong_names_are_refused_and_an_ancestors_lock_is_found() {
    let place = Place::new();
    place.run(&Place::lock("x", &["--also", "x"], "exit 0")).assert_ended(64, &["\"x\" is given twice"]);
    place.run(&Place::lock("x", &["--also", ""], "exit 0")).assert_ended(64, &["1 to 1024 bytes"]);
    assert!(!place.path("state").exists(), "a wrong command line created a store");
    let inner = format!("{BANDOG} lock z --also y -- true; exit $?");
    place.run(&Place::lock("x", &["--also", "y"], &inner)).assert_ended(64, &["\"y\" in ", "wait for itself"]);
}
