//! A MariaDB or MySQL server for tests.

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

/// Timeout for the start of a server, and for its end. On a loaded machine, `mariadb-install-db` takes several seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// The shell script of the janitor, a process that outlives the test process. It waits until its standard input ends:
/// when the [`MariaDbServer`] is dropped, or when the test process ends. Then it kills the server and removes the
/// directory `$0`.
const JANITOR: &str = r#"
while read -r _; do :; done
pid=$(cat "$0/pid" 2>/dev/null)
[ -n "$pid" ] && kill -KILL "$pid" 2>/dev/null
tries=0
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
rm -rf "$0"
"#;

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

/// A `mariadbd` on its own port, with a directory of its own. It is stopped and its directory is removed when this value
/// is dropped or when the test process ends, even if the process is killed.
///
/// If the environment variable `BANDOG_TEST_MYSQLD` names a server program of MySQL, it is used instead.
///
/// The start takes about two seconds. So the tests of a program share one server, and each test uses a database of its
/// own ([`MariaDbServer::new_database`]).
///
/// If a method fails, it panics.
#[derive(Debug)]
pub struct MariaDbServer {
    port: Port,
    dir: PathBuf,
    args: Vec<String>,
    /// The user and the group that run the server. None if it runs as the user of the test.
    user: Option<(u32, u32)>,
    databases: AtomicU32,
    server: Mutex<Option<Child>>,
    janitor: Option<Child>,
}

impl MariaDbServer {
    /// The name and the password of a user without rights, except those that [`MariaDbServer::new_database`] grants.
    pub const LOCKS: &str = "locks:PASSWORD";

    /// Starts a server, and waits until it answers.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional settings, such as `&["max-connections=20"]`.
    #[must_use]
    #[track_caller]
    pub fn start_with(settings: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("bandog-mariadb-").tempdir();
        let dir = dir.expect("cannot make a directory for mariadbd").keep();
        let mut server = Self {
            port: Port::reserve(),
            user: user_of_server(),
            args: settings.iter().map(|setting| format!("--{setting}")).collect(),
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
        server.janitor = Some(janitor.spawn().expect("cannot start the janitor of mariadbd"));
        server.initialise();
        server.launch();
        let (user, password) = Self::LOCKS.split_once(':').expect("the constant has a colon");
        server.sql("mysql", &format!("create user {user}@'%' identified by '{password}'"));
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

    /// The directory of the server. The directory of its data is `data`, and its Unix socket is `socket`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// Creates an empty database, in which [`MariaDbServer::LOCKS`] has the rights that docs/mysql.md lists. Returns its name.
    #[must_use]
    #[track_caller]
    pub fn new_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.create_database(&name);
        name
    }

    /// Creates an empty database with this name, as [`MariaDbServer::new_database`] does. If it exists, its sessions are
    /// ended and its data are deleted first.
    #[track_caller]
    pub fn create_database(&self, name: &str) {
        self.end_sessions(name);
        self.sql("mysql", &format!("drop database if exists {name}; create database {name} character set latin1"));
        self.sql("mysql", &format!("grant select, insert, update, delete, create on {name}.* to locks@'%'"));
    }

    /// Ends all sessions of a database.
    #[track_caller]
    pub fn end_sessions(&self, database: &str) {
        let ids = format!("select id from information_schema.processlist where db = '{database}'");
        for id in self.sql("mysql", &ids).lines() {
            // An error means that the session has ended by itself.
            let _ = self.try_sql("mysql", &format!("kill {id}"));
        }
    }

    /// Executes statements as an administrator, and returns the rows: one line for each, with `|` between the columns.
    #[track_caller]
    pub fn sql(&self, database: &str, statements: &str) -> String {
        self.try_sql(database, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// As [`MariaDbServer::sql`].
    ///
    /// # Errors
    /// The server cannot be reached, or refuses a statement.
    pub fn try_sql(&self, database: &str, statements: &str) -> io::Result<String> {
        let mut client = Command::new("mariadb");
        client.args([
            "--no-defaults",
            "--batch",
            "--raw",
            "--skip-column-names",
            "--user=root",
            "--database",
            database,
        ]);
        client.args(["--default-character-set=utf8mb4", "--execute", statements]);
        client.arg("--socket").arg(self.dir.join("socket")).stdin(Stdio::null());
        let out = client.output()?;
        if !out.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&out.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&out.stdout).trim_end().replace('\t', "|"))
    }

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

    /// Kills the server. Its port refuses connections until [`restart`](Self::restart).
    #[track_caller]
    pub fn kill(&self) {
        self.end(Signal::KILL);
    }

    /// Stops the server regularly. It ends its sessions.
    #[track_caller]
    pub fn stop(&self) {
        self.end(Signal::TERM);
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

    /// Sends a signal to the server program, and waits for its end.
    #[track_caller]
    fn end(&self, signal: Signal) {
        let Some(mut child) = self.server().take() else { return };
        process::send(child.id(), signal);
        child.wait().expect("cannot wait for the end of mariadbd");
    }

    /// Creates the files of an empty server.
    #[track_caller]
    fn initialise(&self) {
        let (program, options): (PathBuf, &[&str]) = match other_server() {
            Some(path) => (path, &["--no-defaults", "--initialize-insecure"]),
            None => {
                let options = &["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"];
                (program("mariadb-install-db"), options)
            }
        };
        let mut install = self.command(&program);
        install.args(options).args(SMALL);
        install.arg(format!("--datadir={}", self.data().display())).stdin(Stdio::null());
        // A server that starts deletes the temporary tables that it finds, also those of another installation.
        install.arg(format!("--tmpdir={}", self.dir.display()));
        let name = program.display();
        let out = install.output().unwrap_or_else(|error| {
            panic!("cannot run {name} ({error}); `cargo xtask test` installs what the tests need")
        });
        let [stdout, stderr] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(out.status.success(), "{name} failed ({}): {stderr}{stdout}", out.status);
    }

    /// Starts the server program, and waits until it answers.
    #[track_caller]
    fn launch(&self) {
        eventually(READY_WITHIN, || {
            let ended = match self.server().as_mut() {
                Some(child) => child.try_wait().expect("cannot query the state of mariadbd").is_some(),
                None => true,
            };
            if ended {
                let child = self.spawn().expect("cannot start mariadbd");
                *self.server() = Some(child);
            }
            self.try_sql("mysql", "select 1").map_err(|error| format!("{error}: {}", self.log()))
        });
    }

    fn spawn(&self) -> io::Result<Child> {
        let log = File::options().create(true).append(true).open(self.dir.join("log"))?;
        let mut command = self.command(&other_server().unwrap_or_else(|| program("mariadbd")));
        command.args(["--no-defaults", "--bind-address=127.0.0.1"]).arg(format!("--port={}", self.port()));
        for (option, file) in [("datadir", "data"), ("socket", "socket"), ("pid-file", "pid"), ("tmpdir", "data")] {
            command.arg(format!("--{option}={}", self.dir.join(file).display()));
        }
        // MySQL also has another protocol, whose port would be the same for all servers.
        command.arg("--loose-mysqlx=off");
        command.args(SMALL).args(&self.args).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).spawn()
    }

    /// A command that starts a program of the server in a session of its own, as the user of the server.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setsid");
        if let Some((user, group)) = self.user {
            command.args(["setpriv", &format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups"]);
        }
        command.arg(program).current_dir("/");
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

impl Drop for MariaDbServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.server().take() {
            // An error means that the server has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(mut janitor) = self.janitor.take() {
            drop(janitor.stdin.take());
            let _ = janitor.wait();
        }
    }
}

/// The user and the group of the server, if this process runs as root: MariaDB refuses to run as root. The user is
/// `mysql`, or `nobody` if there is no such user.
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
    ids("mysql").or_else(|| ids("nobody"))
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
