//! The checks that a change must pass in addition to the tests.

use std::process::Command;

use crate::fault::Fault;
use crate::{step, tools};

/// Runs the checks, the fast ones first. The first failure ends the run.
pub(crate) fn run() -> Result<(), Fault> {
    formatting()?;
    builds()?.into_iter().try_for_each(|(what, mut command)| step::run(what, &mut command))
}

/// Runs the checks that build, with a low priority, beside other steps.
pub(crate) fn run_beside() -> Result<(), Fault> {
    builds()?.into_iter().try_for_each(|(what, command)| step::run_beside(what, &command))
}

/// Checks the formatting.
pub(crate) fn formatting() -> Result<(), Fault> {
    tools::ensure_component("fmt", "rustfmt")?;
    step::run("formatting", &mut step::cargo(&["fmt", "--all", "--check"]))
}

/// The checks that build.
fn builds() -> Result<Vec<(&'static str, Command)>, Fault> {
    tools::ensure_component("clippy", "clippy")?;
    let mut steps = Vec::new();
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    steps.push(("clippy", step::cargo(&clippy)));
    // The browser tests are not part of "all targets", because `test = false` excludes them. The whole workspace is named,
    // because the features of the dependencies would differ for one package, and they would be checked again.
    let page = ["clippy", "--workspace", "--test", "page", "--locked", "--", "-D", "warnings"];
    steps.push(("clippy of the page's tests", step::cargo(&page)));
    // Users who need only locks build the facade without the scheduler.
    for features in ["", "redis"] {
        let locks = ["clippy", "--package", "bandog", "--no-default-features", "--features", features, "--locked"];
        let mut locks = step::cargo(&locks);
        locks.args(["--", "-D", "warnings"]);
        steps.push(("clippy of locks alone", locks));
    }
    // Programs whose own data are in SQLite link only one SQLite with bandog, that of the oldest rusqlite.
    let mut beside = step::cargo(&["test", "--locked", "--manifest-path", "interop/beside-sqlx/Cargo.toml"]);
    beside.env("CARGO_TARGET_DIR", "target");
    steps.push(("bandog beside sqlx, with one SQLite", beside));
    let mut docs = step::cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    steps.push(("docs", docs));
    Ok(steps)
}
