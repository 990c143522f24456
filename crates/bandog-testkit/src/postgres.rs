//! A PostgreSQL server for tests.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use crate::{SqlEngine, SqlServer};

/// The stored verifier of the password of [`PostgresServer::LOCKS`]. It has one round of hashing instead of 4096, which
/// take a tenth of a second for each connection of a client without optimizations.
const VERIFIER: &str = "SCRAM-SHA-256$1:YmFuZG9nLXRlc3Qtc2FsdA==$AnhCWy5/+GfwWkHV8Z6mJfNAYLdOaC43OBdgwZ1itsM=:\
                        5ntFaIlDiPyn2U2/ZNpRsU4Xy1PNYSkCnu61p14h/+k=";

/// Settings of each server. The tests kill the server and not the machine, so nothing must be written to the disk.
const SMALL: [&str; 4] = ["listen_addresses=127.0.0.1", "fsync=off", "max_connections=400", "shared_buffers=16MB"];

/// A `postgres`. Its settings are those of its configuration, such as `max_connections=20`.
pub type PostgresServer = SqlServer<Postgres>;

/// PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub struct Postgres;

impl SqlEngine for Postgres {
    const SCHEME: &'static str = "postgres";
    const SYSTEM: &'static str = "postgres";
    const PROGRAM: &'static str = "postgres";
    const PID_FILE: &'static str = "data/postmaster.pid";
    const USER: &'static str = "postgres";
    const STOP: Signal = Signal::INT;
    // It removes the segment of shared memory, which a server that is killed leaves behind.
    const ABORT: (Signal, &'static str) = (Signal::QUIT, "QUIT");
    const ADMINISTRATOR: &'static str = "postgres";
    const SEPARATOR: char = '|';

    fn create_user() -> String {
        format!("create role locks login password '{VERIFIER}'")
    }

    fn create_database(name: &str) -> [String; 3] {
        [
            format!("drop database if exists {name} with (force)"),
            format!("create database {name} template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C'"),
            format!("grant create on database {name} to locks"),
        ]
    }

    fn end_sessions(server: &PostgresServer, database: &str) {
        let sessions = format!("from pg_stat_activity where datname = '{database}'");
        server.sql("postgres", &format!("select pg_terminate_backend(pid) {sessions}"));
    }

    fn install(server: &PostgresServer) -> Command {
        let mut initdb = server.command(&program("initdb"));
        initdb.args(["--no-sync", "--username=postgres", "--auth-local=trust", "--auth-host=scram-sha-256"]);
        initdb.args(["--encoding=UTF8", "--locale=C", "-D"]).arg(server.data());
        initdb
    }

    fn run(server: &PostgresServer) -> Command {
        let mut command = server.command(&program("postgres"));
        command.arg("-D").arg(server.data()).args(["-p", &server.port().to_string()]);
        let sockets = format!("unix_socket_directories={}", server.directory().display());
        let settings = SMALL.into_iter().chain([&*sockets]).chain(server.settings.iter().map(String::as_str));
        command.args(settings.flat_map(|setting| ["-c", setting]));
        command
    }

    /// Each statement is in a transaction of its own.
    fn client(server: &PostgresServer, database: &str, statements: &[&str]) -> Command {
        let mut psql = Command::new(program("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database]);
        psql.args(statements.iter().flat_map(|statement| ["-c", statement]));
        psql.arg("-h").arg(server.directory()).args(["-p", &server.port().to_string()]);
        psql
    }

    fn socket(server: &PostgresServer) -> String {
        format!("host={}&port={}", server.directory().display(), server.port())
    }
}

impl PostgresServer {
    /// Starts a server that replicates this one, with the same settings. The replication is asynchronous, unless this server
    /// gets the setting `synchronous_standby_names` later.
    #[must_use]
    #[track_caller]
    pub fn start_replica(&self) -> Self {
        let replica = Self::without_data(self.settings.clone());
        let mut backup = replica.command(&program("pg_basebackup"));
        backup.args(["--no-sync", "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast"]);
        backup.args(["--username=postgres", "--port", &self.port().to_string(), "--host"]).arg(self.directory());
        backup.arg("-D").arg(replica.data());
        replica.create_files(backup);
        replica.launch();
        replica
    }

    /// Makes this replica a server of its own, and waits until it accepts writes.
    #[track_caller]
    pub fn promote(&self) {
        assert_eq!(self.sql("postgres", "select pg_promote()"), "t", "the replica was not promoted: {}", self.log());
    }
}

/// The path of a program of PostgreSQL. Debian installs most of them in a directory that is not in `PATH`.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian's `psql` is a link to a script that searches for the program, which takes 15 ms longer.
    let is_program = |path: &PathBuf| fs::canonicalize(path).is_ok_and(|real| real.is_file() && real.ends_with(name));
    if let Some(found) = std::env::split_paths(&path).map(|dir| dir.join(name)).find(is_program) {
        return found;
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.is_file());
    found.max().unwrap_or_else(|| name.into())
}
