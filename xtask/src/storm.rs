//! Runs random traffic under faults.

use crate::fault::Fault;
use crate::step;
use crate::tools::{self, JAVA, MARIADB, POSTGRES, REDIS, Tool, ZOOKEEPER};

/// Runs an optimised build, because it makes a million calls.
pub(crate) fn run(args: &[String]) -> Result<(), Fault> {
    tools::ensure(&needed(args))?;
    let mut run = step::proof("run", &["--quiet", "--profile", "bench", "--package", "bandog-storm", "--"]);
    step::run("the storm", run.args(args))
}

/// The servers of the stores that the arguments name. Without a name, Redis is one of the stores.
fn needed(args: &[String]) -> Vec<Tool> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        return Vec::new();
    }
    let names = |stores: &[&str]| args.iter().any(|arg| stores.contains(&arg.as_str()));
    let others = names(&["memory", "sqlite", "virtual", "lock", "postgres", "mariadb", "zookeeper"]);
    let mut needed = Vec::new();
    if !others || names(&["redis", "sentinel", "cluster", "quorum"]) {
        needed.push(REDIS);
    }
    if names(&["postgres"]) {
        needed.push(POSTGRES);
    }
    if names(&["mariadb"]) {
        needed.push(MARIADB);
    }
    if names(&["zookeeper"]) {
        needed.extend([JAVA, ZOOKEEPER]);
    }
    needed
}
