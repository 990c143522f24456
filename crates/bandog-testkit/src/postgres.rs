//! A PostgreSQL server for tests.

mod replica;

use std::fs::{self, File};
use std::io;
use std::net::SocketAddrV4;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;

use crate::port::Port;
use crate::wire::Wire;
use crate::{eventually, process};

/// Timeout for the start of a server, and for its end. On a loaded machine, `initdb` takes several seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// The shell script of the janitor, a process that outlives the test process. It waits until its standard input ends:
/// when the [`PostgresServer`] is dropped, or when the test process ends. Then it stops the server and removes the
/// directory `$0`. A server that is killed with `SIGKILL` would leave a segment of shared memory.
const JANITOR: &str = r#"
while read -r _; do :; done
pid=$(head -n 1 "$0/data/postmaster.pid" 2>/dev/null)
[ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null
tries=0
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
rm -rf "$0"
"#;

/// The stored verifier of the password of [`PostgresServer::LOCKS`]. It has one round of hashing instead of 4096, which
/// take a tenth of a second for each connection of a client without optimizations.
const VERIFIER: &str = "SCRAM-SHA-256$1:YmFuZG9nLXRlc3Qtc2FsdA==$AnhCWy5/+GfwWkHV8Z6mJfNAYLdOaC43OBdgwZ1itsM=:\
                        5ntFaIlDiPyn2U2/ZNpRsU4Xy1PNYSkCnu61p14h/+k=";

/// A `postgres` on its own port, with a directory of its own. It is stopped and its directory is removed when this value
/// is dropped or when the test process ends, even if the process is killed.
///
/// The start takes about two seconds. So the tests of a program share one server, and each test uses a database of its
/// own ([`PostgresServer::new_database`]).
///
/// If a method fails, it panics.
#[derive(Debug)]
pub struct PostgresServer {
    port: Port,
    dir: PathBuf,
    args: Vec<String>,
    /// The user and the group that run the server. None if it runs as the user of the test.
    user: Option<(u32, u32)>,
    databases: AtomicU32,
    server: Mutex<Option<Child>>,
    janitor: Option<Child>,
}

impl PostgresServer {
    /// The name and the password of a user without rights, except those that [`PostgresServer::new_database`] grants.
    pub const LOCKS: &str = "locks:PASSWORD";

    /// Starts a server, and waits until it answers.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional settings, such as `&["max_connections=20"]`.
    #[must_use]
    #[track_caller]
    pub fn start_with(settings: &[&str]) -> Self {
        let args = settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]);
        let server = Self::without_data(args.collect());
        server.initialise();
        server.launch();
        server.sql("postgres", &format!("create role locks login password '{VERIFIER}'"));
        server
    }

    /// A server that does not run, and has an empty directory and a janitor.
    #[track_caller]
    fn without_data(args: Vec<String>) -> Self {
        let dir = tempfile::Builder::new().prefix("bandog-postgres-").tempdir();
        let dir = dir.expect("cannot make a directory for postgres").keep();
        let mut server = Self {
            port: Port::reserve(),
            user: user_of_server(),
            args,
            databases: AtomicU32::new(0),
            server: Mutex::new(None),
            janitor: None,
            dir,
        };
        if let Some((user, group)) = server.user {
            chown(&server.dir, Some(user), Some(group)).expect("cannot change the owner of the directory");
        }
        let mut janitor = Command::new("setsid");
        janitor.args(["sh", "-c", JANITOR]).arg(&server.dir).stdin(Stdio::piped()).stdout(Stdio::null());
        server.janitor = Some(janitor.spawn().expect("cannot start the janitor of postgres"));
        server
    }

    /// The server's port. After a restart, the port is the same.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The server's address.
    #[must_use]
    pub fn addr(&self) -> SocketAddrV4 {
        self.port.addr()
    }

    /// The directory of the server. The directory of its data is `data`, and its Unix socket is in it, too.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// Creates an empty database, in which [`PostgresServer::LOCKS`] may create schemas. Returns its name.
    #[must_use]
    #[track_caller]
    pub fn new_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.create(&name, "select 1");
        name
    }

    /// Creates an empty database with this name, as [`PostgresServer::new_database`] does. If it exists, its sessions are
    /// ended and its data are deleted first.
    #[track_caller]
    pub fn create_database(&self, name: &str) {
        self.create(name, &format!("drop database if exists {name} with (force)"));
    }

    /// Executes a statement, and creates a database.
    #[track_caller]
    fn create(&self, name: &str, first: &str) {
        let create = format!("create database {name} template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C'");
        let grant = format!("grant create on database {name} to locks");
        let created = self.psql("postgres", &[first, &create, &grant]);
        created.unwrap_or_else(|error| panic!("cannot create the database {name}: {error}"));
    }

    /// Ends all sessions of a database.
    #[track_caller]
    pub fn end_sessions(&self, database: &str) {
        let sessions = format!("from pg_stat_activity where datname = '{database}'");
        self.sql("postgres", &format!("select pg_terminate_backend(pid) {sessions}"));
    }

    /// Executes statements as a superuser, and returns the rows: one line for each, with `|` between the columns.
    #[track_caller]
    pub fn sql(&self, database: &str, statements: &str) -> String {
        self.try_sql(database, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// As [`PostgresServer::sql`].
    ///
    /// # Errors
    /// The server cannot be reached, or refuses a statement.
    pub fn try_sql(&self, database: &str, statements: &str) -> io::Result<String> {
        self.psql(database, &[statements])
    }

    /// Executes commands one after the other, each in a transaction of its own.
    fn psql(&self, database: &str, commands: &[&str]) -> io::Result<String> {
        let mut psql = Command::new(program("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database]);
        psql.args(commands.iter().flat_map(|command| ["-c", command]));
        psql.arg("-h").arg(&self.dir).args(["-p", &self.port().to_string()]).stdin(Stdio::null());
        let out = psql.output()?;
        if !out.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&out.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_owned())
    }

    /// Kills the server. Its port refuses connections until [`restart`](Self::restart).
    #[track_caller]
    pub fn kill(&self) {
        self.end(Signal::KILL);
    }

    /// Stops the server regularly. It ends its sessions.
    #[track_caller]
    pub fn stop(&self) {
        self.end(Signal::INT);
    }

    /// Stops the server if it runs, and starts it again with its data.
    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        self.launch();
    }

    /// Starts a proxy in front of this server.
    #[must_use]
    #[track_caller]
    pub fn wire(&self) -> Wire {
        Wire::to(self.addr())
    }

    /// Sends a signal to the server program, and waits for its end. `SIGKILL` is sent to the processes of its sessions, too,
    /// which could answer for a moment else.
    #[track_caller]
    fn end(&self, signal: Signal) {
        let Some(mut child) = self.server().take() else { return };
        let sessions = if signal == Signal::KILL { process::stop_with_children(child.id()) } else { Vec::new() };
        process::send(child.id(), signal);
        child.wait().expect("cannot wait for the end of postgres");
        sessions.iter().for_each(|pid| process::kill_if_alive(*pid));
        eventually(READY_WITHIN, || sessions.iter().all(|pid| !process::is_alive(*pid)));
    }

    /// Creates the files of an empty server.
    #[track_caller]
    fn initialise(&self) {
        let mut initdb = self.command("initdb");
        initdb.args(["--no-sync", "--username=postgres", "--auth-local=trust", "--auth-host=scram-sha-256"]);
        initdb.args(["--encoding=UTF8", "--locale=C", "-D"]).arg(self.data()).stdin(Stdio::null());
        let out = initdb.output().unwrap_or_else(|error| {
            panic!("cannot run initdb ({error}); `cargo xtask test` installs what the tests need")
        });
        assert!(out.status.success(), "initdb failed: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// Starts the server program, and waits until it answers. The start is repeated if the program ends.
    #[track_caller]
    fn launch(&self) {
        eventually(READY_WITHIN, || {
            let ended = match self.server().as_mut() {
                Some(child) => child.try_wait().expect("cannot query the state of postgres").is_some(),
                None => true,
            };
            if ended {
                let child = self.spawn().expect("cannot start postgres");
                *self.server() = Some(child);
            }
            self.try_sql("postgres", "select 1").map_err(|error| format!("{error}: {}", self.log()))
        });
    }

    fn spawn(&self) -> io::Result<Child> {
        let log = File::options().create(true).append(true).open(self.dir.join("log"))?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &self.port().to_string()]);
        let sockets = format!("unix_socket_directories={}", self.dir.display());
        // The tests kill the server and not the machine, so nothing must be written to the disk.
        for setting in
            ["listen_addresses=127.0.0.1", "fsync=off", "max_connections=400", "shared_buffers=16MB", &sockets]
        {
            command.args(["-c", setting]);
        }
        command.args(&self.args).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).spawn()
    }

    /// A command that starts a program of PostgreSQL in a session of its own, as the user of the server.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new("setsid");
        if let Some((user, group)) = self.user {
            command.args(["setpriv", &format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups"]);
        }
        command.arg(program(name)).current_dir("/");
        command
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The last lines of the server's log.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn server(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.server().take() {
            // An immediate shutdown. It removes the segment of shared memory. An error means that the server has ended.
            let _ = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status();
            let _ = child.wait();
        }
        if let Some(mut janitor) = self.janitor.take() {
            drop(janitor.stdin.take());
            let _ = janitor.wait();
        }
    }
}

/// The user and the group of the server, if this process runs as root: PostgreSQL refuses to run as root. The user is
/// `postgres`, or `nobody` if there is no such user.
fn user_of_server() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    ids("postgres").or_else(|| ids("nobody"))
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
