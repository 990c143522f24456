//! The start of the server program: its arguments, its configuration file, and the users of the server.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, PoisonError};

use super::{Mode, READY_WITHIN, RedisServer};
use crate::resp::Reply;
use crate::version::ServerVersion;
use crate::{clock, eventually, keeper};

/// The page of the documentation that explains which rights a user of Redis needs. Every server that a test starts has
/// the users that this page creates.
const RIGHTS_PAGE: &str = include_str!("../../../../docs/redis.md");

impl RedisServer {
    /// The rules of `ACL SETUSER` for locks in `docs/redis.md`.
    #[must_use]
    pub fn least_rights() -> Vec<&'static str> {
        rights(0)
    }

    /// The additional rules of `docs/redis.md` for inspection.
    #[must_use]
    pub fn inspect_rights() -> Vec<&'static str> {
        rights(1)
    }

    /// The additional rules of `docs/redis.md` for records.
    #[must_use]
    pub fn record_rights() -> Vec<&'static str> {
        rights(2)
    }

    /// The additional rules of `docs/redis.md` for latches.
    #[must_use]
    pub fn latch_rights() -> Vec<&'static str> {
        rights(3)
    }

    /// The version of the server that tests start. The environment variable `BANDOG_TEST_SERVER` names the program of
    /// this server. The default is `redis-server`.
    ///
    /// # Panics
    /// If the program cannot be run.
    #[must_use]
    pub fn version() -> &'static ServerVersion {
        static VERSION: LazyLock<ServerVersion> = LazyLock::new(|| {
            ServerVersion::of(&program()).unwrap_or_else(|error| panic!("cannot run {}: {error}", program().display()))
        });
        &VERSION
    }

    /// Starts the server program, and waits until the server answers.
    #[track_caller]
    pub(super) fn launch(&self) {
        let child = self.spawn().unwrap_or_else(|error| {
            let program = program();
            panic!("cannot start {} ({error}); `cargo xtask test` installs what the tests need", program.display())
        });
        *self.child() = Some(child);
        eventually(READY_WITHIN, || self.ask_if_ready());
    }

    fn spawn(&self) -> io::Result<Child> {
        let program = program();
        if !is_installed(&program) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut command = keeper::command(&program);
        match &self.mode {
            Mode::Data => self.add_data_arguments(&mut command),
            Mode::Sentinel(lines) => {
                let path = self.dir.path().join("sentinel.conf");
                if !path.exists() {
                    fs::write(&path, self.sentinel_configuration(lines))?;
                }
                command.arg(path).arg("--sentinel");
            }
        }
        clock::set_for(&mut command);
        command.args(&self.args).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        keeper::spawn(command)
    }

    /// Adds the arguments of a server that stores data.
    fn add_data_arguments(&self, command: &mut Command) {
        // Older servers do not have this option and allow the command `DEBUG` anyway.
        if Self::version().is_since(7, 0) {
            command.args(["--enable-debug-command", "local"]);
        }
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            // By default, Redis 7 waits 5 s for further replicas before it sends its data to the first.
            .args(["--protected-mode", "no", "--repl-diskless-sync-delay", "0"])
            .arg("--dir")
            .arg(self.dir.path())
            .arg("--unixsocket")
            .arg(self.socket())
            .args([&["--user", "locks"], &rights(0)[..], &self.cluster_rights()].concat())
            .args(
                [&["--user", "operator"], &rights(0)[..], &rights(1), &rights(2), &rights(3), &self.cluster_rights()]
                    .concat(),
            );
        if let Some(password) = &*self.operator_password.lock().unwrap_or_else(PoisonError::into_inner) {
            command.args(["resetpass", &format!(">{password}")]);
        }
    }

    /// The additional rules of `docs/redis.md` for a cluster, if this server is a node of a cluster. Older servers do not
    /// know these commands.
    fn cluster_rights(&self) -> Vec<&'static str> {
        if !self.args.iter().any(|arg| arg == "--cluster-enabled") || !Self::version().is_since(7, 0) {
            return Vec::new();
        }
        let mut rules = RIGHTS_PAGE.lines().filter_map(|line| line.strip_prefix("ACL SETUSER locks +cluster|slots "));
        let rules = rules.next().expect("docs/redis.md does not have the rules for a cluster");
        ["+cluster|slots"].into_iter().chain(rules.split(' ')).collect()
    }

    /// The first configuration file of a sentinel.
    fn sentinel_configuration(&self, lines: &[String]) -> String {
        let (port, dir) = (self.port(), self.dir.path().display());
        format!("port {port}\nbind 127.0.0.1\nprotected-mode no\ndir {dir}\n{}\n", lines.join("\n"))
    }

    /// Sends `PING`. If the server has exited, this function panics with the server's log. So the test does not have to
    /// wait for the timeout.
    fn ask_if_ready(&self) -> io::Result<Reply> {
        if let Some(child) = self.child().as_mut()
            && let Some(status) = child.try_wait()?
        {
            let log = fs::read_to_string(self.log_path()).unwrap_or_default();
            panic!("redis-server ended ({status}) before it was ready:\n{log}");
        }
        self.dial()?.cmd(&["PING"])
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("redis.log")
    }
}

/// The rules of one of the `ACL SETUSER` commands on the page: 0 for locks, 1 for inspection, 2 for records, 3 for
/// latches.
fn rights(number: usize) -> Vec<&'static str> {
    let mut rules = RIGHTS_PAGE.lines().filter_map(|line| line.strip_prefix("ACL SETUSER locks "));
    rules.nth(number).expect("docs/redis.md does not have these rules").split(' ').collect()
}

/// The program of the server: the value of `BANDOG_TEST_SERVER`, or `redis-server`.
fn program() -> PathBuf {
    std::env::var_os("BANDOG_TEST_SERVER").map_or_else(|| "redis-server".into(), PathBuf::from)
}

/// Returns true if the server's program is installed. This check is needed because the test process starts only
/// `setpriv`, and `setpriv` starts the server. So if the server's program is missing, the start of `setpriv` succeeds
/// nevertheless.
fn is_installed(program: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
