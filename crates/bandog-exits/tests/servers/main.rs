//! Every kind of exit, by real processes.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

/// The cell that once hung gets a thousand exits, each other cell gets twenty.
#[test]
fn programs_exit_in_every_way() {
    let output = Command::new(env!("CARGO_BIN_EXE_bandog-exits")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}
