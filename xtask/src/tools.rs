//! The programs that tasks need, and their installation.

use std::fs::{self, File};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::fault::Fault;
use crate::step;

/// The possible names of a program, or its path, and the Debian package that contains it.
#[derive(Debug)]
pub(crate) struct Tool {
    programs: &'static [&'static str],
    package: &'static str,
}

pub(crate) const REDIS: Tool = Tool { programs: &["redis-server"], package: "redis-server" };
/// The package contains the client program, too.
pub(crate) const MARIADB: Tool = Tool { programs: &["mariadbd"], package: "mariadb-server" };
pub(crate) const POSTGRES: Tool = Tool { programs: &["postgres"], package: "postgresql" };
pub(crate) const PGBOUNCER: Tool = Tool { programs: &["pgbouncer", "/usr/sbin/pgbouncer"], package: "pgbouncer" };
/// A jar. The package installs no program that can be found.
pub(crate) const ZOOKEEPER: Tool = Tool { programs: &["/usr/share/java/zookeeper.jar"], package: "zookeeper" };
/// The runtime of ZooKeeper.
pub(crate) const JAVA: Tool = Tool { programs: &["java"], package: "default-jre-headless" };
/// The servers of all backends.
pub(crate) const ALL_SERVERS: &[Tool] = &[REDIS, POSTGRES, PGBOUNCER, MARIADB, JAVA, ZOOKEEPER];
/// `javac`, because many machines have a `java` and no compiler.
pub(crate) const JDK: Tool = Tool { programs: &["javac"], package: "default-jdk-headless" };
pub(crate) const NODE: Tool = Tool { programs: &["node", "npm"], package: "npm" };
pub(crate) const MAVEN: Tool = Tool { programs: &["mvn"], package: "maven" };
/// The same names as in `crates/bandog-cli/tests/page/browser.rs`.
pub(crate) const CHROMIUM: Tool = Tool {
    programs: &["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"],
    package: "chromium-headless-shell",
};

/// `dpkg-deb` is part of it.
pub(crate) const DPKG: Tool = Tool { programs: &["dpkg"], package: "dpkg" };
/// The program that finds the packages with the libraries of a program.
pub(crate) const DPKG_DEV: Tool = Tool { programs: &["dpkg-shlibdeps"], package: "dpkg-dev" };

/// The output of apt-get, which is printed only if apt-get fails.
const LOG: &str = "target/xtask/apt.log";

/// Installs missing tools if this is allowed. Otherwise returns an error that names the packages to install.
pub(crate) fn ensure(tools: &[Tool]) -> Result<(), Fault> {
    let missing = missing_packages(tools);
    if missing.is_empty() {
        return Ok(());
    }
    let Some(how) = permission(&missing) else {
        return Err(please_install(&missing));
    };
    install(how, &missing)?;
    match missing_packages(tools) {
        still if still.is_empty() => Ok(()),
        still => Err(Fault::unavailable(format!("still missing after the installation: {}", still.join(" ")))),
    }
}

/// Returns an error if a tool is missing. Installs nothing, because few machines need these tools.
pub(crate) fn require(tools: &[Tool]) -> Result<(), Fault> {
    let missing = missing_packages(tools);
    if missing.is_empty() { Ok(()) } else { Err(please_install(&missing)) }
}

/// Adds a component of the toolchain, such as `rustfmt`, if it is missing.
pub(crate) fn ensure_component(subcommand: &str, component: &str) -> Result<(), Fault> {
    let mut probe = step::cargo(&[subcommand, "--version"]);
    let found = probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if found {
        return Ok(());
    }
    step::run(
        &format!("adding {component} to the toolchain"),
        Command::new("rustup").args(["component", "add", component]),
    )
}

fn please_install(packages: &[&str]) -> Fault {
    Fault::unavailable(format!("missing; please install: apt-get install {}", packages.join(" ")))
}

/// The packages of the tools that are missing.
pub(crate) fn missing_packages(tools: &[Tool]) -> Vec<&'static str> {
    let missing = tools.iter().filter(|tool| !tool.programs.iter().any(|program| is_installed(program)));
    missing.map(|tool| tool.package).collect()
}

/// The name of the installed program of a tool. None: it is missing.
pub(crate) fn program(tool: &Tool) -> Option<&'static str> {
    tool.programs.iter().copied().find(|program| is_installed(program))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian installs the server programs of PostgreSQL in a directory that is not in `PATH`.
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = versions.map(|version| version.path().join("bin"));
    // The server program of MariaDB is in a directory that is not in the `PATH` of every user.
    let mut dirs = std::env::split_paths(&path).chain(versions).chain(["/usr/sbin".into()]);
    dirs.any(|dir| dir.join(program).is_file())
}

/// The way to get the rights for an installation.
#[derive(Clone, Copy, Debug)]
enum How {
    Root,
    Sudo,
}

fn permission(packages: &[&str]) -> Option<How> {
    if !is_installed("apt-get") {
        return None;
    }
    if is_root() {
        return Some(How::Root);
    }
    let agreed = is_installed("sudo") && (std::env::var("CI").is_ok_and(|ci| ci == "true") || asked(packages));
    agreed.then_some(How::Sudo)
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|us| us.uid() == 0)
}

/// Asks the user. The question mentions that Debian might start a server that it installs.
fn asked(packages: &[&str]) -> bool {
    if !std::io::stdin().is_terminal() {
        return false;
    }
    eprint!(
        "The tests need {}. Install with sudo apt-get (which might also start it as a service)? [y/N] ",
        packages.join(" ")
    );
    let mut answer = String::new();
    let _ = std::io::stderr().flush();
    std::io::stdin().read_line(&mut answer).is_ok() && answer.trim().eq_ignore_ascii_case("y")
}

fn install(how: How, packages: &[&str]) -> Result<(), Fault> {
    step::headline(&format!("installing {}", packages.join(" ")));
    let log = open_log().map_err(|error| Fault::failed(format!("cannot write {LOG}: {error}")))?;
    // A failed update is ignored, because old package lists are often sufficient.
    let _ = apt(how, &["update"], &log);
    let install = ["install", "--yes", "--no-install-recommends"];
    if apt(how, &[&install[..], packages].concat(), &log) {
        return Ok(());
    }
    eprintln!("{}", fs::read_to_string(LOG).unwrap_or_default());
    Err(Fault::unavailable(format!("apt-get could not install {}; its log is above", packages.join(" "))))
}

fn open_log() -> std::io::Result<File> {
    Path::new(LOG).parent().map_or(Ok(()), fs::create_dir_all)?;
    File::create(LOG)
}

fn apt(how: How, args: &[&str], log: &File) -> bool {
    let mut command = match how {
        How::Root => Command::new("env"),
        How::Sudo => {
            let mut sudo = Command::new("sudo");
            // Without a terminal no password can be entered, so sudo must fail and not wait.
            sudo.args((!std::io::stdin().is_terminal()).then_some("-n")).arg("env");
            sudo
        }
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "Acquire::Retries=3"]).args(args);
    let (Ok(out), Ok(err)) = (log.try_clone(), log.try_clone()) else {
        return false;
    };
    let status = command.stdin(Stdio::null()).stdout(out).stderr(err).status();
    status.is_ok_and(|status| status.success())
}
