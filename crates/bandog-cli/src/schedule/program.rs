//! Checks whether a program can be run.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs,
    os::unix::ffi::OsStrExt,
    path::Path,
};

use rustix::fs::{Access, access};

/// Search path if PATH is not set, as in the C library.
const PATHS: &str = "/bin:/usr/bin";

/// The reason why a program cannot be run. The file can still change before the program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    NotFound,
    NotExecutable,
    NoDirectory,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such command",
            Self::NotExecutable => "the command is not executable",
            Self::NoDirectory => "no such directory",
        })
    }
}

/// Checks whether the program of a command exists. If `env` contains a PATH, the program is searched in the directories
/// of this PATH. `directory`: the working directory of the command, if it is not that of bandog.
pub(super) fn check(command: &[OsString], env: &[(String, String)], directory: Option<&Path>) -> Result<(), Missing> {
    if directory.is_some_and(|directory| !directory.is_dir()) {
        return Err(Missing::NoDirectory);
    }
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
    let program = command.first().ok_or(Missing::NotFound)?;
    match directory {
        Some(directory) if program.as_bytes().contains(&b'/') => check_file(&directory.join(program)),
        Some(_) | None => find(program, path),
    }
}

/// Checks whether a program exists, and searches for it as `execvp` does. The search path is `path`. If `path` is none,
/// the search path is bandog's own PATH.
fn find(program: &OsStr, path: Option<&str>) -> Result<(), Missing> {
    if program.as_bytes().contains(&b'/') {
        return check_file(Path::new(program));
    }
    let path = path.map(OsString::from).or_else(|| env::var_os("PATH")).unwrap_or_else(|| PATHS.into());
    let checks = env::split_paths(&path).map(|directory| check_file(&directory.join(program)));
    // A file that is not executable is skipped. It is reported only if no directory has an executable file of this
    // name.
    checks
        .reduce(|best, next| if best.is_ok() || next == Err(Missing::NotFound) { best } else { next })
        .unwrap_or(Err(Missing::NotFound))
}

fn check_file(path: &Path) -> Result<(), Missing> {
    if !fs::exists(path).unwrap_or(false) {
        return Err(Missing::NotFound);
    }
    match path.is_file() && access(path, Access::EXEC_OK).is_ok() {
        true => Ok(()),
        false => Err(Missing::NotExecutable),
    }
}

#[cfg(test)]
mod tests;
