//! Tests the same locks from Rust and from Java: with Redisson on Redis, with Curator on ZooKeeper, and with
//! ShedLock on PostgreSQL and MariaDB.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::fault::Fault;
use crate::step;
use crate::tally::Tally;
use crate::test::COMMON;
use crate::test_programs::{self, TestProgram};
use crate::tools::{self, JDK, MARIADB, MAVEN, POSTGRES, REDIS, ZOOKEEPER};

/// Maven's arguments for Redisson 4.7.0.
const REDISSON: &[&str] = &["--file", "proof/interop/java/pom.xml"];
/// Maven's arguments for the codecs of Redisson 4.7.0.
const CODECS: &[&str] = &["--file", "proof/interop/java/codecs.xml"];
/// Maven's arguments for Curator 5.9.0.
const CURATOR: &[&str] = &["--file", "proof/interop/java/curator.xml"];
/// Maven's arguments for ShedLock 6.10.0.
const SHEDLOCK: &[&str] = &["--file", "proof/interop/java/shedlock.xml"];
/// Maven's arguments for Spring Boot 3.5.7 with the cache manager of Redisson 3.52.0.
const SPRING: &[&str] = &["--file", "proof/interop/java/spring.xml"];
/// Maven's arguments for Quartz 2.5.2, which is only measured.
const QUARTZ: &[&str] = &["--file", "proof/interop/java/quartz.xml"];
/// Maven's arguments for the Java program of an example.
const EXAMPLE: &[&str] = &["--file", "examples/redisson-neighbour/java/pom.xml"];
/// The Java sides, as Maven's arguments: both versions of Redisson, its codecs, Curator, ShedLock, Spring, Quartz, and the
/// program of the example.
const JAVA: &[&[&str]] = &[
    REDISSON,
    &["--file", "proof/interop/java/pom.xml", "--activate-profiles", "redisson-3.10.6"],
    CODECS,
    CURATOR,
    SHEDLOCK,
    SPRING,
    QUARTZ,
    EXAMPLE,
];

/// The arguments of cargo for the Rust side, in the workspace of the long proofs.
const RUST: &[&str] = &["--package", "bandog-interop", "--test", "interop"];
/// The arguments of cargo for the test of the example `redisson-neighbour`, beside those of all tests: so it is built with
/// the same features.
const RUST_EXAMPLE: &[&str] = &["--test", "interop"];

/// The output of Maven, which is printed only if Maven fails.
const LOG: &str = "target/xtask/maven.log";

/// Builds the Java sides, then runs both sides against one server.
pub(crate) fn run(args: &[String]) -> Result<(), Fault> {
    tools::ensure(&[REDIS, ZOOKEEPER, POSTGRES, MARIADB, JDK, MAVEN])?;
    build_java()?;
    let start = Instant::now();
    let mut tally = Tally::default();
    // The tests print times, so they run one after the other and do not disturb each other.
    let alone = ["--", "--test-threads=1", "--show-output"];
    let mut tests = step::proof("test", RUST);
    tests.args(alone).args(args);
    let mut succeeded = step::watch("Java and bandog on one server", &mut tests, |line| tally.see(line))?;
    let mut example = step::cargo(COMMON);
    example.args(RUST_EXAMPLE).args(alone).args(args);
    succeeded &= step::watch("the example with Redisson", &mut example, |line| tally.see(line))?;
    tally.print_failures();
    let words = format!("{} in {:.1} s", tally.words(), start.elapsed().as_secs_f64());
    if succeeded {
        eprintln!("==> Java and Rust agree: {words}; the times are above");
        return Ok(());
    }
    Err(Fault::failed(format!("Java and Rust disagree, or a side did not build: {words}")))
}

/// Builds both sides for a run beside the other tests. No programs if a JDK or Maven is missing, which is printed.
pub(crate) fn build() -> Result<Vec<TestProgram>, Fault> {
    let missing = tools::missing_packages(&[JDK, MAVEN]);
    if !missing.is_empty() {
        eprintln!("not run: the tests with Java, because packages are missing: {}", missing.join(" "));
        return Ok(Vec::new());
    }
    build_java()?;
    let rust = test_programs::build("building the tests with Java", &mut step::proof("test", RUST))?;
    let example = test_programs::build("building the example with Java", step::cargo(COMMON).args(RUST_EXAMPLE))?;
    let built = rust.zip(example).map(|(rust, example)| rust.into_iter().chain(example).collect());
    built.ok_or_else(|| Fault::failed("the tests with Java did not build"))
}

/// Builds all Java sides.
fn build_java() -> Result<(), Fault> {
    JAVA.iter().try_for_each(|side| build_side(side))
}

/// Builds the Java sides with Redisson 4.7.0, Curator 5.9.0, ShedLock 6.10.0 and Quartz 2.5.2. Returns their folders, each
/// behind the option of the benchmark.
pub(crate) fn build_current_java() -> Result<[&'static str; 8], Fault> {
    [REDISSON, CURATOR, SHEDLOCK, QUARTZ].into_iter().try_for_each(build_side)?;
    Ok([
        "--redisson",
        "proof/interop/java/target/redisson-4.7.0",
        "--curator",
        "proof/interop/java/target/curator-5.9.0",
        "--shedlock",
        "proof/interop/java/target/shedlock-6.10.0",
        "--quartz",
        "proof/interop/java/target/quartz-2.5.2",
    ])
}

/// Builds one Java side. Maven first runs without the network. If this fails, Maven runs again with the network. It fails
/// the first time, because Maven must fetch the library.
fn build_side(side: &[&str]) -> Result<(), Fault> {
    step::headline("building a Java side (the first time, Maven fetches its library)");
    if !maven(&[side, &["--offline"][..]].concat())? && !maven(side)? {
        eprintln!("{}", fs::read_to_string(LOG).unwrap_or_default());
        return Err(Fault::unavailable("Maven could not build a Java side; its log is above"));
    }
    Ok(())
}

fn maven(args: &[&str]) -> Result<bool, Fault> {
    let failed = |error| Fault::failed(format!("cannot run Maven or write {LOG}: {error}"));
    Path::new(LOG).parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    let log = File::create(LOG).map_err(failed)?;
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--no-transfer-progress"]).args(args).arg("compile");
    let status = command.stdout(log.try_clone().map_err(failed)?).stderr(log).status().map_err(failed)?;
    Ok(status.success())
}
