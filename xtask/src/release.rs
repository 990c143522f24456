//! The checks before a release, and its files. `docs/RELEASING.md` explains each step.

mod checks;
mod files;
mod sbom;
mod table;
mod versions;

use std::path::Path;
use std::time::Instant;

use crate::fault::Fault;
use crate::installable::{cannot_write, empty};
use crate::step;
use checks::Outcome;
use table::Row;

/// The name of a step, and the function that runs it.
type Step = (&'static str, fn() -> Outcome);

const STEPS: &[Step] = &[
    ("versions", versions::same),
    ("changelog", versions::changelog),
    ("docs.rs", versions::docs_rs),
    ("licences, bans and sources", checks::rules),
    ("advisories", checks::advisories),
    ("semantic versioning", checks::semver),
    ("locks alone", checks::locks_alone),
    ("beside sqlx", checks::beside_sqlx),
    ("the oldest Rust", checks::oldest_rust),
    ("the oldest dependencies", checks::oldest_dependencies),
    ("other systems", checks::other_systems),
    ("time zones", checks::time_zones),
    ("packages", checks::packages),
    ("archive", files::archive),
    ("bill of materials", sbom::write),
    ("Debian package", files::debian),
    ("checksums", files::checksums),
];

/// The steps of a release by hand. `docs/RELEASING.md` has more about each line.
const BY_HAND: &str = "This task publishes nothing. The steps of a release:
  cargo xtask check && cargo xtask test && cargo xtask prove
  cargo xtask release --dry-run   # the other checks, and the files of the release in target/release-dry-run
  git tag -s vX.Y.Z
  cargo publish --workspace
  git push origin vX.Y.Z          # then add the files to the release of the tag
docs/RELEASING.md explains them.";

/// Runs the steps whose names contain one of `parts`, or all steps, and prints a table. A step runs even if an earlier
/// one has failed.
pub(crate) fn run(dry_run: bool, json: bool, parts: &[String]) -> Result<(), Fault> {
    if !dry_run {
        println!("{BY_HAND}");
        return Ok(());
    }
    let chosen = |name: &str| parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()));
    let steps: Vec<_> = STEPS.iter().filter(|(name, _)| chosen(name)).collect();
    if steps.is_empty() {
        let names: Vec<_> = STEPS.iter().map(|(name, _)| *name).collect();
        return Err(Fault::failed(format!("no step has such a name; there are: {}", names.join("; "))));
    }
    if parts.is_empty() {
        // A file of an earlier run must not stay.
        empty(Path::new(files::FOLDER)).map_err(|error| cannot_write(Path::new(files::FOLDER), &error))?;
    }
    let mut rows = Vec::new();
    for (name, run) in steps {
        step::headline(&format!("step: {name}"));
        let start = Instant::now();
        let outcome = run();
        if let Err(fault) = &outcome {
            step::headline(&format!("{name}: {fault}"));
        }
        rows.push(Row { step: name, outcome, took: start.elapsed() });
    }
    print!("{}", if json { table::json(&rows, rows.len() == STEPS.len()) } else { table::text(&rows) });
    conclude(&rows)
}

/// Fails if a step has failed or lacks a program.
fn conclude(rows: &[Row]) -> Result<(), Fault> {
    let faults: Vec<_> = rows.iter().filter_map(|row| Some((row.step, row.outcome.as_ref().err()?))).collect();
    if faults.is_empty() {
        let all = rows.len() == STEPS.len();
        step::headline(if all {
            "ready for a release; the next steps are in docs/RELEASING.md"
        } else {
            "these steps pass"
        });
        return Ok(());
    }
    let words = faults.iter().map(|(name, fault)| format!("{name}: {fault}")).collect::<Vec<_>>().join("\n  ");
    let words = format!("not ready for a release:\n  {words}");
    let missing_only = faults.iter().all(|(_, fault)| fault.is_unavailable());
    Err(if missing_only { Fault::unavailable(words) } else { Fault::failed(words) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_step_is_on_the_page() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/RELEASING.md")).unwrap();
        let shown: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
        let steps: Vec<_> = STEPS.iter().map(|(name, _)| *name).collect();
        assert_eq!(shown.iter().filter(|name| steps.contains(name)).copied().collect::<Vec<_>>(), steps);
    }

    #[test]
    fn a_missing_program_has_another_code_than_a_failure() {
        let row = |outcome| Row { step: "a", outcome, took: Duration::ZERO };
        assert!(conclude(&[row(Ok(String::new()))]).is_ok());
        let missing = || row(Err(Fault::unavailable("missing; please install: b")));
        assert!(conclude(&[missing()]).is_err_and(|fault| fault.is_unavailable()));
        let both = [missing(), row(Err(Fault::failed("c")))];
        assert!(conclude(&both).is_err_and(|fault| !fault.is_unavailable()));
    }
}
