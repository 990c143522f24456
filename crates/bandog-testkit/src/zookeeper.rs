//! A ZooKeeper server for one test.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal};
use tempfile::TempDir;

use crate::authority::TlsFiles;
use crate::port::Port;
use crate::wire::Wire;
use crate::{eventually, keeper, process};

/// Timeout for the start of a server. On a loaded machine, a start can take several seconds, and a server of an ensemble
/// also waits for the election of a leader.
const READY_WITHIN: Duration = Duration::from_secs(90);
/// Timeout of one question to a server.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Timeout of one question to a server that starts. A server that has accepted the connection too early never answers, and
/// the next question finds it ready.
const STARTING_ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// A ZooKeeper server on its own port, with a tick of 200 ms. Sessions last from 400 ms to 60 s. The server keeps its
/// data in a directory of its own, and dies with the test process.
///
/// If a method fails, it panics.
///
/// ```no_run
/// use bandog_testkit::ZooKeeperServer;
/// let server = ZooKeeperServer::start();
/// assert_eq!(server.ask("ruok"), "imok");
/// server.restart();
/// ```
#[derive(Debug)]
pub struct ZooKeeperServer {
    port: Port,
    dir: TempDir,
    /// Further lines of the configuration file.
    lines: Vec<String>,
    /// Properties of its Java, such as `jute.maxbuffer=100000`.
    properties: Vec<String>,
    /// The server's number in its ensemble. None if it is alone.
    number: Option<usize>,
    /// The port for TLS. None if the server has none.
    tls_port: Option<Port>,
    child: Mutex<Option<Child>>,
}

impl ZooKeeperServer {
    /// The jar of the Debian package `zookeeper`, which all servers run. Its manifest names the other jars.
    pub const JAR: &str = "/usr/share/java/zookeeper.jar";

    /// Starts a server and waits until it answers, which takes about half a second.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional lines of its configuration, such as `maxSessionTimeout=1000`.
    #[must_use]
    #[track_caller]
    pub fn start_with(lines: &[&str]) -> Self {
        let server = Self::new(lines.iter().map(ToString::to_string).collect(), None);
        server.launch();
        server
    }

    /// Starts a server with these properties of its Java, such as `jute.maxbuffer=100000`.
    #[must_use]
    #[track_caller]
    pub fn start_with_properties(properties: &[&str]) -> Self {
        let mut server = Self::new(Vec::new(), None);
        server.properties = properties.iter().map(ToString::to_string).collect();
        server.launch();
        server
    }

    /// Starts a server that listens with TLS on a second port, with additional lines of its configuration. It requires a
    /// client certificate of the same authority, unless a line is `ssl.clientAuth=none`. Both sides can have new files after
    /// [`restart`](Self::restart).
    #[must_use]
    #[track_caller]
    pub fn start_tls(files: &TlsFiles, lines: &[&str]) -> Self {
        let port = Port::reserve();
        let mut all: Vec<_> = lines.iter().map(ToString::to_string).collect();
        all.extend([
            format!("secureClientPort={}", port.number()),
            "secureClientPortAddress=127.0.0.1".to_owned(),
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
            "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider".to_owned(),
            "ssl.keyStore.type=PEM".to_owned(),
            "ssl.trustStore.type=PEM".to_owned(),
            format!("ssl.trustStore.location={}", files.ca.display()),
        ]);
        let mut server = Self::new(all, None);
        server.tls_port = Some(port);
        let store = server.dir.path().join("store.pem");
        server.lines.push(format!("ssl.keyStore.location={}", store.display()));
        let read = |path| fs::read_to_string(path).expect("cannot read a file for TLS");
        // The server wants the key and the certificate in one file.
        fs::write(&store, read(&files.key) + &read(&files.cert)).expect("cannot write the files for TLS");
        server.launch();
        server
    }

    /// The server's address with TLS.
    #[must_use]
    #[track_caller]
    pub fn tls_addr(&self) -> SocketAddrV4 {
        self.tls_port.as_ref().expect("the server was started without TLS").addr()
    }

    /// A server of an ensemble that does not run yet.
    pub(crate) fn in_ensemble(lines: Vec<String>, number: usize) -> Self {
        Self::new(lines, Some(number))
    }

    /// The mode that the server reports: `leader`, `follower` or `standalone`. None if it does not serve clients.
    #[must_use]
    pub fn mode(&self) -> Option<String> {
        let answer = self.try_ask("srvr").ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    /// A server that does not run yet.
    fn new(lines: Vec<String>, number: Option<usize>) -> Self {
        let dir = tempfile::Builder::new().prefix("bandog-zookeeper-").tempdir();
        Self {
            port: Port::reserve(),
            dir: dir.expect("cannot make a directory for ZooKeeper"),
            lines,
            properties: Vec::new(),
            number,
            tls_port: None,
            child: Mutex::new(None),
        }
    }

    /// The server's address. After a restart, the address is the same.
    #[must_use]
    pub fn addr(&self) -> SocketAddrV4 {
        self.port.addr()
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
        child.kill().expect("cannot kill ZooKeeper");
        child.wait().expect("cannot wait for the end of ZooKeeper");
    }

    /// Kills the server if it runs, and starts it again on the same port with the same data. Waits until it serves clients,
    /// so a majority of its ensemble must run.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        self.launch();
    }

    /// Kills the server if it runs, and starts it again on the same port without data.
    #[track_caller]
    pub fn restart_empty(&self) {
        self.kill();
        fs::remove_dir_all(self.data()).expect("cannot delete the data of ZooKeeper");
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

    /// Makes each further write of the server to its disk fail, as on a full disk. This lasts until
    /// [`restart`](Self::restart).
    ///
    /// The limit of the size of files, which a process may lower for another process of the same user, refuses each write
    /// behind this position.
    #[track_caller]
    pub fn fill_disk(&self) {
        let pid = i32::try_from(self.pid()).ok().and_then(rustix::process::Pid::from_raw);
        let limit = Rlimit { current: Some(1), maximum: Some(1) };
        rustix::process::prlimit(pid, Resource::Fsize, limit).expect("cannot limit the files of ZooKeeper");
    }

    /// The folder of the server's data. A program may change the data while the server does not run.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Starts a proxy in front of this server.
    #[must_use]
    #[track_caller]
    pub fn wire(&self) -> Wire {
        Wire::to(self.addr())
    }

    /// The answer to a command of four letters, such as `mntr`, on a connection that bypasses every proxy.
    #[must_use]
    #[track_caller]
    pub fn ask(&self, command: &str) -> String {
        self.try_ask(command).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    fn try_ask(&self, command: &str) -> io::Result<String> {
        self.ask_within(ANSWERS_WITHIN, command)
    }

    fn ask_within(&self, timeout: Duration, command: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.addr())?;
        stream.set_read_timeout(Some(timeout))?;
        stream.write_all(command.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Starts the server program, and waits until the server answers.
    #[track_caller]
    fn launch(&self) {
        self.begin();
        self.wait_until_ready();
    }

    /// Starts the server program.
    #[track_caller]
    pub(crate) fn begin(&self) {
        let child = self.spawn().unwrap_or_else(|error| {
            panic!("cannot start ZooKeeper ({error}); `cargo xtask test` installs what the tests need")
        });
        *self.child() = Some(child);
    }

    #[track_caller]
    pub(crate) fn wait_until_ready(&self) {
        // A server answers `ruok` before it serves clients.
        eventually(READY_WITHIN, || match self.ask_within(STARTING_ANSWERS_WITHIN, "srvr") {
            Ok(answer) if answer.contains("Mode: ") => Ok(()),
            Ok(answer) => Err(answer),
            Err(error) => {
                self.check_child();
                Err(error.to_string())
            }
        });
    }

    fn spawn(&self) -> io::Result<Child> {
        if !Path::new(Self::JAR).is_file() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is missing", Self::JAR)));
        }
        fs::create_dir_all(self.data())?;
        if let Some(number) = self.number {
            fs::write(self.data().join("myid"), number.to_string())?;
        }
        let configuration = self.dir.path().join("zoo.cfg");
        fs::write(&configuration, self.configuration())?;
        let log = File::options().create(true).append(true).open(self.log_path())?;
        // The manifest of the jar lacks two jars that a server with TLS needs.
        let class_path = format!("{}:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar", Self::JAR);
        let mut command = keeper::command("java");
        command
            .args([
                "-Xmx64m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:ActiveProcessorCount=1",
                "-cp",
                &class_path,
            ])
            .args(self.properties.iter().map(|property| format!("-D{property}")))
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(configuration)
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log);
        keeper::spawn(command)
    }

    fn configuration(&self) -> String {
        let (port, data) = (self.port.number(), self.data());
        format!(
            "tickTime=200\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nminSessionTimeout=400\n\
             maxSessionTimeout=60000\nmaxClientCnxns=0\nforceSync=no\nadmin.enableServer=false\n\
             4lw.commands.whitelist=*\n{}\n",
            data.display(),
            self.lines.join("\n")
        )
    }

    /// Panics with the server's log if the server has exited. So the test does not have to wait for the timeout.
    #[track_caller]
    fn check_child(&self) {
        if let Some(child) = self.child().as_mut()
            && let Ok(Some(status)) = child.try_wait()
        {
            let log = fs::read_to_string(self.log_path()).unwrap_or_default();
            panic!("ZooKeeper ended ({status}) before it was ready:\n{log}");
        }
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("zookeeper.log")
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ZooKeeperServer {
    fn drop(&mut self) {
        let Some(mut child) = self.child().take() else {
            return;
        };
        // An error means that the server has ended already. A panic here could hide the panic of the test.
        let _ = child.kill();
        let _ = child.wait();
    }
}
