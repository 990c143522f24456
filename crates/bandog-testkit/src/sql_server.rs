//! A database server for tests: what PostgreSQL and MariaDB have in common.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddrV4;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::port::Port;
use crate::wire::Wire;
use crate::{clock, eventually, process};

/// Timeout for the start of a server, and for its end. On a loaded machine, the creation of its files takes several
/// seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// The shell script of the janitor, a process that outlives the test process. It waits until its standard input ends:
/// when the [`SqlServer`] is dropped, or when the test process ends. Then it ends the server, whose pid is in the file
/// `$1`, with the signal `$2`, and removes the directory `$0`.
const JANITOR: &str = r#"
while read -r _; do :; done
pid=$(head -n 1 "$1" 2>/dev/null)
[ -n "$pid" ] && kill "-$2" "$pid" 2>/dev/null
tries=0
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
rm -rf "$0"
"#;

/// A database of which a [`SqlServer`] is a server.
pub trait SqlEngine: Debug + Send + Sync + Sized + 'static {
    /// The scheme of its URLs.
    const SCHEME: &'static str;
    /// The database that each server has.
    const SYSTEM: &'static str;
    /// The server program.
    const PROGRAM: &'static str;
    /// The file with the pid of the server, in its directory.
    const PID_FILE: &'static str;
    /// The user that runs the server if the test process runs as root, as which the servers refuse to run.
    const USER: &'static str;
    /// The signals that stop a server regularly, and at once. The kernel knows the second one by this name.
    const STOP: Signal;
    /// See [`SqlEngine::STOP`].
    const ABORT: (Signal, &'static str);
    /// The name of an administrator, who has no password at the Unix socket.
    const ADMINISTRATOR: &'static str;
    /// The character between the columns of a row that the client program prints.
    const SEPARATOR: char;

    /// The statement that creates the user [`SqlServer::LOCKS`].
    fn create_user() -> String;

    /// The statements that replace a database by an empty one, in which [`SqlServer::LOCKS`] has the usual rights.
    fn create_database(name: &str) -> [String; 3];

    /// Ends all sessions of a database.
    fn end_sessions(server: &SqlServer<Self>, database: &str);

    /// The command that creates the files of an empty server.
    fn install(server: &SqlServer<Self>) -> Command;

    /// The command that runs the server.
    fn run(server: &SqlServer<Self>) -> Command;

    /// The command that executes statements as an administrator, and prints the rows.
    fn client(server: &SqlServer<Self>, database: &str, statements: &[&str]) -> Command;

    /// The options of a URL that lead to the Unix socket.
    fn socket(server: &SqlServer<Self>) -> String;
}

/// A database server on its own port, with a directory of its own. It is stopped and its directory is removed when this
/// value is dropped or when the test process ends, even if the process is killed.
///
/// The start takes about two seconds. So the tests of a program share one server, and each test uses a database of its
/// own ([`SqlServer::new_database`]).
///
/// If a method fails, it panics.
#[derive(Debug)]
pub struct SqlServer<E: SqlEngine> {
    port: Port,
    dir: PathBuf,
    pub(crate) settings: Vec<String>,
    /// The user and the group that run the server. None if it runs as the user of the test.
    user: Option<(u32, u32)>,
    databases: AtomicU32,
    server: Mutex<Option<Child>>,
    janitor: Option<Child>,
    engine: PhantomData<E>,
}

impl<E: SqlEngine> SqlServer<E> {
    /// The name and the password of a user without rights, except those that [`SqlServer::new_database`] grants.
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
        let server = Self::without_data(settings.iter().map(ToString::to_string).collect());
        server.create_files(E::install(&server));
        server.launch();
        server.sql(E::SYSTEM, &E::create_user());
        server
    }

    /// A server that does not run, and has an empty directory and a janitor.
    #[track_caller]
    pub(crate) fn without_data(settings: Vec<String>) -> Self {
        let dir = tempfile::Builder::new().prefix(&format!("bandog-{}-", E::PROGRAM)).tempdir();
        let mut server = Self {
            port: Port::reserve(),
            dir: dir.expect("cannot make a directory for the server").keep(),
            settings,
            user: user_of_server(E::USER),
            databases: AtomicU32::new(0),
            server: Mutex::new(None),
            janitor: None,
            engine: PhantomData,
        };
        if let Some((user, group)) = server.user {
            chown(&server.dir, Some(user), Some(group)).expect("cannot change the owner of the directory");
        }
        let mut janitor = Command::new("setsid");
        janitor.args(["sh", "-c", JANITOR]).arg(&server.dir).arg(server.dir.join(E::PID_FILE)).arg(E::ABORT.1);
        let janitor = janitor.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        server.janitor = Some(janitor.expect("cannot start the janitor of the server"));
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

    /// The URL of a database for [`SqlServer::LOCKS`].
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        Self::url_at(self.port(), database)
    }

    /// As [`SqlServer::url`], with another port, such as that of a proxy.
    #[must_use]
    pub fn url_at(port: u16, database: &str) -> String {
        format!("{}://{}@127.0.0.1:{port}/{database}", E::SCHEME, Self::LOCKS)
    }

    /// The URL of a database for this login, such as [`SqlServer::LOCKS`]. It leads to the Unix socket.
    #[must_use]
    pub fn url_over_socket(&self, login: &str, database: &str) -> String {
        format!("{}://{login}@/{database}?{}", E::SCHEME, E::socket(self))
    }

    /// The URL of a database for an administrator.
    #[must_use]
    pub fn administrator(&self, database: &str) -> String {
        self.url_over_socket(E::ADMINISTRATOR, database)
    }

    /// Creates an empty database, in which [`SqlServer::LOCKS`] has the rights that the page about the database lists.
    /// Returns its name.
    #[must_use]
    #[track_caller]
    pub fn new_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.replace_database(&name);
        name
    }

    /// Creates an empty database with this name, as [`SqlServer::new_database`] does. If it exists, its sessions are ended
    /// and its data are deleted first.
    #[track_caller]
    pub fn create_database(&self, name: &str) {
        self.end_sessions(name);
        self.replace_database(name);
    }

    #[track_caller]
    fn replace_database(&self, name: &str) {
        let statements = E::create_database(name);
        let created = self.execute(E::SYSTEM, &statements.each_ref().map(String::as_str));
        created.unwrap_or_else(|error| panic!("cannot create the database {name}: {error}"));
    }

    /// Ends all sessions of a database.
    #[track_caller]
    pub fn end_sessions(&self, database: &str) {
        E::end_sessions(self, database);
    }

    /// Executes statements as an administrator, and returns the rows: one line for each, with `|` between the columns.
    #[track_caller]
    pub fn sql(&self, database: &str, statements: &str) -> String {
        self.try_sql(database, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// As [`SqlServer::sql`].
    ///
    /// # Errors
    /// The server cannot be reached, or refuses a statement.
    pub fn try_sql(&self, database: &str, statements: &str) -> io::Result<String> {
        self.execute(database, &[statements])
    }

    fn execute(&self, database: &str, statements: &[&str]) -> io::Result<String> {
        let out = E::client(self, database, statements).stdin(Stdio::null()).output()?;
        if !out.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&out.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&out.stdout).trim_end().replace(E::SEPARATOR, "|"))
    }

    /// Kills the server. Its port refuses connections until [`restart`](Self::restart).
    #[track_caller]
    pub fn kill(&self) {
        self.end(Signal::KILL);
    }

    /// Stops the server regularly. It ends its sessions.
    #[track_caller]
    pub fn stop(&self) {
        self.end(E::STOP);
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
        child.wait().expect("cannot wait for the end of the server");
        sessions.iter().for_each(|pid| process::kill_if_alive(*pid));
        eventually(READY_WITHIN, || sessions.iter().all(|pid| !process::is_alive(*pid)));
    }

    /// Creates the files of a server with this command.
    #[track_caller]
    pub(crate) fn create_files(&self, mut command: Command) {
        let out = command.stdin(Stdio::null()).output().unwrap_or_else(|error| {
            panic!("cannot run {command:?} ({error}); `cargo xtask test` installs what the tests need")
        });
        let [stdout, stderr] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(out.status.success(), "{command:?} failed ({}): {stderr}{stdout}", out.status);
    }

    /// Starts the server program, and waits until it answers. The start is repeated if the program ends.
    #[track_caller]
    pub(crate) fn launch(&self) {
        eventually(READY_WITHIN, || {
            let ended = match self.server().as_mut() {
                Some(child) => child.try_wait().expect("cannot query the state of the server").is_some(),
                None => true,
            };
            if ended {
                let child = self.spawn().expect("cannot start the server");
                *self.server() = Some(child);
            }
            self.try_sql(E::SYSTEM, "select 1").map_err(|error| format!("{error}: {}", self.log()))
        });
    }

    fn spawn(&self) -> io::Result<Child> {
        let log = File::options().create(true).append(true).open(self.dir.join("log"))?;
        E::run(self).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).spawn()
    }

    /// A command that starts a program of the server in a session of its own, as the user of the server.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setsid");
        if let Some((user, group)) = self.user {
            command.args(["setpriv", &format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups"]);
        }
        command.arg(program).current_dir("/");
        clock::set_for(&mut command);
        command
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The last lines of the server's log.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn server(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: SqlEngine> Drop for SqlServer<E> {
    fn drop(&mut self) {
        if let Some(mut child) = self.server().take() {
            // An error means that the server has ended.
            let _ = kill_process(Pid::from_child(&child), E::ABORT.0);
            let _ = child.wait();
        }
        if let Some(mut janitor) = self.janitor.take() {
            drop(janitor.stdin.take());
            let _ = janitor.wait();
        }
    }
}

/// The user and the group of the server, if this process runs as root. The user is this one, or `nobody` if there is no such
/// user.
fn user_of_server(name: &str) -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    ids(name).or_else(|| ids("nobody"))
}
