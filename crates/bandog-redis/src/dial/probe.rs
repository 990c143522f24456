//! Probes whether a server speaks TLS, when it does not answer as the URL says. A probe sends nothing secret.

use std::{io, sync::Arc, time::Duration};

use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::tls;

/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of probes over all attempts. More than one, because an answer may come too late.
const MAX_PROBES: u32 = 2;

/// The number of probes that the attempts to open one connection may still make.
#[derive(Debug)]
pub(crate) struct ProbeBudget(u32);

impl ProbeBudget {
    /// The budget of the connection whose errors users read.
    pub(crate) fn few() -> Self {
        Self(MAX_PROBES)
    }

    /// The budget of any other connection.
    pub(crate) fn none() -> Self {
        Self(0)
    }

    /// Takes one probe of the budget. False if none is left.
    fn take(&mut self) -> bool {
        let is_left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        is_left
    }

    /// Whether a Redis without TLS listens there.
    pub(super) async fn finds_plain_redis(&mut self, host: &str, port: u16) -> bool {
        self.take() && is_plain_redis(host, port).await
    }

    /// Whether the server there speaks TLS.
    pub(super) async fn finds_tls(&mut self, host: &str, port: u16) -> bool {
        self.take() && speaks_tls(host, port).await
    }
}

async fn is_plain_redis(host: &str, port: u16) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut first = [0];
        stream.read_exact(&mut first).await?;
        io::Result::Ok(first)
    };
    matches!(timeout(PROBE_TIMEOUT, ask).await, Ok(Ok([b'+' | b'-'])))
}

async fn speaks_tls(host: &str, port: u16) -> bool {
    let ask = async {
        let trusting = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .ok()?;
        let config = trusting.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).ok()?;
        let stream = TcpStream::connect((host, port)).await.ok()?;
        // This client trusts no authority, so it refuses any certificate. The server has shown one, and so speaks TLS.
        let error = TlsConnector::from(Arc::new(config)).connect(name, stream).await.err()?;
        tls::cause(&error).map(|cause| !matches!(cause, rustls::Error::InvalidMessage(_)))
    };
    matches!(timeout(PROBE_TIMEOUT, ask).await, Ok(Some(true)))
}
