//! Checks what newcomers meet first: CONTRIBUTING.md, the forms, and the container for development.

use std::fs;

use crate::{
    deploy::read,
    house::root,
    workflows::wrong,
    yaml::{document, text},
};

/// Packages of xtask/src/tools.rs that no test needs.
const NOT_FOR_TESTS: [&str; 3] = ["dpkg", "dpkg-dev", "npm"];

#[test]
fn the_commands_of_the_forms_are_tasks() {
    for page in ["CONTRIBUTING.md", ".github/pull_request_template.md"] {
        let text = read(page);
        let commands: Vec<_> =
            text.split("cargo xtask ").skip(1).map(|rest| rest.split(['`', ';', '\n']).next().unwrap()).collect();
        assert!(commands.len() > 1, "{page} has no tasks");
        for command in commands.into_iter().filter(|command| *command != "--help") {
            // The storm has options of its own.
            let (task, options) = command.split_once(' ').unwrap_or((command, ""));
            let options = options.split(' ').filter(|word| word.starts_with("--") && task != "storm");
            let words = options.fold(format!("cargo xtask {task}"), |words, option| format!("{words} {option}"));
            assert_eq!(wrong(&words), None, "{page}: {command:?}");
        }
    }
}

#[test]
fn the_files_that_newcomers_change_exist() {
    let page = read("CONTRIBUTING.md");
    let words = page.split('`').skip(1).step_by(2);
    let paths = words.filter(|word| {
        word.contains('/') && !word.contains([' ', ':']) && !word.contains("NAME") && !word.contains("PAGE")
    });
    let paths: Vec<_> = paths.filter(|path| !path.starts_with("tests/toy")).collect();
    assert!(paths.len() > 10, "{paths:?}");
    // After the first mention, the crate of the laws is left out.
    let exists = |path: &&str| {
        ["", "crates/bandog-conformance", "crates/bandog-sqlite"]
            .iter()
            .any(|folder| root().join(folder).join(path).exists())
    };
    let missing: Vec<_> = paths.into_iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md names what does not exist: {missing:?}");
}

#[test]
fn forms_are_well_formed_and_ask_for_what_is_needed() {
    let entries = fs::read_dir(root().join(".github/ISSUE_TEMPLATE")).unwrap().map(|entry| entry.unwrap().file_name());
    let forms = entries.map(|name| format!(".github/ISSUE_TEMPLATE/{}", name.into_string().unwrap()));
    let forms: Vec<_> = forms.chain([".github/dependabot.yml".to_owned()]).collect();
    assert_eq!(forms.len(), 5);
    for form in &forms {
        document(form);
    }
    let fault = document(".github/ISSUE_TEMPLATE/bug.yml");
    let fields = fault["body"].as_sequence().unwrap().iter();
    let labels: Vec<_> = fields.map(|field| text(field, "attributes.label")).collect();
    for label in [
        "Version of bandog",
        "Store",
        "Version of the store",
        "Topology",
        "URL",
        "bandog doctor --json",
        "bandog torture",
    ] {
        assert!(labels.contains(&label), "the form of a fault does not ask for: {label}");
    }
}

#[test]
fn the_container_for_development_has_what_the_tests_need() {
    let settings: serde_json::Value = serde_json::from_str(&read(".devcontainer/devcontainer.json")).unwrap();
    let file = read(&format!(".devcontainer/{}", settings["build"]["dockerfile"].as_str().unwrap()));
    let tools = read("xtask/src/tools.rs");
    let packages = tools.split("package: \"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let packages: Vec<_> = packages.filter(|package| !NOT_FOR_TESTS.contains(package)).collect();
    assert!(packages.len() > 7, "{packages:?}");
    let is_installed = |package: &&str| file.lines().any(|line| line.trim().trim_end_matches(" \\") == *package);
    let missing: Vec<_> = packages.into_iter().filter(|package| !is_installed(package)).collect();
    assert!(missing.is_empty(), ".devcontainer/Dockerfile does not install {missing:?}");
}
