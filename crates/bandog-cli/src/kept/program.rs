//! Checks whether a program can be run.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

/// Search path if PATH is not set, as in the C library.
const PATHS: &str = "/bin:/usr/bin";

/// The reason why a program cannot be run, with the path that is wrong. The file can still change before the program is
/// started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    NotFound(OsString),
    NotExecutable(OsString),
    NoDirectory(PathBuf),
    /// The user lacks the right to enter the directory.
    ClosedDirectory(PathBuf),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(program) => write!(f, "no such command: {program:?}"),
            Self::NotExecutable(program) => write!(f, "the command is not executable: {program:?}"),
            Self::NoDirectory(directory) => write!(f, "no such directory: {directory:?}"),
            Self::ClosedDirectory(directory) => write!(f, "the directory cannot be entered: {directory:?}"),
        }
    }
}

/// Checks whether the program of a command exists. If `env` contains a PATH, the program is searched in the directories
/// of this PATH. `directory`: the working directory of the command, if it is not that of bandog.
pub(crate) fn check(command: &[OsString], env: &[(String, String)], directory: Option<&Path>) -> Result<(), Missing> {
    directory.map_or(Ok(()), enter)?;
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    let fault = match directory {
        Some(directory) if program.as_bytes().contains(&b'/') => check_file(&directory.join(program)),
        Some(_) | None => find(program, path),
    };
    fault.map_err(|fault| match fault {
        Fault::NotFound => Missing::NotFound(program.to_owned()),
        Fault::NotExecutable => Missing::NotExecutable(program.to_owned()),
    })
}

/// Checks whether a command can be started in this directory.
pub(crate) fn enter(directory: &Path) -> Result<(), Missing> {
    if !directory.is_dir() {
        return Err(Missing::NoDirectory(directory.to_owned()));
    }
    access(directory, Access::EXEC_OK).map_err(|_| Missing::ClosedDirectory(directory.to_owned()))
}

/// The reason why the file of a program cannot be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    NotFound,
    NotExecutable,
}

/// Checks whether a program exists, and searches for it as `execvp` does. The search path is `path`. If `path` is none,
/// the search path is bandog's own PATH.
fn find(program: &OsStr, path: Option<&str>) -> Result<(), Fault> {
    if program.as_bytes().contains(&b'/') {
        return check_file(Path::new(program));
    }
    let path = path.map(OsString::from).or_else(|| env::var_os("PATH")).unwrap_or_else(|| PATHS.into());
    let checks = env::split_paths(&path).map(|directory| check_file(&directory.join(program)));
    // A file that is not executable is skipped. It is reported only if no directory has an executable file of this
    // name.
    checks
        .reduce(|best, next| if best.is_ok() || next == Err(Fault::NotFound) { best } else { next })
        .unwrap_or(Err(Fault::NotFound))
}

fn check_file(path: &Path) -> Result<(), Fault> {
    if !fs::exists(path).unwrap_or(false) {
        return Err(Fault::NotFound);
    }
    match path.is_file() && access(path, Access::EXEC_OK).is_ok() {
        true => Ok(()),
        false => Err(Fault::NotExecutable),
    }
}

#[cfg(test)]
mod tests;
