//! Servers with TLS.

use std::net::SocketAddrV4;

use super::RedisServer;
use crate::authority::TlsFiles;
use crate::port::Port;

impl RedisServer {
    /// Starts a server that listens with TLS on a second port. The server requires a client certificate only if the
    /// arguments contain `--tls-auth-clients yes`. With `--tls-replication yes`, its replicas and sentinels use TLS, with
    /// the same files.
    #[must_use]
    #[track_caller]
    pub fn start_tls(files: &TlsFiles, args: &[&str]) -> Self {
        let server = Self::prepared_tls(Port::reserve(), files, args);
        server.launch();
        server
    }

    /// Starts a node of a cluster whose bus uses TLS, and whose clients with TLS are sent to the ports with TLS of other
    /// nodes.
    #[track_caller]
    pub(crate) fn start_tls_node(files: &TlsFiles, args: &[&str]) -> Self {
        // The bus belongs to the port with TLS.
        let (tls, bus) = Port::reserve_two(10_000);
        let mut server =
            Self::prepared_tls(tls, files, &[&["--cluster-enabled", "yes", "--tls-cluster", "yes"], args].concat());
        server.bus_port = Some(bus);
        server.launch();
        server
    }

    /// Makes a server with TLS on this second port, whose program does not run yet.
    #[track_caller]
    fn prepared_tls(tls: Port, files: &TlsFiles, args: &[&str]) -> Self {
        let mut all = ["--tls-auth-clients", "no", "--tls-port"].map(String::from).to_vec();
        all.push(tls.number().to_string());
        for (name, path) in [("ca-cert", &files.ca), ("cert", &files.cert), ("key", &files.key)] {
            all.extend([format!("--tls-{name}-file"), path.display().to_string()]);
        }
        let mut server = Self::prepared(Port::reserve(), &[]);
        server.args = all;
        server.args.extend(args.iter().map(ToString::to_string));
        server.second_port = Some(tls);
        server
    }

    /// The server's address with TLS.
    #[must_use]
    #[track_caller]
    pub fn tls_addr(&self) -> SocketAddrV4 {
        self.second_port.as_ref().expect("the server was started without TLS").addr()
    }

    /// Adds a port for TLS to a server that needs one and has none: a replica or a sentinel of a master with
    /// `--tls-replication yes`.
    pub(super) fn with_tls_port(mut self) -> Self {
        if self.replicates_with_tls() {
            let port = Port::reserve();
            self.args.extend(["--tls-port".into(), port.number().to_string()]);
            self.second_port = Some(port);
        }
        self
    }

    /// The arguments for TLS that replicas and sentinels of this server need, if this server has `--tls-replication yes`.
    /// Their ports are not part of them.
    pub(crate) fn tls_arguments(&self) -> Vec<&str> {
        if !self.replicates_with_tls() {
            return Vec::new();
        }
        let is_common = |name: &str| name.starts_with("--tls-") && name != "--tls-port";
        let pairs = self.args.windows(2).filter(|pair| is_common(&pair[0]));
        pairs.flatten().map(String::as_str).collect()
    }

    /// Whether replicas, sentinels and other nodes of a cluster connect to this server with TLS.
    pub(super) fn replicates_with_tls(&self) -> bool {
        self.args.iter().any(|arg| arg == "--tls-replication" || arg == "--tls-cluster")
    }
}
