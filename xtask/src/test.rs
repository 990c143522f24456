//! Runs the tests, and prints a summary.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::num::NonZeroUsize;
use std::time::Instant;

use crate::fault::Fault;
use crate::first_run;
use crate::interop;
use crate::laws::Results;
use crate::older;
use crate::record;
use crate::servers::{self, SERVERS, Server, Tests};
use crate::since::{self, DOC, Scope, Targets, UNIT};
use crate::step;
use crate::tally::Tally;
use crate::test_programs::{self, TestProgram};
use crate::tools::{self, ALL_SERVERS, MARIADB, PGBOUNCER, POSTGRES, REDIS};

/// Packages whose tests need a server, with the reason.
const NEED_SERVERS: &[(&str, &str)] = &[
    ("bandog-example-axum-orders", "starts PostgreSQL and Redis"),
    ("bandog-example-worker-redis", "starts Redis"),
    ("bandog-example-zookeeper-leader", "starts ZooKeeper"),
    ("bandog-redis", "is about Redis"),
    ("bandog-sql", "is about PostgreSQL"),
    ("bandog-sqlx", "is about PostgreSQL"),
    ("bandog-testkit", "starts the servers of the other tests"),
    ("bandog-why", "starts the servers of its scenes"),
    ("bandog-zookeeper", "is about ZooKeeper"),
];

/// The environment variable with the number of test programs that run at the same time.
const LANES: &str = "BANDOG_TEST_LANES";
/// The default of [`LANES`]. Most tests wait for timers and for servers, so three programs use two cores.
const DEFAULT_LANES: NonZeroUsize = NonZeroUsize::new(3).expect("3 is not zero");

/// The features of all tests that are not default features: SQLite links a C library, and the others add crates.
const FEATURES: &str = "bandog/grid,bandog/mysql,bandog/postgres,bandog/sqlite,bandog/zookeeper-tls,bandog-sql/mysql,\
                        bandog-sqlx/mysql,bandog-zookeeper/tls";

/// The arguments of cargo for every run of all tests.
pub(crate) const COMMON: &[&str] = &["test", "--workspace", "--locked", "--no-fail-fast", "--features", FEATURES];

/// Runs all tests except the long proofs. Installs the servers that they need, if these are missing. With `java`, also runs
/// the tests with Java, if they can run here. With `record`, keeps the result in [`record::FILE`].
pub(crate) fn full(java: bool, record: bool) -> Result<(), Fault> {
    tools::ensure(ALL_SERVERS)?;
    if record {
        record::require_clean()?;
    }
    let mut run = Run::start();
    run.all(java)?;
    let (passed, times) = (run.tally.passed, run.tally.times.clone());
    let outcome = run.finish();
    eprintln!("not run: the long proofs, and other versions of the servers; `cargo xtask prove` runs them");
    if outcome.is_ok() && record {
        record::tests(passed, &times)?;
    }
    outcome
}

/// Runs the tests that the changes since a revision can affect, the laws on memory and, with `java`, the tests with Java.
/// Without a revision, the changes since the recorded run of all tests. With `list`, prints the tests and runs nothing.
pub(crate) fn since(revision: Option<&str>, java: bool, list: bool) -> Result<(), Fault> {
    let recorded = record::read()?;
    let scope = match revision.or(recorded.commit()) {
        Some(revision) => since::scope(revision)?,
        None => Scope::All(format!("{} has no run of all tests", record::FILE)),
    };
    step::headline(&match &scope {
        Scope::All(why) => format!("all tests: {why}"),
        Scope::Some(targets) => format!("{} targets of tests that the changes can affect", targets.len()),
    });
    if list {
        print!("{}", recorded.listed(&scope));
        return Ok(());
    }
    tools::ensure(ALL_SERVERS)?;
    let mut run = Run::start();
    match &scope {
        Scope::All(_) => run.all(java)?,
        Scope::Some(targets) => run.some(targets, java)?,
    }
    run.finish()
}

/// Runs the long proofs: storms on all stores, exits of programs, the bench, the tests with Java, and the tests of the
/// backends on further servers.
pub(crate) fn prove(record: bool) -> Result<(), Fault> {
    if record {
        record::require_clean()?;
    }
    // A server that cannot be used is refused here, and not after the other proofs.
    let servers = servers::named()?;
    tools::ensure(ALL_SERVERS)?;
    let mut run = Run::start();
    run.proofs()?;
    for fault in [first_run::prove(), interop::run(&[]), older::run(&[])].into_iter().filter_map(Result::err) {
        run.tally.failures.push(fault.to_string());
        run.succeeded = false;
    }
    for server in &servers {
        run.on_server(server)?;
    }
    let passed = run.tally.passed;
    let outcome = run.finish();
    if servers.is_empty() {
        eprintln!("not run: {SERVERS} is not set; proved on {} only", servers::default_version()?);
    }
    if outcome.is_ok() && record {
        record::proofs(passed)?;
    }
    outcome
}

/// The number of test programs that run at the same time.
pub(crate) fn lanes() -> Result<NonZeroUsize, Fault> {
    let Some(text) = env::var_os(LANES) else { return Ok(DEFAULT_LANES) };
    let lanes = text.to_str().and_then(|text| text.parse().ok());
    lanes.ok_or_else(|| Fault::failed(format!("{LANES} is {}; it must be a number above 0", text.display())))
}

/// Runs the tests of the backends on the servers that the environment names, and on those of container images.
pub(crate) fn servers(images: &[String]) -> Result<(), Fault> {
    tools::ensure(&[REDIS, POSTGRES, PGBOUNCER, MARIADB])?;
    let mut servers = servers::named()?;
    for image in images {
        servers.push(servers::of_image(image)?);
    }
    if servers.is_empty() {
        return Err(Fault::failed(format!("{SERVERS} names no server, and there is no --image")));
    }
    let mut run = Run::start();
    servers.iter().try_for_each(|server| run.on_server(server))?;
    run.finish()
}

/// Runs the tests that need no server.
pub(crate) fn embedded() -> Result<(), Fault> {
    let mut run = Run::start();
    let excluded: Vec<&str> = NEED_SERVERS.iter().flat_map(|(package, _)| ["--exclude", *package]).collect();
    run.cargo("tests that need no server", &[&excluded[..], &["--lib", "--bins", "--test", "it"]].concat())?;
    run.cargo("doctests that need no server", &[&excluded[..], &["--doc"]].concat())?;
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
    /// The tests that could not run on a server, with the reason.
    left_out: Vec<String>,
}

impl Run {
    fn start() -> Self {
        Self { start: Instant::now(), tally: Tally::default(), succeeded: true, left_out: Vec::new() }
    }

    fn cargo(&mut self, what: &str, args: &[&str]) -> Result<(), Fault> {
        let mut command = step::cargo(COMMON);
        self.succeeded &= step::watch(what, command.args(args), |line| self.tally.see(line))?;
        Ok(())
    }

    /// Builds and runs all tests. If all have succeeded, compares the results of the laws with their page.
    fn all(&mut self, java: bool) -> Result<(), Fault> {
        let Some(mut programs) = test_programs::build("building all tests", &mut step::cargo(COMMON))? else {
            self.succeeded = false;
            return Ok(());
        };
        test_programs::check_names(&programs)?;
        let results = Results::new();
        programs.iter_mut().for_each(|program| program.set(results.variable()));
        programs.push(TestProgram::doctests(&[COMMON, &["--doc"]].concat())?);
        self.side_by_side(programs, java)?;
        if self.succeeded
            && let Err(fault) = results.compare()
        {
            self.tally.failures.push(fault.to_string());
            self.succeeded = false;
        }
        Ok(())
    }

    /// Builds and runs the tests of these targets.
    fn some(&mut self, targets: &Targets, java: bool) -> Result<(), Fault> {
        let (documented, tested): (Targets, Targets) = targets.iter().cloned().partition(|(_, target)| target == DOC);
        let Some(mut programs) =
            test_programs::build("building the tests", step::cargo(&of(&tested)).args(kinds(&tested)))?
        else {
            self.succeeded = false;
            return Ok(());
        };
        programs.retain(|program| tested.iter().any(|(package, target)| program.is(package, target)));
        if !documented.is_empty() {
            let mut args = of(&documented);
            args.push("--doc");
            programs.push(TestProgram::doctests(&args)?);
        }
        self.side_by_side(programs, java)
    }

    /// Runs several of these programs at the same time, with `java` also the short tests with Java.
    fn side_by_side(&mut self, mut programs: Vec<TestProgram>, java: bool) -> Result<(), Fault> {
        let lanes = lanes()?;
        if java {
            programs.extend(test_programs::without_proofs(interop::build()?));
        }
        step::headline(&format!("{} test programs, {lanes} at a time ({LANES})", programs.len()));
        self.succeeded &= test_programs::run(programs, lanes, &mut self.tally)?;
        Ok(())
    }

    /// Checks and runs the tests of the workspace of the long proofs, and the long forms of other tests.
    fn proofs(&mut self) -> Result<(), Fault> {
        let mut clippy = step::proof("clippy", &["--workspace", "--all-targets", "--", "-D", "warnings"]);
        step::run("clippy of the long proofs", &mut clippy)?;
        let mut proofs = step::proof("test", &["--workspace"]);
        let proofs = test_programs::build("building the long proofs", &mut proofs)?;
        let programs = test_programs::build("building all tests", &mut step::cargo(COMMON))?;
        let Some((proofs, programs)) = proofs.zip(programs) else {
            self.succeeded = false;
            return Ok(());
        };
        step::headline("the long proofs");
        self.succeeded &= test_programs::prove(proofs, programs, &mut self.tally)?;
        Ok(())
    }

    /// Runs the tests of a backend on another server.
    fn on_server(&mut self, server: &Server) -> Result<(), Fault> {
        let Tests { what, mut command, left_out } = server.tests()?;
        self.left_out.extend(left_out);
        self.succeeded &= step::watch(&what, &mut command, |line| self.tally.see(line))?;
        Ok(())
    }

    /// Prints the summary.
    fn finish(self) -> Result<(), Fault> {
        for line in &self.left_out {
            eprintln!("{line}");
        }
        self.tally.print_failures();
        let words = format!("{} in {:.1} s", self.tally.words(), self.start.elapsed().as_secs_f64());
        if self.succeeded {
            eprintln!("==> all tests passed: {words}");
            return Ok(());
        }
        // Tests that do not build print no result, so the counts might not show the failure.
        Err(Fault::failed(format!("tests failed or did not build: {words}")))
    }
}

/// The arguments of cargo for the packages of these targets, with their features.
fn of(targets: &Targets) -> Vec<&str> {
    let packages: BTreeSet<&str> = targets.iter().map(|(package, _)| package.as_str()).collect();
    let mut args = vec!["test", "--locked", "--no-fail-fast"];
    args.extend(packages.iter().flat_map(|package| ["--package", *package]));
    let is_of_one = |feature: &&str| feature.split_once('/').is_some_and(|(package, _)| packages.contains(package));
    args.extend(FEATURES.split(',').filter(is_of_one).flat_map(|feature| ["--features", feature]));
    args
}

/// The arguments of cargo for the kinds of these targets.
fn kinds(targets: &Targets) -> BTreeSet<String> {
    let of = |target: &String| match target.as_str() {
        UNIT => vec!["--lib".to_owned(), "--bins".to_owned(), "--examples".to_owned()],
        name => vec![format!("--test={name}")],
    };
    targets.iter().flat_map(|(_, target)| of(target)).collect()
}

/// The tests that `embedded` did not run, with the reason.
fn left_out() -> Result<Vec<String>, Fault> {
    let packages =
        NEED_SERVERS.iter().map(|(package, why)| format!("left out: {package}, which {why} and needs servers"));
    let crates = fs::read_dir("crates").map_err(|error| Fault::failed(format!("cannot list the crates: {error}")))?;
    let crates = crates.filter_map(Result::ok).map(|entry| entry.path());
    let suites = crates.map(|folder| folder.join("tests/servers"));
    let suites = suites.filter(|suite| suite.exists()).filter(|suite| {
        // A package that is left out completely is in the list already.
        !NEED_SERVERS.iter().any(|(package, _)| suite.starts_with(format!("crates/{package}")))
    });
    let suites = suites.map(|suite| format!("left out: {}, which needs redis-server", suite.display()));
    Ok(packages.chain(suites).collect())
}
