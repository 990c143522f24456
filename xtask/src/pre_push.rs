//! The checks before a push: `cargo xtask pre-push`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::check;
use crate::fault::Fault;
use crate::step;
use crate::test;

/// The hook that `--install` writes.
const HOOK: &str = "#!/bin/sh\n# Written by `cargo xtask pre-push --install`.\nexec cargo xtask pre-push </dev/null\n";

/// The branch with which the changes are compared if the present branch follows no other one.
const MAIN: &str = "origin/main";

/// Checks the formatting and the rules of the project, and runs the tests that the changes since the branch upstream can
/// affect. With `install`, makes git do so before each push, and checks nothing now.
pub(crate) fn run(install: bool) -> Result<(), Fault> {
    if install {
        return write_hook();
    }
    check::formatting()?;
    step::run("the rules of the project", &mut step::cargo(&["test", "--quiet", "--locked", "--package", "xtask"]))?;
    let upstream = step::output(Command::new("git").args(["rev-parse", "--abbrev-ref", "@{upstream}"]));
    test::since(Some(upstream.as_deref().map_or(MAIN, str::trim)), false, false)
}

fn write_hook() -> Result<(), Fault> {
    let hooks = step::output(Command::new("git").args(["rev-parse", "--git-path", "hooks"]))?;
    let hook = PathBuf::from(hooks.trim()).join("pre-push");
    match fs::read_to_string(&hook) {
        Ok(text) if text != HOOK => {
            return Err(Fault::failed(format!("{} is another hook; add this to it: {HOOK}", hook.display())));
        }
        Ok(_) | Err(_) => {}
    }
    let cannot = |error| Fault::failed(format!("cannot write {}: {error}", hook.display()));
    hook.parent().map_or(Ok(()), fs::create_dir_all).map_err(cannot)?;
    fs::write(&hook, HOOK).map_err(cannot)?;
    fs::set_permissions(&hook, Permissions::from_mode(0o755)).map_err(cannot)?;
    println!("{}; `git push --no-verify` leaves it out", hook.display());
    Ok(())
}
