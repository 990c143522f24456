//! The bill of materials of the command: each crate that is in the program or that was used to build it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cargo_tools::CYCLONEDX;
use crate::fault::Fault;
use crate::installable::{cannot_write, empty, time_of_commit};
use crate::step;
use crate::workspace::COMMAND;

use super::checks::Outcome;
use super::files::{FOLDER, SBOM, target};

/// A copy of the sources: cargo-cyclonedx writes a file beside each manifest.
const COPY: &str = "target/xtask/sbom";
/// The name of these files, without the extension.
const NAME: &str = "bandog-sbom";

/// Writes the bill of materials, in the format CycloneDX, and checks that it is complete.
pub(super) fn write() -> Outcome {
    let mut cyclonedx = CYCLONEDX.command()?;
    let copy = Path::new(COPY);
    empty(copy).map_err(|error| cannot_write(copy, &error))?;
    let prefix = format!("--prefix={COPY}/");
    step::run_aside("a copy of the sources", Command::new("git").args(["checkout-index", "--all", &prefix]))?;
    let target = target()?;
    cyclonedx.arg("--manifest-path").arg(copy.join("Cargo.toml")).args(["--format", "json", "--spec-version", "1.5"]);
    cyclonedx.args(["--target", &target, "--override-filename", NAME]).env("SOURCE_DATE_EPOCH", time_of_commit()?);
    step::run_aside("the bill of materials", &mut cyclonedx)?;
    let written = copy.join("crates").join(COMMAND).join(format!("{NAME}.json"));
    let text = fs::read_to_string(&written);
    let text = text.map_err(|error| Fault::failed(format!("cannot read {}: {error}", written.display())))?;
    // The place of the copy is of no use on another machine.
    let place = fs::canonicalize(copy).map_err(|error| Fault::failed(format!("cannot find {COPY}: {error}")))?;
    let text = text.replace(&format!("{}/", place.display()), "/").replace(&*place.to_string_lossy(), "/");
    let bill = serde_json::from_str(&text);
    let listed = components(&bill.map_err(|error| Fault::failed(format!("{}: {error}", written.display())))?);
    let used = used(&target)?;
    let missing: Vec<_> = used.difference(&listed).collect();
    if !missing.is_empty() {
        return Err(Fault::failed(format!("{SBOM} lacks {missing:?}")));
    }
    let file = Path::new(FOLDER).join(SBOM);
    let saved = fs::create_dir_all(FOLDER).and_then(|()| fs::write(&file, text));
    saved.map_err(|error| cannot_write(&file, &error))?;
    Ok(format!("{SBOM}: {} crates", used.len()))
}

/// Names and versions of the crates that the command uses on this target, by `cargo tree`.
fn used(target: &str) -> Result<BTreeSet<(String, String)>, Fault> {
    let tree = ["tree", "--locked", "--package", COMMAND, "--edges", "normal,build", "--prefix", "none"];
    let tree = step::output(step::cargo(&tree).args(["--format", "{p}", "--target", target]))?;
    Ok(tree.lines().filter_map(named).collect())
}

/// Name and version in a line of `cargo tree`, such as `serde v1.0.228 (*)`.
fn named(line: &str) -> Option<(String, String)> {
    let (name, rest) = line.split_once(" v")?;
    Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
}

/// Names and versions of the components of a bill, and of the program itself.
fn components(bill: &Value) -> BTreeSet<(String, String)> {
    let all = bill["components"].as_array().into_iter().flatten().chain([&bill["metadata"]["component"]]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|one| (text(&one["name"]), text(&one["version"]))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crates_are_found_in_a_tree_and_in_a_bill() {
        let one = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        let tree = "bandog-cli v0.1.0 (/a b/c)\nserde v1.0.228\nserde v1.0.228 (*)\na-macro v2.0.0 (proc-macro)\n\n";
        let expected = [one("bandog-cli", "0.1.0"), one("serde", "1.0.228"), one("a-macro", "2.0.0")].into();
        assert_eq!(tree.lines().filter_map(named).collect::<BTreeSet<_>>(), expected);
        let bill = json!({
            "metadata": { "component": { "name": "bandog-cli", "version": "0.1.0" } },
            "components": [{ "name": "serde", "version": "1.0.228" }, { "name": "a-macro", "version": "2.0.0" }],
        });
        assert_eq!(components(&bill), expected);
    }
}
