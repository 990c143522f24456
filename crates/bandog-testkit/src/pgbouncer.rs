//! A PgBouncer for tests.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::port::Port;
use crate::{PostgresServer, Process, eventually};

/// Timeout for the start.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A `pgbouncer` on its own port, in front of a server. All its clients log in to the server as
/// [`PostgresServer::LOCKS`]. It ends when this value is dropped, or when the test process ends.
///
/// If a method fails, it panics.
#[derive(Debug)]
pub struct PgBouncer {
    port: Port,
    _process: Process,
    _dir: TempDir,
}

impl PgBouncer {
    /// Starts a PgBouncer with this `pool_mode`, such as `transaction`, and waits until it accepts connections.
    #[must_use]
    #[track_caller]
    pub fn start(server: &PostgresServer, pool_mode: &str) -> Self {
        let (port, dir) = (Port::reserve(), tempfile::tempdir().expect("cannot make a directory for pgbouncer"));
        let file = dir.path().join("pgbouncer.ini");
        let (user, password) = PostgresServer::LOCKS.split_once(':').expect("the login has a password");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user={user} password={password}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\nauth_type = any\npool_mode = {pool_mode}\n",
            server.port(),
            port.number(),
        );
        fs::write(&file, text).expect("cannot write the file of pgbouncer");
        // It refuses to run as root.
        let open =
            |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("cannot set the mode");
        open(dir.path(), 0o755);
        open(&file, 0o644);
        let mut command = Command::new(if fs::exists("/usr/sbin/pgbouncer").unwrap_or_default() {
            "/usr/sbin/pgbouncer"
        } else {
            "pgbouncer"
        });
        if rustix::process::getuid().is_root() {
            command.args(["-u", "postgres"]);
        }
        let process = Process::spawn(command.arg(&file));
        eventually(READY_WITHIN, || TcpStream::connect(port.addr()).is_ok());
        Self { port, _process: process, _dir: dir }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }
}
