//! Benchmarks: ours, and those of the peers.

use std::path::Path;

use crate::fault::Fault;
use crate::step;
use crate::tools::{self, REDIS};

const PEERS: &str = "bench/peers/Cargo.toml";

/// Ours and the floor, in one process.
pub(crate) fn bench(args: &[String]) -> Result<(), Fault> {
    tools::ensure(&[REDIS])?;
    let run = ["run", "--release", "--locked", "--package", "bandog-bench", "--"];
    step::run("the benchmark", step::cargo(&run).args(args))
}

/// The peers, built apart: their dependencies must not touch ours.
pub(crate) fn peers(args: &[String]) -> Result<(), Fault> {
    if !Path::new(PEERS).exists() {
        return Err(Fault::unavailable(format!("the peers are not there yet: no {PEERS}")));
    }
    tools::ensure(&[REDIS])?;
    let run = ["run", "--release", "--locked", "--manifest-path", PEERS, "--"];
    step::run("the peers' benchmark", step::cargo(&run).env("CARGO_TARGET_DIR", "bench/peers/target").args(args))
}
