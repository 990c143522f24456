//! Runs the test in which real programs exit in every way.

use crate::fault::Fault;
use crate::step;
use crate::tools::{self, REDIS};

/// Runs a debug build. A release build would save nothing, because the children live for milliseconds.
pub(crate) fn run(args: &[String]) -> Result<(), Fault> {
    tools::ensure(&[REDIS])?;
    let mut run = step::proof("run", &["--quiet", "--package", "bandog-storm", "--", "exits"]);
    step::run("exits of programs", run.args(args))
}
