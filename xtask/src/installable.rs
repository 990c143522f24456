//! The command as it is installed: the program, its manual pages and its completions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fault::Fault;
use crate::step;
use crate::workspace::{COMMAND, Workspace};

/// The directory of the generated files. `[package.metadata.deb]` of the command names it.
const GENERATED: &str = "target/xtask/command";
/// The shells, and the file of each one's completions.
const SHELLS: [(&str, &str); 3] = [("bash", "bandog"), ("fish", "bandog.fish"), ("zsh", "_bandog")];

/// The program, and the directories of the files that it has generated.
#[derive(Debug)]
pub(crate) struct Installable {
    pub(crate) program: PathBuf,
    pub(crate) man: PathBuf,
    pub(crate) completions: PathBuf,
}

/// The profile of packages.
pub(crate) const PROFILE: &str = "dist";

/// Builds the command with [`PROFILE`], and lets it generate its manual pages and completions.
pub(crate) fn build() -> Result<Installable, Fault> {
    let build = ["build", "--locked", "--profile", PROFILE, "--package", COMMAND];
    step::run_aside(&format!("the command, with the profile `{PROFILE}`"), &mut step::cargo(&build))?;
    let program = Workspace::read()?.target().join(PROFILE).join("bandog");
    let [man, completions] = ["man", "completions"].map(|name| Path::new(GENERATED).join(name));
    for folder in [&man, &completions] {
        empty(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    step::run_aside("manual pages", Command::new(&program).args(["man", "--dir"]).arg(&man))?;
    for (shell, file) in SHELLS {
        let script = step::output(Command::new(&program).args(["completions", shell]))?;
        let path = completions.join(file);
        fs::write(&path, script).map_err(|error| cannot_write(&path, &error))?;
    }
    Ok(Installable { program, man, completions })
}

/// The size of a file, such as `15.9 MB`.
pub(crate) fn size(path: &Path) -> Result<String, Fault> {
    let bytes = fs::metadata(path).map_err(|error| Fault::failed(format!("no {}: {error}", path.display())))?.len();
    Ok(format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000))
}

/// The time of the present commit, in seconds since 1970: the same sources give the same archives.
pub(crate) fn time_of_commit() -> Result<String, Fault> {
    let time = step::output(Command::new("git").args(["log", "-1", "--format=%ct"]))?;
    Ok(time.trim().to_owned())
}

/// Creates an empty directory in place of an earlier one.
pub(crate) fn empty(folder: &Path) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)
}

pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Fault {
    Fault::failed(format!("cannot write {}: {error}", path.display()))
}
