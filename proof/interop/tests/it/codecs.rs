//! The files with the bytes of Redisson's codecs, with which the tests of `bandog-codec` compare: Redisson writes them.
//!
//! To write the files again: `BANDOG_WRITE_GOLDEN=1 cargo xtask interop codecs`, with Java 17.

use std::{fs, str};

use bandog_testkit::RedisServer;

use crate::neighbour::java;

/// The environment variable that lets the test write the files.
const WRITE: &str = "BANDOG_WRITE_GOLDEN";
/// The first line of each file.
const HEAD: &str = "# What Redisson 4.7.0 writes; see proof/interop/tests/it/codecs.rs.\n";
const NAMES: [&str; 7] = ["hash", "kryo5", "number", "pack", "tagged-json", "text", "typed-json"];

#[test]
fn redisson_writes_the_bytes_of_the_codecs() {
    let server = RedisServer::start();
    for name in NAMES {
        let mut java = java("codecs-4.7.0", "bandog.codecs.Main");
        let output = java.args([name, &server.url()]).output().expect("start java");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let written = HEAD.to_owned() + str::from_utf8(&output.stdout).expect("the output is UTF-8");
        let path = format!("{}/golden/codec-{name}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, &written).expect("write the file");
        }
        let file = fs::read_to_string(&path).expect("read the file");
        for (number, (written, file)) in written.lines().zip(file.lines()).enumerate() {
            assert_eq!(written, file, "{path}:{}", number + 1);
        }
        assert_eq!(written.lines().count(), file.lines().count(), "{path}");
    }
}
