//! Tests the page in a real browser.

use std::env;

use crate::fault::Fault;
use crate::step;
use crate::tools::{self, CHROMIUM, REDIS};

/// The directory of the pictures for the docs.
const PICTURES: &str = "docs/pictures";

/// Runs the tests that need a browser. They are not part of `cargo test`, because few machines have one.
pub(crate) fn run(pictures: bool, args: &[String]) -> Result<(), Fault> {
    // If BANDOG_CHROMIUM names a browser, no browser has to be in PATH.
    let named = env::var_os("BANDOG_CHROMIUM").is_some();
    tools::require(if named { &[REDIS] } else { &[REDIS, CHROMIUM] })?;
    let mut tests = step::cargo(&["test", "--locked", "--package", "bandog-cli", "--test", "page"]);
    tests.arg("--").args(args);
    if pictures {
        let root =
            env::current_dir().map_err(|error| Fault::failed(format!("cannot read the current directory: {error}")))?;
        tests.env("BANDOG_PICTURES", root.join(PICTURES));
    }
    step::run("the page in a browser", &mut tests)
}
