//! A short storm with a fixed seed on the stores that need no server, one on objects, one on work queues, and tests of the command line.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Output};

fn storm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bandog-storm")).args(args).output().unwrap()
}

#[track_caller]
fn is_well(store: &str) {
    passes(&[store, "--ops", "10000", "--seed", "1"]);
}

#[track_caller]
fn passes(args: &[&str]) {
    let output = storm(args);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("nothing is wrong") && text.contains("seed 1"), "{text}");
}

// Promise: K1, K4, K8, L1
#[test]
fn memory_keeps_its_promises_in_a_storm() {
    is_well("memory");
}

// Promise: SQ21, SQ22
#[test]
fn sqlite_keeps_its_promises_in_a_storm() {
    is_well("sqlite");
}

#[test]
fn objects_in_memory_keep_their_promises_in_a_storm() {
    passes(&["grid", "memory", "--ops", "20000", "--seed", "1"]);
}

#[test]
fn objects_on_redis_keep_their_promises_in_a_storm() {
    passes(&["grid", "redis", "--ops", "10000", "--seed", "1"]);
}

#[test]
fn work_queues_in_memory_keep_their_promises_in_a_storm() {
    passes(&["work", "memory", "--ops", "1500", "--seed", "1"]);
}

#[test]
fn work_queues_on_redis_keep_their_promises_in_a_storm() {
    passes(&["work", "redis", "--ops", "1500", "--seed", "1"]);
}

#[test]
fn the_help_of_work_names_its_options_and_stores() {
    let output = storm(&["work", "--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for word in ["--ops", "--seed", "--profile", "--keep", "--json", "Examples", "docs/work.md", "mariadb"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!storm(&["work", "zookeeper"]).status.success());
}

#[test]
fn the_help_of_grid_names_its_options_and_stores() {
    let output = storm(&["grid", "--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for word in ["--ops", "--seed", "--profile", "--keep", "--json", "Examples", "docs/grid.md", "sentinel"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("zookeeper"), "{text}");
    assert!(!storm(&["grid", "sqlite"]).status.success());
}

#[test]
fn the_help_names_all_options() {
    let output = storm(&["--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for word in ["cargo xtask storm", "--ops", "--seed", "--profile", "--keep", "--json", "Examples", "docs/PROOF.md"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("worker "), "{text}");
}

#[test]
fn unknown_names_are_reported() {
    let output = storm(&["oracle"]);
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("oracle") && text.contains("memory") && text.contains("redis"), "{text}");
}
