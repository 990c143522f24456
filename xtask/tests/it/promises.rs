//! Each promise in the docs has tests that exist.

use std::process::Command;

#[test]
fn every_promise_has_tests_that_exist_and_their_list_is_up_to_date() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(["promises", "--check"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
