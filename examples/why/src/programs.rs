//! The server programs that scenes start.

use std::path::{Path, PathBuf};
use std::{env, fs};

use bandog_testkit::ZooKeeperServer;

/// A server program.
#[derive(Clone, Copy)]
pub(crate) enum Program {
    Redis,
    Postgres,
    ZooKeeper,
}

impl Program {
    /// Checks that the program is installed.
    ///
    /// # Errors
    /// The message for the user, if it is missing.
    pub(crate) fn check(self) -> Result<(), String> {
        let (name, package, is_there) = match self {
            Self::Redis => ("redis-server", "redis-server", redis()),
            Self::Postgres => ("PostgreSQL", "postgresql", in_path("initdb") || below_versions("initdb")),
            Self::ZooKeeper => {
                let jar = Path::new(ZooKeeperServer::JAR).is_file();
                ("ZooKeeper", "zookeeper default-jre-headless", jar && in_path("java"))
            }
        };
        if is_there {
            return Ok(());
        }
        Err(format!("{name} is missing. On Debian and Ubuntu: apt-get install {package}"))
    }
}

/// The testkit starts the program that this variable names.
fn redis() -> bool {
    match env::var_os("BANDOG_TEST_SERVER") {
        Some(path) => PathBuf::from(path).is_file(),
        None => in_path("redis-server"),
    }
}

fn in_path(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Debian installs the programs of PostgreSQL in a folder for each version.
fn below_versions(name: &str) -> bool {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin").join(name)).any(|path| path.is_file())
}
