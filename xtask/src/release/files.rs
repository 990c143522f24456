//! The files of a release: an archive with the command, the Debian package, and the checksums of all files.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::deb;
use crate::fault::Fault;
use crate::installable::{self, cannot_write, empty, size};
use crate::step;
use crate::workspace::Workspace;

use super::checks::Outcome;

/// The directory of the files.
pub(super) const FOLDER: &str = "target/release-dry-run";
/// The bill of materials.
pub(super) const SBOM: &str = "sbom.json";
const SUMS: &str = "SHA256SUMS";
/// Where the content of the archive is collected.
const STAGE: &str = "target/xtask/archive";
/// Files of the repository that the archive has.
const ALSO: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Builds the command, and packs it with its manual pages, completions, units and licences.
pub(super) fn archive() -> Outcome {
    let command = installable::build()?;
    let version = Workspace::read()?.command()?.version().to_owned();
    let name = format!("bandog-{version}-{}", target()?);
    let stage = Path::new(STAGE);
    let folder = stage.join(&name);
    empty(stage).map_err(|error| cannot_write(stage, &error))?;
    let man = folder.join("man");
    fs::create_dir_all(&man).map_err(|error| cannot_write(&man, &error))?;
    let mut copy = Command::new("cp");
    copy.arg("-r")
        .arg(&command.program)
        .arg(&command.completions)
        .args(ALSO)
        .args(["deploy/systemd", "deploy/jobs.toml"]);
    step::run_aside("the files of the archive", copy.arg(&folder))?;
    step::run_aside("manual pages", Command::new("cp").arg("-r").arg(&command.man).arg(man.join("man1")))?;
    let packed = Path::new(FOLDER).join(format!("{name}.tar.gz"));
    fs::create_dir_all(FOLDER).map_err(|error| cannot_write(Path::new(FOLDER), &error))?;
    // The same files give the same archive.
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX", "--format=gnu"]);
    tar.arg(format!("--mtime=@{}", installable::time_of_commit()?)).args(["--use-compress-program", "gzip -n -9"]);
    step::run_aside("the archive", tar.arg("-cf").arg(&packed).arg("-C").arg(stage).arg(&name))?;
    Ok(format!("{name}.tar.gz, {}; the program {}", size(&packed)?, size(&command.program)?))
}

/// Builds the Debian package, installs it below a directory of its own, and removes it there.
pub(super) fn debian() -> Outcome {
    let (package, _) = deb::build()?;
    deb::install_and_remove(&package)?;
    let name = package.file_name().unwrap_or_default();
    let copy = Path::new(FOLDER).join(name);
    let copied = fs::create_dir_all(FOLDER).and_then(|()| fs::copy(&package, &copy));
    copied.map_err(|error| cannot_write(&copy, &error))?;
    Ok(format!("{}, {}", name.display(), size(&copy)?))
}

/// Writes the checksums of all files.
pub(super) fn checksums() -> Outcome {
    let folder = Path::new(FOLDER);
    let unreadable = |error| Fault::failed(format!("cannot read {FOLDER}: {error}"));
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        names.push(entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| name != SUMS);
    names.sort();
    let lacks = [".tar.gz", ".deb", SBOM].iter().find(|end| !names.iter().any(|name| name.ends_with(**end)));
    if let Some(end) = lacks {
        return Err(Fault::failed(format!("{FOLDER} has no {end}: an earlier step has failed, or was left out")));
    }
    let sums = step::output(Command::new("sha256sum").args(&names).current_dir(folder))?;
    fs::write(folder.join(SUMS), sums).map_err(|error| cannot_write(&folder.join(SUMS), &error))?;
    step::run_aside("checksums", Command::new("sha256sum").args(["--check", SUMS]).current_dir(folder))?;
    Ok(format!("{} files in {FOLDER}", names.len()))
}

/// The target of the build: that of the compiler.
pub(super) fn target() -> Result<String, Fault> {
    let version = step::output(&mut step::cargo(&["--version", "--verbose"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Fault::failed("cargo --version --verbose prints no host"))
}
