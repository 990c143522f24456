//! Programs that end, in every way.

use crate::fault::Fault;
use crate::step;
use crate::tools::{self, REDIS};

/// A debug build: the children live for milliseconds.
pub(crate) fn run(args: &[String]) -> Result<(), Fault> {
    tools::ensure(&[REDIS])?;
    let run = ["run", "--quiet", "--locked", "--package", "bandog-exits", "--"];
    step::run("exits of programs", step::cargo(&run).args(args))
}
