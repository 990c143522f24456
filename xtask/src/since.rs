//! The tests that a change can affect: `cargo xtask test --since REV`.
//!
//! A library affects the test targets that use it: those of its own crate, of the crates that import it, directly or through
//! others, and those that name one of these crates. A file below `tests/NAME` affects this target only. A file outside of
//! all crates affects the tests that read it, and those of xtask, which check pages and settings.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fault::Fault;
use crate::step;
use crate::workspace::{Crate, Workspace};

/// Files whose change affects everything.
const EVERYTHING: &[&str] = &["Cargo.lock", "Cargo.toml", "rust-toolchain.toml", ".cargo/config.toml"];
/// Crates that all tests use.
const BELOW_ALL: &[&str] = &["bandog-core", "bandog-testkit", "bandog-conformance"];
/// The laws on memory, which always run.
const ALWAYS: (&str, &str) = ("bandog-sync", "laws");
/// The crate whose tests check the files outside of all crates.
const XTASK: &str = "xtask";

/// The name of the target of unit tests, and of the tests of examples.
pub(crate) const UNIT: &str = "unit tests";
/// The name of the target of doctests.
pub(crate) const DOC: &str = "doctests";

/// The tests to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All tests, with the reason.
    All(String),
    Some(Targets),
}

/// Pairs of a package and one of its targets.
pub(crate) type Targets = BTreeSet<(String, String)>;

/// The tests that the changes since a revision can affect, with those that are not committed; or those in a range A..B.
pub(crate) fn scope(revision: &str) -> Result<Scope, Fault> {
    let git = |args: &[&str]| step::output(Command::new("git").args(args));
    let is_range = revision.contains("..");
    if !is_range && git(&["merge-base", "--is-ancestor", revision, "HEAD"]).is_err() {
        return Ok(Scope::All(format!("{revision:?} is not an ancestor of HEAD in this clone")));
    }
    let changed = git(&["diff", "--name-only", "--no-renames", revision, "--"])?;
    let new = if is_range { String::new() } else { git(&["ls-files", "--others", "--exclude-standard"])? };
    let changed: Vec<_> = changed.lines().chain(new.lines()).map(PathBuf::from).collect();
    Ok(of(&changed, Tests::read(&Workspace::read()?)?))
}

/// The tests that a change of these files can affect.
fn of(changed: &[PathBuf], mut tests: Tests) -> Scope {
    tests.add(ALWAYS.0, ALWAYS.1);
    for path in changed {
        if EVERYTHING.iter().any(|file| path == Path::new(file)) {
            return Scope::All(format!("{} has changed", path.display()));
        }
        match tests.crates.iter().position(|one| path.starts_with(&one.folder)) {
            Some(at) if tests.in_target(at, path) => {}
            Some(at) if path.extension().is_some_and(|kind| kind == "md") => {
                let name = tests.crates[at].name.clone();
                tests.add(&name, DOC);
                tests.outside(path);
            }
            Some(at) if BELOW_ALL.contains(&tests.crates[at].name.as_str()) => {
                return Scope::All(format!("{} has changed, which all tests use", path.display()));
            }
            Some(at) => tests.library(at),
            None => tests.outside(path),
        }
    }
    Scope::Some(tests.affected)
}

/// The test targets of the workspace, and the affected ones among them.
struct Tests {
    crates: Vec<Member>,
    affected: Targets,
}

/// A crate with the parts of its sources that decide which of its tests are affected.
struct Member {
    name: String,
    folder: PathBuf,
    /// The crates of the workspace that its library imports.
    imports: Vec<String>,
    /// Its test targets: unit tests, doctests, and the folders below `tests`.
    targets: Vec<Target>,
}

/// A test target with its sources.
struct Target {
    name: String,
    code: String,
    /// The code without texts between quotes, which can look like paths of crates.
    bare: String,
}

impl Target {
    fn new(name: &str, code: String) -> Self {
        let mut bare = String::with_capacity(code.len());
        for line in code.lines() {
            // A text over several lines leaves an odd number of quotes.
            let is_whole = line.matches('"').count() % 2 == 1;
            line.split('"').step_by(if is_whole { 1 } else { 2 }).for_each(|part| bare += part);
            bare.push('\n');
        }
        Self { name: name.to_owned(), code, bare }
    }
}

impl Tests {
    fn read(workspace: &Workspace) -> Result<Self, Fault> {
        let members = workspace.crates().into_iter().map(Member::read);
        Ok(Self { crates: members.collect::<Result<_, _>>()?, affected: Targets::new() })
    }

    fn add(&mut self, package: &str, target: &str) {
        self.affected.insert((package.to_owned(), target.to_owned()));
    }

    /// Whether the file belongs to one test target. If so, this target is affected.
    fn in_target(&mut self, at: usize, path: &Path) -> bool {
        let one = &self.crates[at];
        let below = path.strip_prefix(one.folder.join("tests")).ok().and_then(|path| path.iter().next());
        let name = below.map(Path::new).and_then(Path::file_stem).and_then(|name| name.to_str());
        let target = one.targets.iter().find(|target| Some(target.name.as_str()) == name);
        let Some((package, target)) = target.map(|target| (one.name.clone(), target.name.clone())) else {
            return false;
        };
        self.add(&package, &target);
        true
    }

    /// The library of a crate has changed.
    fn library(&mut self, at: usize) {
        let mut changed = BTreeSet::from([self.crates[at].name.clone()]);
        while let Some(next) = self
            .crates
            .iter()
            .find(|one| !changed.contains(&one.name) && one.imports.iter().any(|it| changed.contains(it)))
        {
            changed.insert(next.name.clone());
        }
        // `bandog` alone is also a word.
        let identifier = |name: &String| if name.contains('-') { name.replace('-', "_") } else { format!("{name}::") };
        let names: Vec<_> = changed.iter().map(identifier).collect();
        for one in &self.crates {
            let uses =
                |code: &str| changed.contains(&one.name) || names.iter().any(|name| code.contains(name.as_str()));
            let affected = one.targets.iter().filter(|target| uses(&target.bare));
            self.affected.extend(affected.map(|target| (one.name.clone(), target.name.clone())));
        }
    }

    /// A file outside of all crates has changed.
    fn outside(&mut self, path: &Path) {
        let path = path.to_string_lossy();
        for one in &self.crates {
            let affected = one.targets.iter().filter(|target| one.name == XTASK || reads(&target.code, &path));
            self.affected.extend(affected.map(|target| (one.name.clone(), target.name.clone())));
        }
    }
}

impl Member {
    fn read(one: Crate<'_>) -> Result<Self, Fault> {
        let folder = one.folder()?;
        let mut targets = Vec::new();
        let (mut code, mut docs) = (String::new(), String::new());
        for file in sources(&folder.join("src"))?.iter().chain(&sources(&folder.join("examples"))?) {
            for line in file.lines() {
                let is_doc = line.trim_start().starts_with("///") || line.trim_start().starts_with("//!");
                let is_doc = is_doc || line.contains("#[doc = include_str!");
                let part = if is_doc { &mut docs } else { &mut code };
                *part += line;
                *part += "\n";
            }
        }
        targets.extend(one.has_unit_tests().then(|| Target::new(UNIT, code)));
        targets.extend(one.has_doctests().then(|| Target::new(DOC, docs)));
        let tests = one.test_targets();
        let shared = shared(&folder.join("tests"), &tests)?;
        for (name, path) in tests {
            let below = folder.join("tests").join(name);
            let own = if below.is_dir() { sources(&below)?.concat() } else { read(&path)? };
            targets.push(Target::new(name, own + &shared));
        }
        let imports = one.imports().into_iter().map(str::to_owned).collect();
        Ok(Self { name: one.name().to_owned(), folder, imports, targets })
    }
}

/// The code below `tests` that is in the folder of no target: a target includes it with a path.
fn shared(tests: &Path, targets: &[(&str, PathBuf)]) -> Result<String, Fault> {
    let mut code = String::new();
    for entry in fs::read_dir(tests).into_iter().flatten() {
        let path = entry.map_err(|error| cannot_read(tests, &error))?.path();
        let is_target = targets.iter().any(|(name, _)| path.file_stem().is_some_and(|stem| stem == *name));
        if path.is_dir() && !is_target {
            code += &sources(&path)?.concat();
        }
    }
    Ok(code)
}

/// Whether the code contains a relative path of this file, of its folder, or a pattern that begins like its path.
fn reads(code: &str, path: &str) -> bool {
    code.split('"').filter_map(|text| text.rsplit_once("../")).map(|(_, tail)| tail).any(|tail| {
        let (start, is_pattern) = tail.split_once('{').map_or((tail, false), |(start, _)| (start, true));
        let rest = path.strip_prefix(start).filter(|_| !start.is_empty());
        rest.is_some_and(|rest| is_pattern || rest.is_empty() || rest.starts_with('/'))
    })
}

/// The texts of the Rust files of a folder and of the folders in it. None if there is no such folder.
fn sources(folder: &Path) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return Ok(found) };
    for entry in entries {
        let path = entry.map_err(|error| cannot_read(folder, &error))?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(read(&path)?);
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<String, Fault> {
    fs::read_to_string(path).map_err(|error| cannot_read(path, &error))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Fault {
    Fault::failed(format!("cannot read {}: {error}", path.display()))
}
