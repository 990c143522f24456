//! Checks `[package.metadata.deb]` of the command: its files exist, and the units start the installed program.

use std::{env, fs, process::Command};

use serde_json::Value;

use crate::{deploy::read, house::root};

/// The directory of the files that `cargo xtask deb` generates, by the manifest.
const GENERATED: &str = "../../target/xtask/command/";
/// The built program, by the manifest: cargo-deb puts the build directory in its place.
const PROGRAM: &str = "target/release/bandog";

#[test]
fn each_file_exists_or_is_generated() {
    let generating = read("xtask/src/installable.rs");
    assert!(generating.contains(&format!("\"{}\"", GENERATED.trim_start_matches("../").trim_end_matches('/'))));
    for Asset { source, target, mode } in assets() {
        if source == PROGRAM {
            assert_eq!((target.as_str(), mode.as_str()), ("usr/bin/", "755"));
            continue;
        }
        assert_eq!(mode, "644", "{source}");
        if let Some(path) = source.strip_prefix(GENERATED) {
            let (folder, name) = path.rsplit_once('/').unwrap();
            assert!(generating.contains(&format!("\"{folder}\"")), "{source}: nothing generates its directory");
            let is_known = name == "*.1" || generating.contains(&format!("\"{name}\")"));
            assert!(is_known, "{source}: nothing generates it");
            continue;
        }
        let path = root().join("crates/bandog-cli").join(&source);
        match source.split_once("/*") {
            Some((_, end)) => assert!(names(path.parent().unwrap()).any(|name| name.ends_with(end)), "{source}"),
            None => assert!(path.is_file(), "{source} does not exist"),
        }
    }
}

#[test]
fn the_units_start_the_installed_program() {
    let all = assets();
    let program = all.iter().find(|asset| asset.source == PROGRAM).unwrap();
    let program = format!("/{}bandog", program.target);
    let units: Vec<_> = names(&root().join("deploy/systemd")).filter(|name| name.ends_with(".service")).collect();
    assert_eq!(units.len(), 3, "{units:?}");
    for unit in &units {
        let text = read(&format!("deploy/systemd/{unit}"));
        let lines = text.lines().filter_map(|line| line.strip_prefix("Exec")?.split_once('='));
        let started: Vec<_> = lines.map(|(_, command)| command.split(' ').next().unwrap()).collect();
        assert!(started.contains(&program.as_str()), "{unit} does not start {program}");
        assert!(started.iter().all(|path| *path == program || *path == "/bin/kill"), "{unit}: {started:?}");
        let user = text.lines().find_map(|line| line.strip_prefix("User="));
        let created = read("deploy/systemd/sysusers.conf");
        assert!(user.is_none_or(|user| created.contains(&format!("\nu {user} - "))), "{unit}: no user {user:?}");
    }
    let place = all.iter().find(|asset| asset.source.ends_with("systemd/*.service")).unwrap();
    assert_eq!(place.target, "usr/lib/systemd/system/");
}

#[test]
fn the_task_checks_each_place() {
    let task = read("xtask/src/deb.rs");
    for Asset { source, target, .. } in assets() {
        let place = if target.ends_with('/') { target.clone() } else { format!("\"{target}\"") };
        let is_optional = source.ends_with("CHANGELOG.md");
        assert!(is_optional || task.contains(&place), "xtask/src/deb.rs does not check {target}");
    }
}

#[test]
fn the_fields_are_complete() {
    let deb = metadata();
    for field in ["name", "maintainer", "copyright", "section", "priority", "depends", "extended-description"] {
        assert!(deb[field].as_str().is_some_and(|text| !text.is_empty()), "no {field}");
    }
    assert!(deb["maintainer-scripts"].is_null(), "cargo xtask deb --try installs without the scripts of a package");
    let description = deb["extended-description"].as_str().unwrap();
    assert!(description.lines().all(|line| line.len() < 79), "{description}");
    let licence = deb["license-file"][0].as_str().unwrap();
    assert!(root().join("crates/bandog-cli").join(licence).is_file());
}

/// A file of the package, or a pattern for several.
struct Asset {
    source: String,
    target: String,
    mode: String,
}

fn assets() -> Vec<Asset> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let assets = metadata()["assets"].as_array().unwrap().clone();
    assert!(assets.len() > 10, "only {} assets", assets.len());
    let asset = |one: &Value| Asset { source: text(&one[0]), target: text(&one[1]), mode: text(&one[2]) };
    assets.iter().map(asset).collect()
}

/// The table of the manifest, as cargo reads it.
fn metadata() -> Value {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"];
    let out = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    let command = all["packages"].as_array().unwrap().iter().find(|one| one["name"] == "bandog-cli").unwrap();
    command["metadata"]["deb"].clone()
}

fn names(folder: &std::path::Path) -> impl Iterator<Item = String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap())
}
