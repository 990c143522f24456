//! Builds the program with redsync, if Go is installed.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

/// The folder of the program's sources.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

/// The program, which the first call builds. None if Go is not installed, or if its modules cannot be fetched. Then the
/// reason is printed.
pub(crate) fn program() -> Option<&'static Path> {
    static PROGRAM: LazyLock<Result<PathBuf, String>> = LazyLock::new(build);
    match &*PROGRAM {
        Ok(program) => Some(program),
        Err(reason) => {
            println!("not run: the test with redsync, because {reason}");
            None
        }
    }
}

fn build() -> Result<PathBuf, String> {
    let fetched = go(&["mod", "download"]).map_err(|_| "Go is not installed".to_owned())?;
    if !fetched.status.success() {
        return Err(format!("its modules cannot be fetched: {}", errors(&fetched)));
    }
    let program = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/redsync"));
    let built = go(&["build", "-o", program.to_str().expect("a path in UTF-8"), "."]).expect("Go is installed");
    assert!(built.status.success(), "redsync was not built: {}", errors(&built));
    Ok(program)
}

fn go(args: &[&str]) -> std::io::Result<Output> {
    Command::new("go").args(args).current_dir(SOURCES).output()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
