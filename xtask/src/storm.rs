//! Runs random traffic under faults.

use crate::fault::Fault;
use crate::step;
use crate::tools::{self, REDIS};

/// Runs a release build, because it makes a million calls.
pub(crate) fn run(args: &[String]) -> Result<(), Fault> {
    if needs_redis(args) {
        tools::ensure(&[REDIS])?;
    }
    let run = ["run", "--quiet", "--release", "--locked", "--package", "bandog-storm", "--"];
    step::run("the storm", step::cargo(&run).args(args))
}

/// Whether the arguments name Redis, or no store at all.
fn needs_redis(args: &[String]) -> bool {
    let asks_for_help = args.iter().any(|arg| arg == "--help" || arg == "-h");
    let others = args.iter().any(|arg| ["memory", "sqlite", "virtual", "lock"].contains(&arg.as_str()));
    let is_redis = |arg: &String| ["redis", "sentinel", "cluster", "quorum"].contains(&arg.as_str());
    !asks_for_help && (!others || args.iter().any(is_redis))
}
