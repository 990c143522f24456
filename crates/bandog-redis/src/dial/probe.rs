//! A question to a server that does not answer as the URL says: does it speak TLS? Nothing secret is sent.

use std::{io, sync::Arc, time::Duration};

use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::tls;

/// Maximum time for an answer.
const LIMIT: Duration = Duration::from_millis(500);
/// Maximum number of probes over all dials. More than one, since an answer may come too late.
const PROBES: u32 = 2;

/// The probes that the dials of one connection may still make.
#[derive(Debug)]
pub(crate) struct Probes(u32);

impl Probes {
    /// For the connection whose errors users read.
    pub(crate) fn few() -> Self {
        Self(PROBES)
    }

    /// For any other.
    pub(crate) fn none() -> Self {
        Self(0)
    }

    /// Whether one more may be made, which it then is.
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
    matches!(timeout(LIMIT, ask).await, Ok(Ok([b'+' | b'-'])))
}

async fn speaks_tls(host: &str, port: u16) -> bool {
    let ask = async {
        let trusting = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .ok()?;
        let config = trusting.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).ok()?;
        let stream = TcpStream::connect((host, port)).await.ok()?;
        // Its certificate is refused, since no authority is trusted: what counts is that it has shown one.
        let error = TlsConnector::from(Arc::new(config)).connect(name, stream).await.err()?;
        tls::cause(&error).map(|cause| !matches!(cause, rustls::Error::InvalidMessage(_)))
    };
    matches!(timeout(LIMIT, ask).await, Ok(Some(true)))
}
