//! The command as a newcomer's first `cargo run` builds it: memory and SQLite, without the other stores.

use std::process::Command;

use crate::fault::Fault;
use crate::step;
use crate::workspace::Workspace;

/// The default member of the workspace.
const PACKAGE: &str = "bandog-embedded";

/// Builds the default member alone, runs its demo, and asks it for a store that it does not have.
pub(crate) fn prove() -> Result<(), Fault> {
    // Of the whole workspace, the packages together would give it every store.
    step::run("the command of a first run", &mut step::cargo(&["build", "--locked", "--package", PACKAGE]))?;
    let program = Workspace::read()?.target().join("debug").join(PACKAGE);
    step::run("its demo", Command::new(&program).args(["demo", "--seconds", "3"]).env_remove("BANDOG_URL"))?;
    for (url, feature) in [
        ("redis://localhost", "redis"),
        ("zookeeper://localhost", "zookeeper"),
        ("postgres://localhost/shop", "postgres"),
        ("mysql://localhost/shop", "mysql"),
    ] {
        step::headline(&format!("{url}, which it was built without"));
        let ls = Command::new(&program).args(["ls", "--url", url]).output();
        let ls = ls.map_err(|error| Fault::unavailable(format!("cannot run {}: {error}", program.display())))?;
        let text = String::from_utf8_lossy(&ls.stderr);
        if ls.status.code() != Some(64) || !text.contains(&format!("`--features {feature}`")) {
            return Err(Fault::failed(format!("{PACKAGE} ls --url {url} ended with {} and: {text}", ls.status)));
        }
    }
    Ok(())
}
