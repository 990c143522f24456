//! Whether a program can be run, before it is.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs,
    os::unix::ffi::OsStrExt,
    path::Path,
};

use rustix::fs::{Access, access};

/// Where a program is looked for if there is no PATH, as by the C library.
const PATHS: &str = "/bin:/usr/bin";

/// Why a program cannot be run. It is as sure as a look beforehand can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    NotFound,
    NotExecutable,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such command",
            Self::NotExecutable => "the command is not executable",
        })
    }
}

/// Looks whether a command is there that has these variables besides bandog's own.
pub(super) fn check(command: &[OsString], env: &[(String, String)]) -> Result<(), Missing> {
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
    command.first().map_or(Err(Missing::NotFound), |program| find(program, path))
}

/// Looks for a program as `execvp` will, in this PATH or else bandog's own.
fn find(program: &OsStr, path: Option<&str>) -> Result<(), Missing> {
    if program.as_bytes().contains(&b'/') {
        return look(Path::new(program));
    }
    let path = path.map(OsString::from).or_else(|| env::var_os("PATH")).unwrap_or_else(|| PATHS.into());
    let looks = env::split_paths(&path).map(|directory| look(&directory.join(program)));
    // A file that may not be run is passed over, and told if there is no other.
    looks
        .reduce(|best, next| if best.is_ok() || next == Err(Missing::NotFound) { best } else { next })
        .unwrap_or(Err(Missing::NotFound))
}

fn look(path: &Path) -> Result<(), Missing> {
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
