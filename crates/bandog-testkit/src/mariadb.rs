//! A MariaDB or MySQL server for tests.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use crate::{SqlEngine, SqlServer};

/// Options of the server that keep it small. The tests kill the server and not the machine, so nothing must be written to
/// the disk.
const SMALL: [&str; 5] = [
    "--innodb-flush-method=nosync",
    "--loose-innodb-log-file-size=8M",
    "--innodb-buffer-pool-size=32M",
    "--skip-name-resolve",
    "--max-connections=400",
];

/// The environment variable with the path of another server program: a `mysqld` of MySQL.
const OTHER_SERVER: &str = "BANDOG_TEST_MYSQLD";

/// A `mariadbd`. Its settings are options of the program without dashes, such as `max-connections=20`.
///
/// If the environment variable `BANDOG_TEST_MYSQLD` names a server program of MySQL, it is used instead.
pub type MariaDbServer = SqlServer<MariaDb>;

/// MariaDB, or MySQL.
#[derive(Debug, Clone, Copy)]
pub struct MariaDb;

impl SqlEngine for MariaDb {
    const SCHEME: &'static str = "mysql";
    const SYSTEM: &'static str = "mysql";
    const PROGRAM: &'static str = "mariadbd";
    const PID_FILE: &'static str = "pid";
    const USER: &'static str = "mysql";
    const STOP: Signal = Signal::TERM;
    const ABORT: (Signal, &'static str) = (Signal::KILL, "KILL");
    const ADMINISTRATOR: &'static str = "root";
    const SEPARATOR: char = '\t';

    fn create_user() -> String {
        "create user locks@'%' identified by 'PASSWORD'".to_owned()
    }

    fn create_database(name: &str) -> [String; 3] {
        [
            format!("drop database if exists {name}"),
            format!("create database {name} character set latin1"),
            format!("grant select, insert, update, delete, create on {name}.* to locks@'%'"),
        ]
    }

    fn end_sessions(server: &MariaDbServer, database: &str) {
        let ids = format!("select id from information_schema.processlist where db = '{database}'");
        for id in server.sql("mysql", &ids).lines() {
            // An error means that the session has ended by itself.
            let _ = server.try_sql("mysql", &format!("kill {id}"));
        }
    }

    fn install(server: &MariaDbServer) -> Command {
        let (program, options): (PathBuf, &[&str]) = match other_server() {
            Some(path) => (path, &["--no-defaults", "--initialize-insecure"]),
            None => {
                let options = &["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"];
                (program("mariadb-install-db"), options)
            }
        };
        let mut install = server.command(&program);
        install.args(options).args(SMALL).arg(format!("--datadir={}", server.data().display()));
        // A server that starts deletes the temporary tables that it finds, also those of another installation.
        install.arg(format!("--tmpdir={}", server.directory().display()));
        install
    }

    fn run(server: &MariaDbServer) -> Command {
        let mut command = server.command(&other_server().unwrap_or_else(|| program(Self::PROGRAM)));
        command.args(["--no-defaults", "--bind-address=127.0.0.1"]).arg(format!("--port={}", server.port()));
        for (option, file) in [("datadir", "data"), ("socket", "socket"), ("pid-file", "pid"), ("tmpdir", "data")] {
            command.arg(format!("--{option}={}", server.directory().join(file).display()));
        }
        // MySQL also has another protocol, whose port would be the same for all servers.
        command.arg("--loose-mysqlx=off");
        command.args(SMALL).args(server.settings.iter().map(|setting| format!("--{setting}")));
        command
    }

    fn client(server: &MariaDbServer, database: &str, statements: &[&str]) -> Command {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--batch", "--raw", "--skip-column-names", "--user=root"]);
        client.args(["--database", database, "--default-character-set=utf8mb4", "--execute", &statements.join("; ")]);
        client.arg("--socket").arg(server.directory().join("socket"));
        client
    }

    fn socket(server: &MariaDbServer) -> String {
        format!("socket={}", server.directory().join("socket").display())
    }
}

impl MariaDbServer {
    /// The sum of these counters of the server, such as `Com_begin`.
    #[must_use]
    #[track_caller]
    pub fn status(&self, counters: &[&str]) -> u64 {
        let names = counters.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        // MariaDB and MySQL have different tables with the counters, but the same statement.
        let rows = self.sql("mysql", &format!("show global status where variable_name in ({names})"));
        let value = |row: &str| row.split_once('|').and_then(|(_, value)| value.parse::<u64>().ok());
        let values: Option<Vec<u64>> = rows.lines().map(value).collect();
        let values = values.filter(|values| values.len() == counters.len());
        values.unwrap_or_else(|| panic!("{counters:?} are not all counters: {rows}")).iter().sum()
    }

    /// A table for the clause `from` of a statement. Its column `seq` has the numbers from 1 to `count`.
    #[must_use]
    pub fn numbers(count: u32) -> String {
        let zeros = count.saturating_sub(1);
        format!("json_table(concat('[0', repeat(',0', {zeros}), ']'), '$[*]' columns (seq for ordinality)) numbers")
    }
}

/// The server program that is used instead of `mariadbd`.
fn other_server() -> Option<PathBuf> {
    std::env::var_os(OTHER_SERVER).map(PathBuf::from)
}

/// The path of a program of MariaDB. Debian installs the server in a directory that is not in the `PATH` of every user.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let mut found = dirs.map(|dir| dir.join(name)).filter(|path| path.is_file());
    found.next().unwrap_or_else(|| name.into())
}
