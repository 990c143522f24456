//! Running the tests, and saying how it went.

use std::fs;
use std::time::Instant;

use crate::fault::Fault;
use crate::step;
use crate::tally::Tally;
use crate::tools::{self, REDIS};

/// Packages whose tests mean nothing without a server.
const NEED_SERVERS: &[(&str, &str)] =
    &[("bandog-redis", "is about Redis"), ("bandog-testkit", "starts the servers of the other tests")];

/// What every run of the tests asks of cargo.
///
/// The facade leaves SQLite off, since it links a C library; its tests are part of ours.
const COMMON: &[&str] = &["test", "--workspace", "--locked", "--no-fail-fast", "--features", "bandog/sqlite"];

/// All tests, after the servers that they need are there.
pub(crate) fn full() -> Result<(), Fault> {
    tools::ensure(&[REDIS])?;
    let mut run = Run::start();
    run.cargo("all tests, on memory and on real servers", &[])?;
    run.finish()
}

/// The tests that need no server.
pub(crate) fn embedded() -> Result<(), Fault> {
    let mut run = Run::start();
    let without: Vec<&str> = NEED_SERVERS.iter().flat_map(|(package, _)| ["--exclude", *package]).collect();
    run.cargo("tests that need no server", &[&without[..], &["--lib", "--bins", "--test", "it"]].concat())?;
    run.cargo("doctests that need no server", &[&without[..], &["--doc"]].concat())?;
    let outcome = run.finish();
    for line in left_out()? {
        eprintln!("{line}");
    }
    outcome
}

struct Run {
    start: Instant,
    tally: Tally,
    succeeded: bool,
}

impl Run {
    fn start() -> Self {
        Self { start: Instant::now(), tally: Tally::default(), succeeded: true }
    }

    fn cargo(&mut self, what: &str, args: &[&str]) -> Result<(), Fault> {
        let mut command = step::cargo(COMMON);
        self.succeeded &= step::watch(what, command.args(args), |line| self.tally.see(line))?;
        Ok(())
    }

    /// The closing summary.
    fn finish(self) -> Result<(), Fault> {
        for name in &self.tally.failures {
            eprintln!("failed: {name}");
        }
        let words = format!("{} in {:.1} s", self.tally.words(), self.start.elapsed().as_secs_f64());
        if self.succeeded {
            eprintln!("==> all tests passed: {words}");
            return Ok(());
        }
        // Tests that do not build print no result, so the counts alone may look well.
        Err(Fault::failed(format!("tests failed or did not build: {words}")))
    }
}

/// What the embedded ring did not run, and why.
fn left_out() -> Result<Vec<String>, Fault> {
    let packages =
        NEED_SERVERS.iter().map(|(package, why)| format!("left out: {package}, which {why} and needs redis-server"));
    let crates = fs::read_dir("crates").map_err(|error| Fault::failed(format!("cannot list the crates: {error}")))?;
    let suites = crates.filter_map(Result::ok).map(|entry| entry.path().join("tests/servers"));
    let suites = suites.filter(|suite| suite.exists()).filter(|suite| {
        // A package that is left out whole was named already.
        !NEED_SERVERS.iter().any(|(package, _)| suite.starts_with(format!("crates/{package}")))
    });
    let suites = suites.map(|suite| format!("left out: {}, which needs redis-server", suite.display()));
    Ok(packages.chain(suites).collect())
}
