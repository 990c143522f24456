//! One step of a task: a headline and a program.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::fault::Fault;

/// Enters the root of the workspace, because every path in a task is relative to it.
pub(crate) fn enter_root() -> Result<(), Fault> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    env::set_current_dir(&root).map_err(|error| Fault::failed(format!("cannot enter {}: {error}", root.display())))
}

/// Prints on standard error which step begins, as cargo does.
pub(crate) fn headline(what: &str) {
    eprintln!("==> {what}");
}

/// The cargo that started this program, so that each step uses the same toolchain.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command.envs(settings());
    forget_package(&mut command);
    command
}

/// Takes the variables about the package of this program, which cargo has set when it started it, from the environment of
/// a cargo. Build scripts that read them, such as that of `ring`, would run again, and all that depends on them would be
/// built again.
pub(crate) fn forget_package(command: &mut Command) {
    let is_about_package = |name: &OsString| {
        name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
    };
    env::vars_os().map(|(name, _)| name).filter(is_about_package).for_each(|name| {
        command.env_remove(name);
    });
}

/// The environment of each cargo of a task, unless the user has set these variables: no incremental builds and no debug
/// information. A task builds much and changes little of it afterwards, so both would cost time and make `target` three
/// times as big. A failed test names its file and its line without them.
pub(crate) fn settings() -> impl Iterator<Item = (&'static str, OsString)> {
    let names = ["CARGO_INCREMENTAL", "CARGO_PROFILE_DEV_DEBUG"];
    names.into_iter().map(|name| (name, env::var_os(name).unwrap_or_else(|| "0".into())))
}

/// The same cargo in the workspace of the long proofs.
pub(crate) fn proof(subcommand: &str, args: &[&str]) -> Command {
    let mut command = cargo(&[subcommand, "--locked", "--manifest-path", "proof/Cargo.toml"]);
    command.args(args);
    command
}

/// Runs one step. Its output is not redirected.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<(), Fault> {
    headline(what);
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(Fault::failed(format!("failed: {what} ({status})"))) }
}

/// Runs one step. Its output goes to standard error, because the standard output of the task is its result.
pub(crate) fn run_aside(what: &str, command: &mut Command) -> Result<(), Fault> {
    run(what, command.stdout(std::io::stderr()))
}

/// The standard output of a program, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String, Fault> {
    let ended = command.output().map_err(|error| cannot_start(command, &error))?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let program = command.get_program().display();
    let why = String::from_utf8_lossy(&ended.stderr);
    Err(Fault::failed(format!("{program} failed ({}): {}", ended.status, why.trim())))
}

/// Runs one step, prints each line of its standard output and passes it to `see`. Returns whether the step succeeded.
pub(crate) fn watch(what: &str, command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool, Fault> {
    read(what, command, |line| {
        println!("{line}");
        see(line);
    })
}

/// Runs one step, and passes each line of its standard output to `see`. Returns whether the step succeeded.
pub(crate) fn read(what: &str, command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool, Fault> {
    headline(what);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(command, &error))?;
    let stdout = child.stdout.take().into_iter();
    // The bytes are split at newlines, because a test can print text that is not UTF-8.
    for line in stdout.flat_map(|pipe| BufReader::new(pipe).split(b'\n')).map_while(Result::ok) {
        see(&String::from_utf8_lossy(&line));
    }
    let status = child.wait().map_err(|error| cannot_start(command, &error))?;
    Ok(status.success())
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Fault {
    Fault::unavailable(format!("cannot run {}: {error}", command.get_program().display()))
}
