//! The page docs/guarantees-laws.md: which laws of `bandog-conformance` each backend keeps.
//!
//! The tests of the laws append their results to a file ([`Results`]). `cargo xtask laws` writes the page from them, and
//! a full test run compares them with the page.

mod code;
mod page;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use crate::fault::Fault;
use crate::step;
use crate::tally::Tally;
use crate::test;
use crate::test_programs;
use crate::tools::{self, ALL_SERVERS};

use code::Law;

const PAGE: &str = "docs/guarantees-laws.md";

/// The environment variable with the path of the file of [`Results`].
const RESULTS: &str = "BANDOG_LAW_RESULTS";

/// The test programs that run the laws, and which of their tests run.
const PROGRAMS: &[(&str, Option<&str>)] = &[
    ("bandog-redis laws", None),
    ("bandog-quorum it", Some("on_")),
    ("bandog-sql laws", None),
    ("bandog-sql mysql_laws", None),
    ("bandog-sqlite laws", None),
    ("bandog-sync laws", None),
    ("bandog-zookeeper laws", None),
];

/// A backend in a certain mode.
struct Backend {
    /// The name of its world in the tests.
    world: &'static str,
    /// Its name in the page.
    heading: &'static str,
}

const BACKENDS: &[Backend] = &[
    Backend { world: "memory", heading: "memory" },
    Backend { world: "sqlite", heading: "SQLite" },
    Backend { world: "redis", heading: "Redis" },
    Backend { world: "redis with layout=setnx", heading: "Redis setnx" },
    Backend { world: "redis cluster", heading: "Redis Cluster" },
    Backend { world: "a quorum of three Redis servers", heading: "quorum of Redis" },
    Backend { world: "a quorum of three stores in memory", heading: "quorum of memory" },
    Backend { world: "zookeeper", heading: "ZooKeeper" },
    Backend { world: "postgres", heading: "PostgreSQL" },
    Backend { world: "postgres with layout=shedlock", heading: "PostgreSQL shedlock" },
    Backend { world: "postgres with mode=rowlock", heading: "PostgreSQL rowlock" },
    Backend { world: "postgres with mode=advisory", heading: "PostgreSQL advisory" },
    Backend { world: "mysql", heading: "MySQL" },
    Backend { world: "mysql with layout=shedlock", heading: "MySQL shedlock" },
    Backend { world: "mysql with mode=rowlock", heading: "MySQL rowlock" },
    Backend { world: "mysql with mode=advisory", heading: "MySQL advisory" },
];

/// Worlds that are not on the page: an example, a store with faults on purpose, and a format for which only the laws
/// about semaphores run again.
const WITHOUT_RESULTS: &[&str] = &["one file", "flawed memory", "redis with semaphores=plain"];

/// The result of a law on a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// The law passed for some kinds of locks, with the reason.
    InPart(String),
    NotPromised(String),
}

/// The outcomes by the name of the law and the heading of the backend.
type Outcomes = BTreeMap<(String, &'static str), Outcome>;

/// A file to which the tests of the laws append their results. It is removed at the end.
pub(crate) struct Results(PathBuf);

impl Results {
    pub(crate) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("bandog-laws-{}.txt", process::id())))
    }

    /// The variable of the environment of the tests.
    pub(crate) fn variable(&self) -> (&'static str, &Path) {
        (RESULTS, &self.0)
    }

    /// Fails if the page has other results.
    pub(crate) fn compare(&self) -> Result<(), Fault> {
        if read(PAGE)? == self.page()? {
            return Ok(());
        }
        Err(Fault::failed(format!("{PAGE} has other results than the tests of the laws: run `cargo xtask laws`")))
    }

    fn page(&self) -> Result<String, Fault> {
        let laws = code::laws()?;
        let (outcomes, mut problems) = outcomes(&read(&self.0.display().to_string())?);
        problems.extend(missing(&laws, &outcomes));
        if problems.is_empty() { Ok(page::render(&laws, &outcomes)) } else { Err(Fault::failed(problems.join("\n"))) }
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        // The file does not exist if no law has run.
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs the laws on all backends and writes the page, or with `check` runs nothing and checks that the page is complete.
pub(crate) fn run(check: bool) -> Result<(), Fault> {
    if check {
        return complete();
    }
    tools::ensure(ALL_SERVERS)?;
    let results = Results::new();
    let args = [test::COMMON, &["--test", "it", "--test", "laws", "--test", "mysql_laws"]].concat();
    let Some(mut programs) = test_programs::build("building the laws", &mut step::cargo(&args))? else {
        return Err(Fault::failed("the tests of the laws do not build"));
    };
    programs.retain(|program| PROGRAMS.iter().any(|(name, _)| program.name() == *name));
    for program in &mut programs {
        program.set(results.variable());
        let part = PROGRAMS.iter().find_map(|(name, part)| part.filter(|_| program.name() == *name));
        part.into_iter().for_each(|part| program.arg(part));
    }
    step::headline("the laws on all backends");
    let mut tally = Tally::default();
    if !test_programs::run(programs, test::lanes()?, &mut tally)? {
        return Err(Fault::failed(format!("not every law passed: {}", tally.failures.join(", "))));
    }
    fs::write(PAGE, results.page()?).map_err(|error| Fault::failed(format!("cannot write {PAGE}: {error}")))
}

/// Checks that the page has a line for each law of the code with its present text, and results of each backend of the
/// tests.
fn complete() -> Result<(), Fault> {
    let (laws, text) = (code::laws()?, read(PAGE)?);
    let outcomes = page::parse(&text);
    let mut problems = missing(&laws, &outcomes);
    let is_known =
        |world: &String| BACKENDS.iter().any(|known| known.world == world) || WITHOUT_RESULTS.contains(&world.as_str());
    let unknown = code::worlds()?.into_iter().filter(|world| !is_known(world));
    problems.extend(unknown.map(|world| format!("the laws run on {world:?}, which xtask/src/laws.rs does not name")));
    if problems.is_empty() && page::render(&laws, &outcomes) != text {
        problems.push(format!("{PAGE} does not have the present laws and backends: run `cargo xtask laws`"));
    }
    if problems.is_empty() { Ok(()) } else { Err(Fault::failed(problems.join("\n"))) }
}

/// A problem for each law without a result on a backend.
fn missing(laws: &[Law], outcomes: &Outcomes) -> Vec<String> {
    let pairs = laws.iter().flat_map(|law| BACKENDS.iter().map(move |backend| (law, backend)));
    let missing = pairs.filter(|(law, backend)| !outcomes.contains_key(&(law.name.clone(), backend.heading)));
    let text =
        |law: &Law, backend: &Backend| format!("law {} ({}) has no result on {}", law.number, law.name, backend.world);
    missing.map(|(law, backend)| text(law, backend)).collect()
}

/// The outcomes in the file of [`Results`], and a problem for each law with two different results on one backend.
fn outcomes(lines: &str) -> (Outcomes, Vec<String>) {
    let (mut outcomes, mut problems) = (Outcomes::new(), Vec::new());
    for line in lines.lines() {
        let mut parts = line.split('\t').skip(1);
        let mut part = || parts.next().unwrap_or_default();
        let (name, world, result, reason) = (part(), part(), part(), part().to_owned());
        let Some(backend) = BACKENDS.iter().find(|backend| backend.world == world) else { continue };
        let outcome = match result {
            "passed" => Outcome::Passed,
            "in part" => Outcome::InPart(reason),
            "not promised" => Outcome::NotPromised(reason),
            _ => {
                problems.push(format!("a test of the laws has written an unknown result: {line}"));
                continue;
            }
        };
        let earlier = outcomes.insert((name.to_owned(), backend.heading), outcome.clone());
        if earlier.is_some_and(|earlier| earlier != outcome) {
            problems.push(format!("{name} has two different results on {world}"));
        }
    }
    (outcomes, problems)
}

fn read(path: &str) -> Result<String, Fault> {
    fs::read_to_string(path).map_err(|error| Fault::failed(format!("cannot read {path}: {error}")))
}
