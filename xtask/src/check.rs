//! What a change has to pass beside its tests.

use crate::fault::Fault;
use crate::{step, tools};

/// The cheap checks come first; the first that fails ends the run.
pub(crate) fn run() -> Result<(), Fault> {
    tools::ensure_component("fmt", "rustfmt")?;
    step::run("formatting", &mut step::cargo(&["fmt", "--all", "--check"]))?;
    tools::ensure_component("clippy", "clippy")?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    step::run("clippy", &mut step::cargo(&clippy))?;
    // Only this workspace's browser test is no part of "all targets", since it needs a browser to run.
    let page = ["clippy", "--package", "bandog-cli", "--test", "page", "--locked", "--", "-D", "warnings"];
    step::run("clippy of the page's tests", &mut step::cargo(&page))?;
    // A program that needs only locks leaves out the scheduler.
    for features in ["", "redis"] {
        let locks = ["clippy", "--package", "bandog", "--no-default-features", "--features", features, "--locked"];
        step::run("clippy of locks alone", step::cargo(&locks).args(["--", "-D", "warnings"]))?;
    }
    let docs = ["doc", "--workspace", "--no-deps", "--locked"];
    step::run("docs", step::cargo(&docs).env("RUSTDOCFLAGS", "-D warnings"))
}
