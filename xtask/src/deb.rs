//! The Debian package of the command. `[package.metadata.deb]` in its manifest lists the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo_tools::DEB;
use crate::fault::Fault;
use crate::installable::{self, Installable};
use crate::step;
use crate::tools::{self, DPKG, DPKG_DEV};
use crate::workspace::COMMAND;

/// The directory of the package.
const FOLDER: &str = "target/xtask/deb";
/// The root directory in which `--try` installs the package.
const ROOT: &str = "target/xtask/deb-root";
/// The name of the package.
const NAME: &str = "bandog";

/// Files that the package must have.
const FILES: &[&str] = &[
    "usr/bin/bandog",
    "usr/lib/systemd/system/bandog-page.service",
    "usr/lib/systemd/system/bandog-schedule.service",
    "usr/lib/systemd/system/bandog-work@.service",
    "usr/lib/sysusers.d/bandog.conf",
    "usr/share/bash-completion/completions/bandog",
    "usr/share/doc/bandog/LICENSE-APACHE",
    "usr/share/doc/bandog/LICENSE-MIT",
    "usr/share/doc/bandog/README.md",
    "usr/share/doc/bandog/copyright",
    "usr/share/doc/bandog/examples/jobs.toml",
    "usr/share/fish/vendor_completions.d/bandog.fish",
    "usr/share/man/man1/bandog-lock.1.gz",
    "usr/share/man/man1/bandog.1.gz",
    "usr/share/zsh/vendor-completions/_bandog",
];

/// Builds the package and checks its files. With `attempt`, also installs and removes it.
pub(crate) fn run(attempt: bool) -> Result<(), Fault> {
    let (package, command) = build()?;
    if attempt {
        install_and_remove(&package)?;
    }
    println!("{}: {}", package.display(), installable::size(&package)?);
    println!("{}: {}", command.program.display(), installable::size(&command.program)?);
    Ok(())
}

/// Builds the package and checks its files.
pub(crate) fn build() -> Result<(PathBuf, Installable), Fault> {
    tools::ensure(&[DPKG, DPKG_DEV])?;
    let mut deb = DEB.command()?;
    let command = installable::build()?;
    let folder = Path::new(FOLDER);
    installable::empty(folder).map_err(|error| installable::cannot_write(folder, &error))?;
    // The profile has stripped the program.
    deb.args(["--no-build", "--no-strip", "--locked", "--profile", installable::PROFILE]);
    deb.args(["--package", COMMAND, "--output"]).arg(folder.join(""));
    deb.env("SOURCE_DATE_EPOCH", installable::time_of_commit()?);
    step::run_aside("the Debian package", &mut deb)?;
    let package = fs::read_dir(folder).ok().and_then(|mut entries| Some(entries.next()?.ok()?.path()));
    let package = package.ok_or_else(|| Fault::failed(format!("cargo deb has left no package in {FOLDER}")))?;
    check(&package)?;
    Ok((package, command))
}

/// Prints the control file and the list of files, and checks that none is missing.
fn check(package: &Path) -> Result<(), Fault> {
    step::run_aside("its control file", Command::new("dpkg-deb").arg("--info").arg(package))?;
    step::headline("its files");
    let list = step::output(Command::new("dpkg-deb").arg("--contents").arg(package))?;
    eprint!("{list}");
    let files: BTreeSet<_> = list.lines().filter_map(file).collect();
    let missing: Vec<_> = FILES.iter().filter(|file| !files.contains(**file)).collect();
    if missing.is_empty() { Ok(()) } else { Err(Fault::failed(format!("the package lacks {missing:?}"))) }
}

/// The files of the package, without its directories.
fn contents(package: &Path) -> Result<BTreeSet<String>, Fault> {
    let list = step::output(Command::new("dpkg-deb").arg("--contents").arg(package))?;
    Ok(list.lines().filter_map(file).map(str::to_owned).collect())
}

/// The path in a line of `dpkg-deb --contents`, if it is that of a file. Six columns come before it.
fn file(line: &str) -> Option<&str> {
    let path = line.split_whitespace().nth(5)?;
    path.strip_prefix("./").filter(|path| !path.is_empty() && !path.ends_with('/'))
}

/// Installs the package below a root directory of its own, runs the command from there, and removes the package.
///
/// The machine is not changed: also the list of packages and the log of dpkg are in that directory. The package has no
/// scripts, so nothing else is needed there. Dependencies are ignored, because no other package is installed there.
pub(crate) fn install_and_remove(package: &Path) -> Result<(), Fault> {
    let root = Path::new(ROOT);
    let database = root.join("var/lib/dpkg");
    installable::empty(root).map_err(|error| installable::cannot_write(root, &error))?;
    let created = ["info", "updates", "triggers"].iter().try_for_each(|name| fs::create_dir_all(database.join(name)));
    let created = created.and_then(|()| fs::write(database.join("status"), ""));
    created.map_err(|error| installable::cannot_write(&database, &error))?;
    step::run_aside("installing the package", dpkg(root).args(["--force-depends", "--install"]).arg(package))?;
    let absent: Vec<_> = contents(package)?.into_iter().filter(|file| !root.join(file).exists()).collect();
    if !absent.is_empty() {
        return Err(Fault::failed(format!("not installed: {absent:?}")));
    }
    let program = root.join("usr/bin/bandog");
    step::run_aside("the installed command", Command::new(&program).arg("--version"))?;
    let example = root.join("usr/share/doc/bandog/examples/jobs.toml");
    step::run_aside("the example of jobs", Command::new(&program).arg("schedule").arg(example).arg("--check"))?;
    let page = root.join("usr/share/man/man1/bandog.1.gz");
    let page = step::output(Command::new("gzip").args(["--decompress", "--stdout"]).arg(page))?;
    if !page.contains(".TH bandog 1") {
        return Err(Fault::failed("bandog.1.gz is no manual page"));
    }
    step::run_aside("removing the package", dpkg(root).args(["--purge", NAME]))?;
    let left = files_below(root).map_err(|error| Fault::failed(format!("cannot read {ROOT}: {error}")))?;
    let left: Vec<_> = left.into_iter().filter(|path| !path.starts_with(&database)).collect();
    if !left.is_empty() {
        return Err(Fault::failed(format!("not removed: {left:?}")));
    }
    fs::remove_dir_all(root).map_err(|error| installable::cannot_write(root, &error))
}

/// A call of dpkg for a root directory. It needs no rights of root.
fn dpkg(root: &Path) -> Command {
    let mut dpkg = Command::new("dpkg");
    // It needs ldconfig and start-stop-daemon, which are not in the `PATH` of every user.
    let path = std::env::var("PATH").unwrap_or_default();
    dpkg.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin")).env("LC_ALL", "C");
    dpkg.arg("--force-not-root").arg(format!("--root={}", root.display()));
    dpkg.arg(format!("--log={}", root.join("var/lib/dpkg/log").display()));
    dpkg
}

/// The files below a directory, and its empty directories.
fn files_below(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() && fs::read_dir(&path)?.next().is_some() {
            found.extend(files_below(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_a_list() {
        let list = "drwxr-xr-x 0/0   0 2026-01-02 03:04 ./usr/\n-rwxr-xr-x root/root 9 2026-01-02 03:04 ./usr/bin/a\n";
        assert_eq!(list.lines().filter_map(file).collect::<Vec<_>>(), ["usr/bin/a"]);
    }
}
