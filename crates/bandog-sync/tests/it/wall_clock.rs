//! Law 47, as far as a test can check it without moving the machine's clock: no client over memory or Redis reads the
//! wall clock, except to report to operators when a client started and how the server's clock differs. (SQLite's fences
//! read it; SQLite's own tests use a clock that jumps.)

use std::{fs, path::Path};

/// Files that decide nothing about locks: reports for operators, records in memory, whose time is the store's, and the
/// clock itself, for those.
const NOT_FOR_LOCKS: [&str; 5] =
    ["core/src/clock.rs", "core/src/memory/records.rs", "/member.rs", "/check.rs", "/tests.rs"];

#[test]
fn no_client_reads_the_wall_clock() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in ["bandog-core", "bandog-sync", "bandog-redis"] {
        let files = sources(&crates.join(name).join("src"));
        assert!(!files.is_empty(), "{name} has no sources");
        for (path, text) in files {
            if NOT_FOR_LOCKS.iter().any(|file| path.ends_with(file)) {
                continue;
            }
            for word in ["SystemTime::now", ".wall()", "ClockId::Realtime"] {
                assert!(!text.contains(word), "{path} reads the wall clock: {word}");
            }
        }
    }
}

fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
    found
}
