//! Programs that `cargo install` provides, and their installation below `target/xtask`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fault::Fault;
use crate::step;

/// A crate with one program of the same name.
#[derive(Debug)]
pub(crate) struct CargoTool {
    name: &'static str,
    /// The version that is installed if there is none.
    version: &'static str,
    /// Further arguments of `cargo install`.
    features: &'static [&'static str],
}

pub(crate) const MDBOOK: CargoTool =
    CargoTool { name: "mdbook", version: "0.5.4", features: &["--no-default-features", "--features", "search"] };
pub(crate) const CYCLONEDX: CargoTool = CargoTool { name: "cargo-cyclonedx", version: "0.5.9", features: &[] };
pub(crate) const DEB: CargoTool = CargoTool { name: "cargo-deb", version: "3.8.0", features: &[] };
pub(crate) const DENY: CargoTool = CargoTool { name: "cargo-deny", version: "0.20.2", features: &[] };
pub(crate) const SEMVER_CHECKS: CargoTool = CargoTool { name: "cargo-semver-checks", version: "0.51.0", features: &[] };

/// The directory of the installed tools: one below it for each.
const TOOLS: &str = "target/xtask";

/// Whether a task may install what is missing: `CI` is set.
pub(crate) fn may_install() -> bool {
    std::env::var_os("CI").is_some()
}

impl CargoTool {
    /// A call of the program, which is in `PATH` or in `target/xtask`. With CI=true it is installed if it is missing.
    pub(crate) fn command(&self) -> Result<Command, Fault> {
        let root = Path::new(TOOLS).join(self.name);
        let here = std::env::current_dir()
            .map_err(|error| Fault::failed(format!("cannot find the current folder: {error}")))?;
        let installed = here.join(&root).join("bin").join(self.name);
        let package = format!("{}@{}", self.name, self.version);
        for program in [PathBuf::from(self.name), installed.clone()] {
            let version =
                self.call(program.clone()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if version.is_ok_and(|status| status.success()) {
                return Ok(self.call(program));
            }
        }
        if !may_install() {
            return Err(Fault::unavailable(format!("missing; please install: cargo install --locked {package}")));
        }
        let mut install = step::cargo(&["install", "--locked", "--debug", "--root"]);
        install.arg(root).args(self.features).arg(package);
        step::run_aside(&format!("installing {}", self.name), &mut install)?;
        Ok(self.call(installed))
    }

    /// Cargo passes the name of a subcommand to its program.
    fn call(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        command.args(self.name.strip_prefix("cargo-"));
        command
    }
}
