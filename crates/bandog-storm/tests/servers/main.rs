//! A short storm with a fixed seed on Redis.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

#[test]
fn redis_keeps_its_promises_in_a_storm() {
    let mut storm = Command::new(env!("CARGO_BIN_EXE_bandog-storm"));
    let output = storm.args(["redis", "--ops", "10000", "--seed", "1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("nothing is wrong"), "{text}");
}
