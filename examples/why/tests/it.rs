//! Each scene ends as its page says: the last line of the output in the page is that of the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The pages whose output is compared.
const PAGES: [&str; 3] = ["why-locks.md", "why-databases.md", "why-jobs.md"];
/// The line above an output.
const COMMAND: &str = "$ cargo run -p bandog-why -- ";

/// The scenes have leases of a second, so they run one after the other.
static ONE: Mutex<()> = Mutex::new(());

#[test]
fn locks_end_as_the_page_says() {
    compare("why-locks.md");
}

#[test]
fn databases_end_as_the_page_says() {
    compare("why-databases.md");
}

#[test]
fn jobs_end_as_the_page_says() {
    compare("why-jobs.md");
}

#[test]
fn each_scene_is_on_a_page() {
    let list = run("list");
    let listed: BTreeSet<_> =
        text(&list).lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
    let shown: Vec<_> = PAGES.iter().flat_map(|page| outputs(page)).map(|(scene, _)| scene).collect();
    assert_eq!(listed, shown.iter().cloned().collect(), "the scenes of `list` (left), and those of the pages");
    assert_eq!(listed.len(), shown.len(), "a scene is on the pages twice");
}

#[test]
fn a_missing_server_is_named_with_its_package() {
    let out = Command::new(env!("CARGO_BIN_EXE_bandog-why"))
        .arg("short")
        .env("BANDOG_TEST_SERVER", "/no/redis-server")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(69), "{message}");
    assert!(message.contains("apt-get install redis-server"), "{message}");
}

/// Runs each scene of a page, and compares its last line.
fn compare(page: &str) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut other = Vec::new();
    for (scene, expected) in outputs(page) {
        let out = run(&scene);
        let said = text(&out);
        if !out.status.success() || said.lines().last() != Some(&expected) {
            other.push(format!("{scene}: {expected}\n{said}{}", String::from_utf8_lossy(&out.stderr)));
        }
    }
    assert!(other.is_empty(), "docs/{page} shows another last line than the program:\n{}", other.join("\n"));
}

/// The scenes of a page, with the last line of their outputs.
fn outputs(page: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let page = fs::read_to_string(path).expect("the page is missing");
    let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once(COMMAND));
    let outputs: Vec<_> = blocks
        .map(|(_, output)| {
            let lines: Vec<_> = output.trim_end().lines().collect();
            (lines[0].trim().to_owned(), lines[lines.len() - 1].to_owned())
        })
        .collect();
    assert!(!outputs.is_empty(), "the page has no output");
    outputs
}

fn run(scene: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bandog-why")).arg(scene).output().expect("the program does not start")
}

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}
