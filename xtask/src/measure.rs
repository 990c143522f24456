//! Runs the benchmarks of bandog and of its peers.

use std::path::Path;
use std::process::Command;

use crate::fault::Fault;
use crate::interop;
use crate::step;
use crate::tools::{self, ALL_SERVERS, JDK, MAVEN, NODE, REDIS};

/// The parts and options of a comparison without arguments. It takes about a quarter of an hour.
const COMPARED: [&str; 10] =
    ["kinds", "older", "curator", "sql-claims", "--seconds", "0.3", "--rounds", "5", "--limit", "600"];

/// Measures bandog and the floor (the scripts of a lock without bandog), in one process.
pub(crate) fn bench(args: &[String]) -> Result<(), Fault> {
    tools::ensure(ALL_SERVERS)?;
    let mut run = step::proof("run", &["--profile", "bench", "--package", "bandog-bench", "--"]);
    step::run("the benchmark", run.args(args))
}

/// The other libraries: a workspace of their own in `proof`.
const PEERS: &str = "proof/peers/Cargo.toml";

/// Measures the peers.
pub(crate) fn peers(args: &[String]) -> Result<(), Fault> {
    let (program, args) = match args {
        [first, rest @ ..] if first == "queues" => {
            tools::require(&[NODE])?;
            tools::ensure(ALL_SERVERS)?;
            let mut install = Command::new("npm");
            install.current_dir("proof/peers/node").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
            step::run("the installation of BullMQ", &mut install)?;
            ("queues", rest)
        }
        _ => {
            tools::ensure(&[REDIS])?;
            ("bandog-peers", args)
        }
    };
    let run = ["run", "--release", "--locked", "--manifest-path", PEERS, "--bin", program, "--"];
    step::run("the peers' benchmark", step::cargo(&run).args(args))
}

/// Measures the kinds of locks beside Redisson and Curator, jobs beside ShedLock and Quartz, and the mutex beside an older
/// build of the benchmark.
pub(crate) fn compare(old: Option<&Path>, args: &[String]) -> Result<(), Fault> {
    tools::require(&[JDK, MAVEN])?;
    tools::ensure(ALL_SERVERS)?;
    let folders = interop::build_current_java()?;
    let mut bench = step::proof("run", &["--profile", "bench", "--package", "bandog-bench", "--"]);
    bench.args(folders);
    bench.args(old.iter().flat_map(|old| [Path::new("--old"), old])).args(args);
    if args.is_empty() {
        bench.args(COMPARED);
    }
    if !args.iter().any(|arg| arg.starts_with("--keep")) {
        bench.args(["--keep", &runs_of_today()?]);
    }
    step::run("the comparison", &mut bench)
}

/// The file for the raw figures of today's comparison.
fn runs_of_today() -> Result<String, Fault> {
    let date = Command::new("date").arg("-uI").output();
    let date = date.map_err(|error| Fault::unavailable(format!("cannot run date: {error}")))?;
    Ok(format!("proof/bench/runs/{}-kinds.jsonl", String::from_utf8_lossy(&date.stdout).trim()))
}
