//! The newest run of all tests and the newest run of the long proofs that passed: `.ci/full-run.json`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::fault::Fault;
use crate::since::Scope;
use crate::step;

pub(crate) const FILE: &str = ".ci/full-run.json";

/// The name of the doctests among the programs.
pub(crate) const DOCTESTS: &str = "doctests";

/// The content of the file.
#[derive(Debug, Default)]
pub(crate) struct Recorded(Map<String, Value>);

/// Reads the file. It is empty if there is no file.
pub(crate) fn read() -> Result<Recorded, Fault> {
    let Ok(text) = fs::read_to_string(FILE) else { return Ok(Recorded::default()) };
    let content = serde_json::from_str(&text);
    content.map(Recorded).map_err(|error| Fault::failed(format!("cannot read {FILE}: {error}")))
}

/// Fails if there are changes that are not committed: a record names a commit.
pub(crate) fn require_clean() -> Result<(), Fault> {
    let changes = step::output(Command::new("git").args(["status", "--porcelain"]))?;
    let first = changes.lines().next();
    first.map_or(Ok(()), |first| Err(Fault::failed(format!("commit the changes first, such as {}", first.trim()))))
}

/// Records that all tests have passed.
pub(crate) fn tests(passed: u64, times: &BTreeMap<String, Duration>) -> Result<(), Fault> {
    let rounded = times.iter().map(|(name, time)| (name.clone(), json!(time.as_secs_f64().round())));
    write("tests", passed, rounded.collect())
}

/// Records that the long proofs have passed.
pub(crate) fn proofs(passed: u64) -> Result<(), Fault> {
    write("proofs", passed, Map::new())
}

fn write(what: &str, passed: u64, programs: Map<String, Value>) -> Result<(), Fault> {
    let commit = step::output(Command::new("git").args(["rev-parse", "HEAD"]))?;
    let day = step::output(Command::new("date").arg("-uI"))?;
    let Recorded(mut content) = read()?;
    let mut run = json!({ "commit": commit.trim(), "day": day.trim(), "passed": passed });
    if !programs.is_empty() {
        run["programs"] = programs.into();
    }
    content.insert(what.to_owned(), run);
    let text = format!("{:#}\n", Value::from(content));
    fs::write(FILE, text).map_err(|error| Fault::failed(format!("cannot write {FILE}: {error}")))?;
    step::headline(&format!("recorded in {FILE}; commit it"));
    Ok(())
}

impl Recorded {
    /// The commit of the run of all tests.
    pub(crate) fn commit(&self) -> Option<&str> {
        self.0.get("tests")?["commit"].as_str()
    }

    /// The seconds of a program in the run of all tests.
    pub(crate) fn seconds(&self, program: &str) -> Option<f64> {
        self.0.get("tests")?["programs"][program].as_f64()
    }

    /// The programs of a scope, with their seconds and the sum of them.
    pub(crate) fn listed(&self, scope: &Scope) -> String {
        let programs: Vec<String> = match scope {
            Scope::All(_) => {
                let programs = self.0.get("tests").and_then(|run| run["programs"].as_object());
                programs.into_iter().flatten().map(|(name, _)| name.clone()).collect()
            }
            Scope::Some(targets) => targets.iter().map(|(package, target)| format!("{package} {target}")).collect(),
        };
        let (mut text, mut sum) = (String::new(), 0.0);
        for program in programs {
            let seconds = self.seconds(&program);
            sum += seconds.unwrap_or_default();
            let seconds = seconds.map_or("     ".to_owned(), |seconds| format!("{seconds:5.0}"));
            let _ = writeln!(text, "{seconds} s  {program}"); // A `String` accepts all text.
        }
        let _ = writeln!(text, "{sum:5.0} s  of programs, in the recorded run of all tests");
        text
    }
}
