//! Checks the workflows: they only call tasks that exist, with few rights and the toolchain of the project, and their YAML is
//! well-formed.

use std::{collections::BTreeSet, fs};

use saphyr::YamlOwned;

use crate::{deploy::long_options, deploy::read, house::root, yaml::document};

const FOLDER: &str = ".github/workflows";

#[test]
fn each_step_is_a_task() {
    let mut seen = BTreeSet::new();
    for file in workflows() {
        let workflow = document(&file);
        let commands = of_steps(&workflow, "run");
        assert!(!commands.is_empty(), "{file} runs nothing");
        for command in commands {
            let wrong = wrong(command);
            assert!(wrong.is_none(), "{file}: {command:?}: {}", wrong.unwrap());
            seen.insert(command.split(" --").next().unwrap().to_owned());
        }
    }
    for expected in ["check", "test", "prove", "servers", "book", "release"] {
        assert!(seen.contains(&format!("cargo xtask {expected}")), "no workflow runs {expected}: {seen:?}");
    }
}

#[test]
fn each_image_has_the_toolchain_of_the_project() {
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix("\"")).unwrap();
    let (minor, _) = channel.rsplit_once('.').unwrap();
    for file in workflows().into_iter().chain([".devcontainer/Dockerfile".to_owned()]) {
        let text = read(&file);
        let versions = text.split("rust:").skip(1).map(|rest| rest.split('-').next().unwrap());
        let other: Vec<_> = versions.filter(|version| *version != minor).collect();
        assert!(other.is_empty(), "{file} has images of Rust {other:?}, and rust-toolchain.toml has {minor}");
    }
}

#[test]
fn each_step_of_a_release_is_one() {
    let ci = document(".github/workflows/ci.yml");
    let steps = ci["jobs"]["release"]["strategy"]["matrix"]["step"].as_sequence().unwrap().iter();
    let steps: Vec<_> = steps.map(|step| step.as_str().unwrap()).collect();
    assert!(steps.len() > 3, "{steps:?}");
    let source = read("xtask/src/release.rs");
    let other: Vec<_> = steps.into_iter().filter(|step| !source.contains(&format!("    (\"{step}\", "))).collect();
    assert!(other.is_empty(), "xtask/src/release.rs has no steps {other:?}");
}

#[test]
fn each_workflow_has_few_rights_and_a_limit_of_time() {
    for file in workflows() {
        let workflow = document(&file);
        let rights = workflow["permissions"].as_mapping().unwrap().iter();
        let rights: Vec<_> = rights.map(|(name, right)| (name.as_str(), right.as_str())).collect();
        assert_eq!(rights, [(Some("contents"), Some("read"))], "{file}: the only right");
        assert!(!read(&file).contains("secrets."), "{file} reads a secret");
        for job in workflow["jobs"].as_mapping().unwrap().values() {
            assert!(!job.contains_mapping_key("permissions"), "{file}: a job has other rights");
            assert!(job.contains_mapping_key("timeout-minutes"), "{file}: a job has no timeout-minutes");
        }
        for action in of_steps(&workflow, "uses") {
            let version = action.split_once("@v").map(|(_, version)| version);
            let is_major = version.is_some_and(|version| version.parse::<u32>().is_ok());
            assert!(is_major && action.starts_with("actions/"), "{file}: {action}");
        }
    }
}

#[test]
fn other_commands_are_found() {
    for right in
        ["cargo xtask check", "cargo xtask release --dry-run", "cargo xtask servers --image \"${{ matrix.image }}\""]
    {
        assert_eq!(wrong(right), None, "{right}");
    }
    let others =
        ["cargo test", "cargo xtask bok", "cargo xtask release --dryrun", "|", "cargo xtask check && x", "cargo xtask"];
    for other in others {
        assert!(wrong(other).is_some(), "{other}");
    }
}

fn workflows() -> Vec<String> {
    let entries = fs::read_dir(root().join(FOLDER)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<_> = entries.map(|name| format!("{FOLDER}/{}", name.into_string().unwrap())).collect();
    files.sort();
    assert_eq!(files, ["book", "ci", "prove", "release"].map(|name| format!("{FOLDER}/{name}.yml")));
    files
}

/// The values of a key in the steps of all jobs.
fn of_steps<'w>(workflow: &'w YamlOwned, key: &str) -> Vec<&'w str> {
    let jobs = workflow["jobs"].as_mapping().unwrap().values();
    let steps = jobs.flat_map(|job| job["steps"].as_sequence().unwrap());
    steps.filter_map(|step| step.as_mapping_get(key)?.as_str()).collect()
}

/// The reason why a command is no task with its options.
pub(crate) fn wrong(command: &str) -> Option<String> {
    let Some(task) = command.strip_prefix("cargo xtask ") else { return Some("not a task".to_owned()) };
    // A value of a matrix has blanks.
    let mut words = task.split("${{").next().unwrap().split(' ').filter(|word| !word.is_empty());
    let source = read("xtask/src/args.rs");
    let name = words.next().unwrap_or_default();
    if !tasks(&source).contains(name) {
        return Some(format!("no task {name:?}"));
    }
    let known = long_options(&source);
    let other: Vec<_> = words.filter(|word| !known.contains(*word) && *word != "\"").collect();
    (!other.is_empty()).then(|| format!("no option {other:?}"))
}

/// The names of the tasks: `PrePush` is `pre-push`.
fn tasks(source: &str) -> BTreeSet<String> {
    let variants = source.split_once("enum Task {").unwrap().1.split("\n}").next().unwrap();
    let variants = variants.lines().filter_map(|line| line.strip_prefix("    "));
    let names = variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    let dashed = |c: char| c.is_ascii_uppercase().then_some('-').into_iter().chain([c.to_ascii_lowercase()]);
    names.map(|line| line.trim_end_matches([' ', '{', ',']).chars().flat_map(dashed).skip(1).collect()).collect()
}
