//! The keys and messages of each kind after each step of a script, compared with the files in `proof/interop/golden`.
//!
//! The scripts do not depend on the language: a [`Side`] executes their steps. The files are written by Java alone, so
//! they show what Redisson does. bandog must give the same lines, except for the [`differences`].
//!
//! To write the files again: `BANDOG_WRITE_GOLDEN=1 cargo xtask interop golden`.

use std::{fs, path::PathBuf, slice, sync::Arc};

use bandog_testkit::RedisServer;

use dump::Recorder;
use neighbours::Neighbours;
use script::{Action, Caller, LockAction, NAME, Section, Side, Start, Step};

use crate::{neighbour::Program, objects::LockKind};

mod differences;
mod dump;
mod neighbours;
mod script;
mod scripts;

/// The environment variable that lets the tests write the files, and not compare with them.
const WRITE: &str = "BANDOG_WRITE_GOLDEN";

/// The first line of each file.
const HEAD: &str = "# Keys and messages of Redisson 4.7.0 after each step; see proof/interop/tests/it/golden.rs.\n\n";

#[test]
fn java_leaves_the_keys_and_messages_of_a_fair_lock() {
    check_java("fair", &scripts::fair());
}

#[test]
fn java_leaves_the_keys_and_messages_of_a_read_write_lock() {
    check_java("read-write", &scripts::read_write());
}

#[test]
fn java_leaves_the_keys_and_messages_of_a_leased_semaphore() {
    check_java("leased-semaphore", &scripts::leased());
}

#[test]
fn java_leaves_the_keys_and_messages_of_a_semaphore() {
    check_java("semaphore", &scripts::semaphore());
}

#[test]
fn java_leaves_the_keys_and_messages_of_a_latch() {
    check_java("latch", &scripts::latch());
}

// Promise: X5
#[test]
fn bandog_leaves_the_keys_and_messages_of_a_fair_lock() {
    check_bandog("fair", &scripts::fair());
}

// Promise: X5
#[test]
fn bandog_leaves_the_keys_and_messages_of_a_read_write_lock() {
    check_bandog("read-write", &scripts::read_write());
}

// Promise: X5
#[test]
fn bandog_leaves_the_keys_and_messages_of_a_leased_semaphore() {
    check_bandog("leased-semaphore", &scripts::leased());
}

#[test]
fn bandog_leaves_the_keys_and_messages_of_a_semaphore() {
    check_program(Program::BandogPlain, "semaphore", &scripts::semaphore());
}

// Promise: X5
#[test]
fn bandog_leaves_the_keys_and_messages_of_a_latch() {
    check_bandog("latch", &scripts::latch());
}

fn check_bandog(kind: &str, sections: &[Section]) {
    check_program(Program::Bandog, kind, sections);
}

/// Compares what bandog does with Java's file of a kind, after the [differences] of this kind. Each section has new
/// clients, so a hold that was lost in one section does not matter in the next one.
fn check_program(program: Program, kind: &str, sections: &[Section]) {
    let golden = fs::read_to_string(path(kind)).expect("read the golden file");
    let golden = differences::apply(kind, golden);
    for section in sections.iter().filter(|section| !differences::LEFT_OUT.contains(&section.name)) {
        let mut side = Neighbours::start(program);
        let server = Arc::clone(&side.server);
        compare(&golden, &play(&server, &mut side, slice::from_ref(section)));
    }
}

/// Compares what Java does with the file of a kind, or writes the file.
fn check_java(kind: &str, sections: &[Section]) {
    let mut side = Neighbours::start(Program::Redisson4);
    let server = Arc::clone(&side.server);
    let played = play(&server, &mut side, sections);
    if std::env::var_os(WRITE).is_some() {
        fs::write(path(kind), HEAD.to_owned() + &played.concat()).expect("write the golden file");
    }
    let written = fs::read_to_string(path(kind)).expect("read the golden file");
    compare(&written, &played);
    assert_eq!(written, HEAD.to_owned() + &played.concat(), "the file has other sections than the script");
}

/// Executes sections, each one on an empty server. Returns the text of each section.
fn play(server: &RedisServer, side: &mut impl Side, sections: &[Section]) -> Vec<String> {
    let clients = client_ids(server, side);
    sections.iter().map(|section| play_section(server, side, section, &clients)).collect()
}

/// Compares the text of each section with the section of the same name in the text of a file.
#[track_caller]
fn compare(golden: &str, played: &[String]) {
    for text in played {
        let name = text.lines().next().expect("the name of the section");
        let start = golden.find(&format!("{name}\n")).unwrap_or_else(|| panic!("the file has no section {name:?}"));
        let wanted = golden[start..].split_inclusive("\n\n").next().unwrap_or_default();
        assert!(text == wanted, "{name} differs; this side:\n{text}\nthe golden file:\n{wanted}");
    }
}

fn path(kind: &str) -> PathBuf {
    PathBuf::from(format!("{}/golden/{kind}.txt", env!("CARGO_MANIFEST_DIR")))
}

/// The id of each client, which is a part of the ids of its owners. Each client takes a plain lock to show its id.
fn client_ids(server: &RedisServer, side: &mut impl Side) -> Vec<(String, &'static str)> {
    let mut ids = Vec::new();
    for caller in ["A:0", "B:0", "C:0"].map(Caller) {
        for action in [LockAction::Lock, LockAction::Unlock] {
            side.begin(caller, &Action::Lock(LockKind::Plain, action));
            side.answer(caller);
            let owner = server.hash(NAME).into_keys().next();
            ids.extend(owner.map(|owner| (dump::client_of(&owner).to_owned(), caller.client())));
        }
    }
    ids
}

/// Executes the steps of a section. Returns a line for each step, and its messages and keys.
fn play_section(
    server: &RedisServer,
    side: &mut impl Side,
    section: &Section,
    clients: &[(String, &'static str)],
) -> String {
    server.cmd(&["FLUSHALL"]);
    let mut recorder = Recorder::start(server, clients);
    let mut text = format!("== {}\n", section.name);
    for step in &section.steps {
        text += &format!("{}\n", execute(side, step));
        for line in recorder.lines_after(&step.callers()) {
            text += &format!("    {line}\n");
        }
    }
    text + "\n"
}

/// Executes a step. Returns what was done, and the answers.
fn execute(side: &mut impl Side, step: &Step) -> String {
    let mut done = Vec::new();
    match &step.start {
        Some(Start::Answered { caller, action }) => {
            side.begin(*caller, action);
            done.push(format!("{caller} {action}: {}", side.answer(*caller)));
        }
        Some(Start::Waiting { caller, action }) => {
            side.begin(*caller, action);
            side.wait_until_blocked(*caller);
            done.push(format!("{caller} {action}: waits"));
        }
        None => {}
    }
    done.extend(step.ended.iter().map(|caller| format!("{caller} waited: {}", side.answer(*caller))));
    done.join("; ")
}
