//! Law 47 says that a jump of the machine's clock does not affect locks. A test cannot move that clock. So this test
//! checks that the source code of the crates for memory and Redis does not read the wall clock. The exceptions only
//! report to operators, for example when a client started. (The fences of SQLite use the wall clock. SQLite's own tests
//! use a clock that jumps.)

use std::{fs, path::Path};

/// Files that are allowed to read the wall clock, because they decide nothing about locks. They contain reports for
/// operators, the records, the journals and the delays of work queues of the memory backend, the clock itself, and tests.
const NOT_FOR_LOCKS: [&str; 8] = [
    "core/src/clock.rs",
    "core/src/memory/records.rs",
    "core/src/memory/objects/journal.rs",
    "core/src/memory/queues.rs",
    "core/src/structures/cache_reports.rs",
    "/member.rs",
    "/check.rs",
    "/tests.rs",
];

// Promise: L19
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
