//! The checks that a change must pass in addition to the tests.

use crate::fault::Fault;
use crate::{step, tools};

/// Runs the checks, the fast ones first. The first failure ends the run.
pub(crate) fn run() -> Result<(), Fault> {
    formatting()?;
    tools::ensure_component("clippy", "clippy")?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    step::run("clippy", &mut step::cargo(&clippy))?;
    // The tests with a browser and with Java are not part of "all targets", because `test = false` excludes them. The whole
    // workspace is named, because the features of the dependencies would differ for one package, and they would be checked
    // again.
    let excluded = ["clippy", "--workspace", "--test", "page", "--test", "interop", "--locked", "--", "-D", "warnings"];
    step::run("clippy of the tests with a browser and with Java", &mut step::cargo(&excluded))?;
    let docs = ["doc", "--workspace", "--no-deps", "--locked"];
    step::run("docs", step::cargo(&docs).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks the formatting of both workspaces.
pub(crate) fn formatting() -> Result<(), Fault> {
    tools::ensure_component("fmt", "rustfmt")?;
    step::run("formatting", &mut step::cargo(&["fmt", "--all", "--check"]))?;
    let proofs = ["fmt", "--all", "--check", "--manifest-path", "proof/Cargo.toml"];
    step::run("formatting of the long proofs", &mut step::cargo(&proofs))
}
