//! Further servers for the tests of the backends: other versions of Redis, Valkey, MySQL and PostgreSQL.

use std::env;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fault::Fault;
use crate::step;

/// The environment variable with the paths of further servers, separated by colons.
pub(crate) const SERVERS: &str = "BANDOG_TEST_SERVERS";
/// The environment variable that names the server program of Redis for the testkit.
const SERVER: &str = "BANDOG_TEST_SERVER";
/// The environment variable that names the server program of MySQL for the testkit.
const MYSQL_SERVER: &str = "BANDOG_TEST_MYSQLD";
/// The directory of the programs that were copied out of container images.
const IMAGES: &str = "target/xtask/images";

/// Tests that do not run on MySQL, with the reason.
const NOT_ON_MYSQL: &[(&str, &str)] = &[
    ("held::advisory::name_case_sensitive", "GET_LOCK of MySQL does not distinguish upper and lower case"),
    ("held::advisory::name_roundtrip", "GET_LOCK of MySQL does not distinguish upper and lower case"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Redis,
    MySql,
    Postgres,
}

/// A server program.
#[derive(Debug)]
pub(crate) struct Server {
    path: PathBuf,
    version: String,
    kind: Kind,
}

/// A call of the tests of a server.
#[derive(Debug)]
pub(crate) struct Tests {
    pub(crate) what: String,
    pub(crate) command: Command,
    /// The tests that cannot run on the server, with the reason.
    pub(crate) left_out: Vec<String>,
}

/// The servers that `BANDOG_TEST_SERVERS` names.
pub(crate) fn named() -> Result<Vec<Server>, Fault> {
    let paths = env::var_os(SERVERS).unwrap_or_default();
    env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).map(Server::at).collect()
}

/// The server of a container image of Redis or Valkey. Its program is copied to this machine, because the tests start it
/// with their own arguments, and send signals to it.
pub(crate) fn of_image(image: &str) -> Result<Server, Fault> {
    let name = if image.contains("valkey") { "valkey-server" } else { "redis-server" };
    let folder = Path::new(IMAGES).join(image.replace(['/', ':'], "-"));
    let path = env::current_dir().map(|here| here.join(&folder).join(name));
    let path = path.and_then(|path| fs::create_dir_all(&folder).map(|()| path));
    let path = path.map_err(|error| Fault::failed(format!("cannot create {}: {error}", folder.display())))?;
    step::headline(&format!("the server of the image {image}"));
    let container = step::output(Command::new("docker").args(["create", image]))?;
    let container = container.trim();
    let program = format!("{container}:/usr/local/bin/{name}");
    let copied = step::output(Command::new("docker").args(["cp", &program]).arg(&path));
    step::output(Command::new("docker").args(["rm", container]))?;
    copied?;
    Server::at(path)
}

/// The name and version of the `redis-server` in `PATH`.
pub(crate) fn default_version() -> Result<String, Fault> {
    version(Path::new("redis-server"))
}

impl Server {
    fn at(path: PathBuf) -> Result<Self, Fault> {
        let version = version(&path)?;
        Ok(Self { kind: kind(&version)?, path, version })
    }

    /// The tests of the server's backend, including its laws.
    pub(crate) fn tests(&self) -> Result<Tests, Fault> {
        let (path, version) = (&self.path, &self.version);
        let mut command = step::cargo(&["test", "--locked", "--no-fail-fast"]);
        let mut left_out = Vec::new();
        let backend = match self.kind {
            Kind::Redis => {
                command.args(["-p", "bandog-redis", "--tests"]).env(SERVER, path);
                if !speaks_tls(path)? {
                    left_out.push(format!("not run on {version}: the tests of TLS, because it was built without TLS"));
                    command.args(["--", "--skip", "tls::"]);
                }
                "the Redis backend"
            }
            Kind::MySql => {
                command.args(["-p", "bandog-sql", "--features", "mysql", "--test", "it", "--test", "mysql_laws"]);
                command.args(["--", "mysql::"]).env(MYSQL_SERVER, path);
                for (tests, why) in NOT_ON_MYSQL {
                    command.args(["--skip", tests]);
                    left_out.push(format!("not run on {version}: {tests}, because {why}"));
                }
                "MySQL"
            }
            Kind::Postgres => {
                // The testkit takes the programs of the server from the first directory of `PATH` that has them.
                let folder = path.parent().map(Path::to_owned).into_iter();
                let all = env::var_os("PATH").unwrap_or_default();
                let all = env::join_paths(folder.chain(env::split_paths(&all)));
                let all = all.map_err(|error| Fault::failed(format!("{}: {error}", path.display())))?;
                command.args(["-p", "bandog-sql", "--tests"]).env("PATH", all);
                "PostgreSQL"
            }
        };
        let what = format!("the tests of {backend}, on {version} ({})", path.display());
        Ok(Tests { what, command, left_out })
    }
}

/// The name and version of a server, such as `Redis server v=7.0.15` or `mysqld Ver 9.7.4`.
fn version(server: &Path) -> Result<String, Fault> {
    let cannot = |why: &dyn Display| Fault::unavailable(format!("cannot run {}: {why}", server.display()));
    let out = Command::new(server).arg("--version").output().map_err(|error| cannot(&error))?;
    let said = String::from_utf8_lossy(&out.stdout);
    let words: Vec<&str> = said.split_whitespace().take(3).collect();
    let Some((program, rest)) = words.split_first() else { return Err(cannot(&"it prints no version")) };
    // MySQL and MariaDB print the path of their program.
    let name = Path::new(program).file_name().map_or(*program, |name| name.to_str().unwrap_or(program));
    Ok([&[name], rest].concat().join(" "))
}

/// The kind of a server of this version.
///
/// # Errors
/// It is one of MariaDB, for which the testkit prepares the directory with other programs of the same version.
fn kind(version: &str) -> Result<Kind, Fault> {
    if ["mariadbd", "MariaDB"].iter().any(|name| version.contains(name)) {
        return Err(Fault::failed(format!("{SERVERS} has {version}; the tests cannot run on a further MariaDB")));
    }
    Ok(match version {
        _ if version.contains("mysqld") => Kind::MySql,
        _ if version.contains("PostgreSQL") => Kind::Postgres,
        _ => Kind::Redis,
    })
}

/// Whether a server was built with TLS. The server is started with a setting of TLS and without a certificate, and
/// always exits with an error. If the server was built with TLS, the error is about the certificate. Otherwise the
/// setting is unknown.
fn speaks_tls(server: &Path) -> Result<bool, Fault> {
    let out = Command::new(server).args(["--port", "0", "--tls-port", "1"]).output();
    let out = out.map_err(|error| Fault::unavailable(format!("cannot run {}: {error}", server.display())))?;
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    Ok(!["tls-port", "finding TLS support"].iter().any(|words| said.contains(words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_server_is_in_its_version() {
        assert_eq!(kind("Redis server v=7.0.15").unwrap(), Kind::Redis);
        assert_eq!(kind("Valkey server v=8.1.1").unwrap(), Kind::Redis);
        assert_eq!(kind("mysqld Ver 9.7.4").unwrap(), Kind::MySql);
        assert_eq!(kind("postgres (PostgreSQL) 15.14").unwrap(), Kind::Postgres);
        assert!(kind("mariadbd Ver 10.11.14-MariaDB").is_err());
    }
}
