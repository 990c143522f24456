//! Every kind of exit, by real processes.

use std::{env, process::Command};

/// If this environment variable is set, the test takes minutes: it is `cargo xtask exits` without arguments.
const LONG: &str = "BANDOG_TEST_LONG";

/// The cell that once hung gets 300 exits, each other cell gets five.
// Promise: E1, E2, E3, E4, E5, E6, E7, E8, E9, E10
#[test]
fn programs_exit_in_every_way() {
    let mut exits = Command::new(env!("CARGO_BIN_EXE_bandog-storm"));
    exits.arg("exits");
    if env::var_os(LONG).is_none() {
        exits.args(["--suspect", "300", "--each", "5"]);
    }
    let output = exits.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}
