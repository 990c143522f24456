//! The page in a real browser.

use std::env;

use crate::fault::Fault;
use crate::step;
use crate::tools::{self, CHROMIUM, REDIS};

/// Where the docs have their pictures.
const PICTURES: &str = "docs/pictures";

/// The tests that need a browser; they are left out of `cargo test`, since few machines have one.
pub(crate) fn run(pictures: bool, args: &[String]) -> Result<(), Fault> {
    // A browser that has a name of its own need not be found.
    let named = env::var_os("BANDOG_CHROMIUM").is_some();
    tools::require(if named { &[REDIS] } else { &[REDIS, CHROMIUM] })?;
    let mut tests = step::cargo(&["test", "--locked", "--package", "bandog-cli", "--test", "page"]);
    tests.arg("--").args(args);
    if pictures {
        let root = env::current_dir().map_err(|error| Fault::failed(format!("cannot tell where this is: {error}")))?;
        tests.env("BANDOG_PICTURES", root.join(PICTURES));
    }
    step::run("the page in a browser", &mut tests)
}
