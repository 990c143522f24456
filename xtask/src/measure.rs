//! Runs the benchmarks of bandog and of its peers.

use std::path::Path;

use crate::fault::Fault;
use crate::step;
use crate::tools::{self, REDIS};

const PEERS: &str = "bench/peers/Cargo.toml";

/// Measures bandog and the floor (the scripts of a lock without bandog), in one process.
pub(crate) fn bench(args: &[String]) -> Result<(), Fault> {
    tools::ensure(&[REDIS])?;
    let run = ["run", "--release", "--locked", "--package", "bandog-bench", "--"];
    step::run("the benchmark", step::cargo(&run).args(args))
}

/// Measures the peers. They are a separate workspace, so that their dependencies do not affect ours.
pub(crate) fn peers(args: &[String]) -> Result<(), Fault> {
    if !Path::new(PEERS).exists() {
        return Err(Fault::unavailable(format!("{PEERS} does not exist")));
    }
    tools::ensure(&[REDIS])?;
    let run = ["run", "--release", "--locked", "--manifest-path", PEERS, "--"];
    step::run("the peers' benchmark", step::cargo(&run).env("CARGO_TARGET_DIR", "bench/peers/target").args(args))
}
