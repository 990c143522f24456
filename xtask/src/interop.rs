//! Tests the same locks from Rust and from Java.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::fault::Fault;
use crate::step;
use crate::tally::Tally;
use crate::tools::{self, JDK, MAVEN, REDIS};

const RUST: &str = "interop/Cargo.toml";
const JAVA: &str = "interop/java/pom.xml";

/// The versions of Redisson, as Maven's arguments: 4.7.0 is the default, and 3.10.6 is a profile.
const VERSIONS: &[&[&str]] = &[&[], &["--activate-profiles", "redisson-3.10.6"]];

/// The output of Maven, which is printed only if Maven fails.
const LOG: &str = "target/xtask/maven.log";

/// Builds the Java side, then runs both sides against one Redis. If a program is missing, `if_installed` makes this a
/// success.
pub(crate) fn run(if_installed: bool, args: &[String]) -> Result<(), Fault> {
    let missing = tools::missing_packages(&[JDK, MAVEN]);
    if if_installed && !missing.is_empty() {
        eprintln!("not run: the tests with Redisson, because packages are missing: {}", missing.join(" "));
        return Ok(());
    }
    tools::require(&[REDIS, JDK, MAVEN])?;
    build_java()?;
    let start = Instant::now();
    let mut tally = Tally::default();
    // The tests print times, so they run one after the other and do not disturb each other.
    let tests = ["test", "--manifest-path", RUST, "--no-fail-fast", "--", "--test-threads=1", "--show-output"];
    let mut tests = step::cargo(&tests);
    let tests = tests.env("CARGO_TARGET_DIR", "interop/target").args(args);
    let succeeded = step::watch("Redisson and bandog on one Redis", tests, |line| tally.see(line))?;
    for name in &tally.failures {
        eprintln!("failed: {name}");
    }
    let words = format!("{} in {:.1} s", tally.words(), start.elapsed().as_secs_f64());
    if succeeded {
        eprintln!("==> Java and Rust agree: {words}; the times are above");
        return Ok(());
    }
    Err(Fault::failed(format!("Java and Rust disagree, or a side did not build: {words}")))
}

/// Builds the Java side with each version of Redisson.
fn build_java() -> Result<(), Fault> {
    VERSIONS.iter().try_for_each(|version| build_version(version))
}

/// Builds the Java side with Redisson 4.7.0, and returns its folder.
pub(crate) fn build_current_java() -> Result<&'static str, Fault> {
    build_version(&[])?;
    Ok("interop/java/target/redisson-4.7.0")
}

/// Builds the Java side with one version of Redisson. Maven first runs without the network. If this fails, Maven runs
/// again with the network. It fails the first time, because Maven must fetch Redisson.
fn build_version(version: &[&str]) -> Result<(), Fault> {
    step::announce("building the Java side (the first time, Maven fetches Redisson)");
    if !maven(&[version, &["--offline"][..]].concat())? && !maven(version)? {
        eprintln!("{}", fs::read_to_string(LOG).unwrap_or_default());
        return Err(Fault::unavailable("Maven could not build the Java side; its log is above"));
    }
    Ok(())
}

fn maven(args: &[&str]) -> Result<bool, Fault> {
    let failed = |error| Fault::failed(format!("cannot run Maven or write {LOG}: {error}"));
    Path::new(LOG).parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    let log = File::create(LOG).map_err(failed)?;
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--no-transfer-progress", "--file", JAVA]).args(args).arg("compile");
    let status = command.stdout(log.try_clone().map_err(failed)?).stderr(log).status().map_err(failed)?;
    Ok(status.success())
}
