//! Tests of programs of an older version and of this one on one store.

use std::{fs, path::Path, process::Command};

use crate::{
    fault::Fault,
    step,
    tally::Tally,
    tools::{self, MARIADB, POSTGRES, REDIS},
};

/// The last version that does not know layouts of elements.
const REVISION: &str = "400b60e9";
/// Where its source and its build are.
const FOLDER: &str = "target/xtask/older";

/// Builds the commands of both versions, and runs the tests.
pub(crate) fn run(args: &[String]) -> Result<(), Fault> {
    tools::ensure(&[REDIS, POSTGRES, MARIADB])?;
    let older = build_older()?;
    step::run(
        "this version",
        step::cargo(&["build", "--locked", "--package", "bandog-cli"]).env("CARGO_TARGET_DIR", "target"),
    )?;
    let [older, newer] = [older.as_str(), "target/debug/bandog"].map(|path| Path::new(path).canonicalize());
    let missing = |error| Fault::failed(format!("a command is missing: {error}"));
    let mut tests = step::proof("test", &["--package", "bandog-older", "--test", "older"]);
    tests.args(["--", "--show-output"]).args(args);
    tests.env("BANDOG_OLDER", older.map_err(missing)?).env("BANDOG_NEWER", newer.map_err(missing)?);
    let mut tally = Tally::default();
    let succeeded = step::watch("programs of two versions on one store", &mut tests, |line| tally.see(line))?;
    tally.print_failures();
    match succeeded {
        true => Ok(()),
        false => Err(Fault::failed("programs of two versions do not agree, or one did not build".to_owned())),
    }
}

/// Builds the command of the older version, unless that was done before. Returns its path.
fn build_older() -> Result<String, Fault> {
    let command = format!("{FOLDER}/{REVISION}/bandog");
    if Path::new(&command).exists() {
        return Ok(command);
    }
    let source = format!("{FOLDER}/{REVISION}/source");
    fs::create_dir_all(&source).map_err(|error| Fault::failed(format!("cannot create {source}: {error}")))?;
    let script = format!("set -o pipefail; git archive {REVISION} | tar -x -C {source}");
    step::run(
        "the source of an older version, which needs the history of git",
        Command::new("bash").args(["-c", &script]),
    )?;
    let manifest = format!("{source}/Cargo.toml");
    let target = format!("{FOLDER}/target");
    step::run(
        "the older version",
        step::cargo(&["build", "--locked", "--package", "bandog-cli", "--manifest-path", &manifest])
            .env("CARGO_TARGET_DIR", &target),
    )?;
    fs::copy(format!("{target}/debug/bandog"), &command)
        .map_err(|error| Fault::failed(format!("cannot copy the older command: {error}")))?;
    Ok(command)
}
