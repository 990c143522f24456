//! A Redis server for one test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::port::Port;
use crate::resp::{RawRedis, Reply};
use crate::version::ServerVersion;
use crate::wire::Wire;
use crate::{eventually, keeper, process};

/// Timeout for the start of a server. On a loaded machine, a start can take a second.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// A `redis-server` on its own port. The server keeps no data on disk, and dies with the test process.
///
/// If a method fails, it panics.
///
/// ```no_run
/// use bandog_testkit::{RedisServer, Reply};
/// let redis = RedisServer::start();
/// redis.cmd(&["SET", "k", "v"]);
/// redis.restart();
/// assert_eq!(redis.cmd(&["GET", "k"]), Reply::Nil);
/// ```
#[derive(Debug)]
pub struct RedisServer {
    port: Port,
    tls: Option<Port>,
    /// The port of the cluster bus, reserved for a node of a cluster.
    _bus: Option<Port>,
    dir: TempDir,
    args: Vec<String>,
    child: Mutex<Option<Child>>,
}

/// PEM files for a server with TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate of the authority that signed the client certificates.
    pub ca: PathBuf,
    /// The server's certificate.
    pub cert: PathBuf,
    /// The private key of the server's certificate.
    pub key: PathBuf,
}

/// The page of the documentation that explains which rights a user of Redis needs. Every server that a test starts has
/// the users that this page creates.
const RIGHTS_PAGE: &str = include_str!("../../../docs/redis.md");

impl RedisServer {
    /// The name and the password of a user with only the rights that locks need, as in `docs/redis.md`.
    pub const LEAST: &str = "locks:PASSWORD";
    /// The name and the password of a user with the rights for locks, inspection, records and latches, as in
    /// `docs/redis.md`.
    pub const OPERATOR: &str = "operator:PASSWORD";

    /// The rules of `ACL SETUSER` for locks in `docs/redis.md`.
    #[must_use]
    pub fn least_rights() -> Vec<&'static str> {
        rights(0)
    }

    /// The additional rules of `docs/redis.md` for inspection.
    #[must_use]
    pub fn look_rights() -> Vec<&'static str> {
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

    /// Starts a server and waits until it answers, which takes about 15 ms.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional arguments, such as `&["--requirepass", "x"]`.
    #[must_use]
    #[track_caller]
    pub fn start_with(args: &[&str]) -> Self {
        Self::launched(Port::reserve(), None, None, args.iter().map(ToString::to_string).collect())
    }

    /// Starts a server that listens with TLS on a second port. The server requires a client certificate only if the
    /// arguments contain `--tls-auth-clients yes`.
    #[must_use]
    #[track_caller]
    pub fn start_tls(files: &TlsFiles, args: &[&str]) -> Self {
        let tls = Port::reserve();
        let mut all = ["--tls-auth-clients", "no", "--tls-port"].map(String::from).to_vec();
        all.push(tls.number().to_string());
        for (name, path) in [("ca-cert", &files.ca), ("cert", &files.cert), ("key", &files.key)] {
            all.extend([format!("--tls-{name}-file"), path.display().to_string()]);
        }
        all.extend(args.iter().map(ToString::to_string));
        Self::launched(Port::reserve(), Some(tls), None, all)
    }

    /// Starts a server that is one node of a cluster and has no hash slots yet.
    #[must_use]
    #[track_caller]
    pub fn start_node() -> Self {
        // Before Redis 7, the port of the cluster bus is always the server's port plus 10,000.
        let (port, bus) = Port::reserve_two(10_000);
        Self::launched(port, None, Some(bus), ["--cluster-enabled", "yes"].map(String::from).to_vec())
    }

    /// Makes the `RedisServer`, and starts the server program.
    #[track_caller]
    fn launched(port: Port, tls: Option<Port>, bus: Option<Port>, args: Vec<String>) -> Self {
        let server = Self {
            port,
            tls,
            _bus: bus,
            dir: tempfile::Builder::new()
                .prefix("bandog-redis-")
                .tempdir()
                .expect("cannot make a directory for redis-server"),
            args,
            child: Mutex::new(None),
        };
        server.launch();
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

    /// `redis://127.0.0.1:PORT`, without the password, even if the server requires one.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// The server's address with TLS.
    #[must_use]
    #[track_caller]
    pub fn tls_addr(&self) -> SocketAddrV4 {
        self.tls.as_ref().expect("the server was started without TLS").addr()
    }

    /// The path of the server's Unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    /// The server's pid.
    #[must_use]
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.child().as_ref().expect("the server was killed").id()
    }

    /// Kills the server. Its port refuses connections until [`restart`](Self::restart).
    pub fn kill(&self) {
        let Some(mut child) = self.child().take() else {
            return;
        };
        child.kill().expect("cannot kill redis-server");
        child.wait().expect("cannot wait for the end of redis-server");
    }

    /// Kills the server if it runs, and starts it again on the same port, without data and scripts.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        self.launch();
    }

    /// Stops the server with a signal. The server does not answer, but its connections stay open, and the kernel
    /// accepts new connections.
    #[track_caller]
    pub fn pause(&self) {
        let pid = self.pid();
        process::send(pid, Signal::STOP);
        eventually(READY_WITHIN, || process::state(pid) == Some('T'));
    }

    /// Continues the server after [`pause`](Self::pause).
    #[track_caller]
    pub fn resume(&self) {
        process::send(self.pid(), Signal::CONT);
    }

    /// Starts a proxy in front of this server.
    #[must_use]
    #[track_caller]
    pub fn wire(&self) -> Wire {
        Wire::to(self.addr())
    }

    /// Opens a raw connection. If the server requires a password, the connection is already authenticated.
    #[must_use]
    #[track_caller]
    pub fn client(&self) -> RawRedis {
        self.dial().expect("cannot connect to redis-server")
    }

    /// Sends one command on a separate connection that bypasses every proxy.
    #[track_caller]
    pub fn cmd(&self, args: &[&str]) -> Reply {
        self.client().cmd(args).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    /// All keys, sorted.
    #[must_use]
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.cmd(&["KEYS", "*"]).texts();
        keys.sort();
        keys
    }

    /// The fields and values of a hash, sorted. Empty if the key does not exist.
    #[must_use]
    #[track_caller]
    pub fn hash(&self, key: &str) -> BTreeMap<String, String> {
        let fields = self.cmd(&["HGETALL", key]).texts();
        let pairs = fields.chunks_exact(2);
        pairs.map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    }

    /// The remaining life of a key in milliseconds, as `PTTL` returns it: -1 for a key that does not expire, -2 if the
    /// key does not exist.
    #[must_use]
    #[track_caller]
    pub fn pttl(&self, key: &str) -> i64 {
        self.cmd(&["PTTL", key]).int()
    }

    /// Number of calls of a command since the server's start or the last `CONFIG RESETSTAT`. Examples of commands are
    /// `evalsha` and `client|list`.
    #[must_use]
    #[track_caller]
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.cmd(&["INFO", "commandstats"]);
        let head = format!("cmdstat_{command}:calls=");
        let line = stats.text().lines().find_map(|line| line.strip_prefix(&head));
        line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// Deletes all scripts. In production, a failover can have the same effect.
    #[track_caller]
    pub fn flush_scripts(&self) {
        assert_eq!(self.cmd(&["SCRIPT", "FLUSH"]).text(), "OK");
    }

    /// Tells the server to close the connections of all other clients.
    #[track_caller]
    pub fn kill_clients(&self) {
        let mut client = self.client();
        for kind in ["normal", "pubsub"] {
            let killed = client.cmd(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
            assert!(matches!(killed, Ok(Reply::Int(_))), "{killed:?}");
        }
    }

    #[track_caller]
    /// Starts the server program, and waits until the server answers.
    fn launch(&self) {
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
        let log = File::create(self.log_path())?;
        let mut command = keeper::command(&program);
        // Older servers do not have this option and allow the command `DEBUG` anyway.
        if Self::version().is_since(7, 0) {
            command.args(["--enable-debug-command", "local"]);
        }
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--protected-mode", "no"])
            .arg("--dir")
            .arg(self.dir.path())
            .arg("--unixsocket")
            .arg(self.socket())
            .args([&["--user", "locks"], &rights(0)[..]].concat())
            .args([&["--user", "operator"], &rights(0)[..], &rights(1), &rights(2), &rights(3)].concat())
            .args(&self.args)
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log);
        keeper::spawn(command)
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

    /// Opens a raw connection to the server.
    fn dial(&self) -> io::Result<RawRedis> {
        let mut client = RawRedis::connect(self.addr())?;
        if let Some(password) = self.password() {
            client.cmd(&["AUTH", password])?;
        }
        Ok(client)
    }

    fn password(&self) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == "--requirepass")?;
        self.args.get(at + 1).map(String::as_str)
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("redis.log")
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let Some(mut child) = self.child().take() else {
            return;
        };
        // An error means that the server has ended already. A panic here could hide the panic of the test.
        let _ = child.kill();
        let _ = child.wait();
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
