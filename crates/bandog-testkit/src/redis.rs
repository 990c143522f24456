//! A Redis server for one test.

mod launch;
mod queries;
mod tls;

use std::io;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::port::Port;
use crate::resp::{RawRedis, Reply};
use crate::wire::Wire;
use crate::{eventually, process};

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
    /// The port for TLS, or the port of the cluster bus of a node.
    second_port: Option<Port>,
    /// The port of the cluster bus of a node with TLS.
    bus_port: Option<Port>,
    /// The proxy through which other processes connect, for a server on a machine of its own.
    network: Option<Wire>,
    mode: Mode,
    dir: TempDir,
    args: Vec<String>,
    /// The password of [`RedisServer::OPERATOR`], if it was changed.
    operator_password: Mutex<Option<String>>,
    child: Mutex<Option<Child>>,
}

/// The mode of the program.
#[derive(Debug)]
pub(crate) enum Mode {
    /// It stores data.
    Data,
    /// It is a sentinel. These are the lines of its first configuration file. The sentinel itself changes the file.
    Sentinel(Vec<String>),
}

impl RedisServer {
    /// The name and the password of a user with only the rights that locks need, as in `docs/redis.md`.
    pub const LEAST: &str = "locks:PASSWORD";
    /// The name and the password of a user with the rights for locks, inspection, records and latches, as in
    /// `docs/redis.md`.
    pub const OPERATOR: &str = "operator:PASSWORD";

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
        Self::launched(Port::reserve(), args)
    }

    /// Starts a server behind a proxy, as if it ran on a machine of its own. Replicas and sentinels of this server connect
    /// through the proxy. See [`network`](Self::network) and [`lose_machine`](Self::lose_machine).
    #[must_use]
    #[track_caller]
    pub fn start_on_machine(args: &[&str]) -> Self {
        Self::prepared(Port::reserve(), args).launched_on_machine()
    }

    /// Starts the replica itself, whose data come from the server at this port.
    #[track_caller]
    pub(crate) fn start_replica(master: &Self, source: u16, args: &[&str]) -> Self {
        let port = Port::reserve();
        let source = source.to_string();
        let mut all = vec!["--replicaof", "127.0.0.1", &source];
        all.extend(master.tls_arguments());
        if let Some(password) = master.password() {
            all.extend(["--requirepass", password, "--masterauth", password]);
        }
        all.extend(args);
        if master.network.is_some() {
            return Self::prepared(port, &all).launched_on_machine();
        }
        let mut replica = Self::prepared(port, &all).with_tls_port();
        let own = replica.outer_addr().port().to_string();
        replica.args.extend(["--replica-announce-ip", "127.0.0.1", "--replica-announce-port", &own].map(String::from));
        replica.launch();
        replica
    }

    /// Starts the server program behind a proxy.
    #[track_caller]
    fn launched_on_machine(mut self) -> Self {
        let network = Wire::to(self.addr());
        self.args.extend(["--replica-announce-ip".into(), "127.0.0.1".into()]);
        self.args.extend(["--replica-announce-port".into(), network.port().to_string()]);
        self.network = Some(network);
        self.launch();
        self
    }

    /// Starts a server that is one node of a cluster and has no hash slots yet.
    #[must_use]
    #[track_caller]
    pub fn start_node() -> Self {
        Self::start_node_with(&[])
    }

    /// Starts a node of a cluster with additional arguments. See [`RedisCluster`](crate::RedisCluster) for a whole
    /// cluster.
    #[must_use]
    #[track_caller]
    pub fn start_node_with(args: &[&str]) -> Self {
        // Before Redis 7, the port of the cluster bus is always the server's port plus 10,000.
        let (port, bus) = Port::reserve_two(10_000);
        let mut server = Self::prepared(port, &[&["--cluster-enabled", "yes"], args].concat());
        server.second_port = Some(bus);
        server.launch();
        server
    }

    /// Starts a sentinel. The configuration file needs no port and no directory.
    #[track_caller]
    pub(crate) fn start_sentinel(configuration: Vec<String>, args: &[&str]) -> Self {
        let mut server = Self::prepared(Port::reserve(), args).with_tls_port();
        server.mode = Mode::Sentinel(configuration);
        server.launch();
        server
    }

    /// Makes the `RedisServer`, and starts the server program.
    #[track_caller]
    pub(crate) fn launched(port: Port, args: &[&str]) -> Self {
        let server = Self::prepared(port, args);
        server.launch();
        server
    }

    /// Makes a `RedisServer` whose program does not run yet.
    #[track_caller]
    fn prepared(port: Port, args: &[&str]) -> Self {
        Self {
            port,
            second_port: None,
            bus_port: None,
            network: None,
            mode: Mode::Data,
            dir: tempfile::Builder::new()
                .prefix("bandog-redis-")
                .tempdir()
                .expect("cannot make a directory for redis-server"),
            args: args.iter().map(ToString::to_string).collect(),
            operator_password: Mutex::new(None),
            child: Mutex::new(None),
        }
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

    /// The address at which other machines reach the server: the address of the proxy if the server has a machine of its
    /// own, the address with TLS if other servers connect with TLS, else the server's address.
    #[must_use]
    pub fn outer_addr(&self) -> SocketAddrV4 {
        match &self.network {
            Some(network) => network.addr(),
            None if self.replicates_with_tls() => self.tls_addr(),
            None => self.addr(),
        }
    }

    /// The network of the server's machine.
    ///
    /// # Panics
    /// If the server was not started with [`start_on_machine`](Self::start_on_machine) or as a replica of such a server.
    #[must_use]
    #[track_caller]
    pub fn network(&self) -> &Wire {
        self.network.as_ref().expect("the server has no machine of its own")
    }

    /// Does what a power failure of the server's machine does, for all processes that connect through
    /// [`network`](Self::network): nothing that the server has sent or sends arrives any more, and its connections stay
    /// open and silent.
    ///
    /// The program itself is stopped with a signal and not killed. After a kill, the kernel would refuse new connections,
    /// which a machine without power does not do.
    ///
    /// # Panics
    /// If the server has no machine of its own.
    #[track_caller]
    pub fn lose_machine(&self) {
        self.network().lose_everything();
        self.pause();
    }

    /// `redis://127.0.0.1:PORT`, without the password, even if the server requires one.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
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

    /// Changes the password of [`RedisServer::OPERATOR`]. It stays after a restart.
    #[track_caller]
    pub(crate) fn set_operator_password(&self, password: &str) {
        *self.operator_password.lock().unwrap_or_else(PoisonError::into_inner) = Some(password.to_owned());
        assert_eq!(self.cmd(&["ACL", "SETUSER", "operator", "resetpass", &format!(">{password}")]).text(), "OK");
    }

    /// The directory of the server. It is removed when this value is dropped.
    pub(crate) fn directory(&self) -> &Path {
        self.dir.path()
    }

    /// Whether the server was neither killed nor stopped with a signal.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let pid = self.child().as_ref().map(Child::id);
        pid.is_some_and(|pid| !matches!(process::state(pid), None | Some('T' | 'Z' | 'X')))
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

    /// Sends a command on a connection of its own, as [`RedisServer::cmd`] does. Sentinels that promote a server end its
    /// connections.
    ///
    /// # Errors
    /// The connection was refused, or has ended.
    pub fn try_cmd(&self, args: &[&str]) -> io::Result<Reply> {
        self.dial()?.cmd(args)
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

    /// Deletes all scripts. In production, a failover can have the same effect.
    #[track_caller]
    pub fn flush_scripts(&self) {
        assert_eq!(self.cmd(&["SCRIPT", "FLUSH"]).text(), "OK");
    }

    /// Closes the connections of all other clients.
    #[track_caller]
    pub fn kill_clients(&self) {
        let mut client = self.client();
        for kind in ["normal", "pubsub"] {
            let killed = client.cmd(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
            assert!(matches!(killed, Ok(Reply::Int(_))), "{killed:?}");
        }
    }

    /// Opens a raw connection to the server.
    fn dial(&self) -> io::Result<RawRedis> {
        let mut client = RawRedis::connect(self.addr())?;
        if let Some(password) = self.password() {
            client.cmd(&["AUTH", password])?;
        }
        Ok(client)
    }

    pub(crate) fn password(&self) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == "--requirepass")?;
        self.args.get(at + 1).map(String::as_str)
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
