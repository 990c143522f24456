//! Each promise in the docs has tests that exist, and the page of the laws is complete.

use std::process::Command;

#[test]
fn every_promise_has_tests_that_exist() {
    check("promises");
}

#[test]
fn the_page_of_the_laws_has_every_law_and_every_backend() {
    check("laws");
}

/// Runs the check of this task.
fn check(task: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args([task, "--check"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
