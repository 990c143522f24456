//! Runs every part of the benchmark in a short form, to check that it ends.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bandog-bench")).args(args).output().unwrap()
}

#[test]
fn every_part_of_the_bench_ends() {
    let Output { status, stdout, stderr } = bench(&["--short"]);
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}\n{stderr}\n{stdout}\n{stderr}");
}

#[test]
fn a_part_that_does_not_end_is_named() {
    let Output { status, stderr, .. } = bench(&["held", "--short", "--hold", "3600", "--limit", "3"]);
    let stderr = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(70), "{stderr}");
    assert!(stderr.contains("held has not ended within 3s"), "{stderr}");
}
