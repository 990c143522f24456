//! TLS with the client library, which has a connection of its own, and with the connections of the health check.

use std::{fs, io, path::Path};

use bandog_core::{Error, Result};
use bandog_net::tls::{OptionNames, TlsFiles};
use base64::prelude::{BASE64_STANDARD, Engine};
use tokio::{net::TcpStream, task::spawn_blocking};
use tokio_rustls::client::TlsStream;
use zookeeper_client::{
    Client, Connector, Error as ZkError, TlsCa, TlsCerts, TlsDynamicCerts, TlsIdentity, TlsOptions,
};

use super::FileOptions;
use crate::servers::dial;

const NAMES: OptionNames = OptionNames { ca: "ca", cert: "cert", key: "key", without_tls: "zookeeper://" };

/// The files of a client with TLS.
#[derive(Debug, Clone)]
pub(crate) struct Tls(TlsFiles);

/// The certificates of a client, which can change between two connections.
#[derive(Debug, Clone)]
pub(crate) struct Certificates {
    files: Tls,
    live: TlsDynamicCerts,
}

impl Tls {
    /// Checks the options, and the names of the servers, which are separated by commas. The files are not read yet.
    pub(crate) fn new(options: FileOptions, servers: &str) -> Result<Self> {
        let identity = match (options.cert, options.key) {
            (Some(cert), Some(key)) => Some((cert.into(), key.into())),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                let message =
                    "the URL names a certificate or a key alone; expected both ?cert=PATH&key=PATH or neither";
                return Err(Error::misused(message));
            }
        };
        // The client library panics with such a name.
        for host in servers.split(',').map(host_of) {
            bandog_net::tls::check_host(host)?;
        }
        Ok(Self(TlsFiles { ca: options.ca.map(Into::into), identity }))
    }

    /// Reads the files.
    pub(crate) async fn read(&self) -> Result<Certificates> {
        Ok(Certificates { files: self.clone(), live: TlsDynamicCerts::new(self.read_now().await?) })
    }

    async fn read_now(&self) -> Result<TlsCerts> {
        let files = self.0.clone();
        let read = spawn_blocking(move || certificates(&files)).await;
        read.map_err(|error| Error::unavailable("the Tokio runtime is shutting down").caused_by(error))?
    }

    /// Does the TLS handshake with a server. `store` is the address for error messages.
    pub(crate) async fn shake_hands(
        &self,
        store: &str,
        server: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>> {
        bandog_net::tls::shake_hands(store, host_of(server), &self.0, &NAMES, stream).await
    }

    /// The error if the server has refused this client after the handshake.
    pub(crate) fn refusal(&self, store: &str, error: &io::Error) -> Option<Error> {
        bandog_net::tls::cause(error).map(|cause| bandog_net::tls::refused(store, &NAMES, cause))
    }
}

impl Certificates {
    /// Connects with the present certificates.
    pub(crate) async fn connect(&self, connector: Connector, servers: &str) -> Result<Client, ZkError> {
        // The client library uses the provider of the process.
        bandog_net::tls::choose_provider();
        connector.with_tls(TlsOptions::new().with_certs(self.live.clone())).secure_connect(servers).await
    }

    /// Reads the files again, for later connections.
    pub(crate) async fn read_again(&self) -> Result<()> {
        self.live.update(self.files.read_now().await?);
        Ok(())
    }
}

/// The certificates in these files.
fn certificates(files: &TlsFiles) -> Result<TlsCerts> {
    // This check has errors that name the file.
    bandog_net::tls::config(files, &NAMES)?;
    let authorities = match &files.ca {
        Some(path) => text_of(path)?,
        None => bandog_net::tls::certificates_of_the_system().iter().map(|root| as_pem(root)).collect(),
    };
    let unusable = |error| Error::misused("the certificates for TLS cannot be used").caused_by(error);
    let builder = TlsCerts::builder().with_ca(TlsCa::from_pem(&authorities).map_err(unusable)?);
    let builder = match &files.identity {
        Some((cert, key)) => {
            builder.with_identity(TlsIdentity::from_pem(&text_of(cert)?, &text_of(key)?).map_err(unusable)?)
        }
        None => builder,
    };
    builder.build().map_err(unusable)
}

/// The text of a PEM file. Text outside the certificates can have any encoding.
fn text_of(path: &Path) -> Result<String> {
    let bytes = fs::read(path)
        .map_err(|error| Error::misused(format!("the file {} cannot be read", path.display())).caused_by(error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A certificate as a text in PEM format (RFC 7468), the only format that the client library reads.
fn as_pem(certificate: &[u8]) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", BASE64_STANDARD.encode(certificate))
}

/// Whether the server speaks TLS. Does not end if the server is silent.
pub(crate) async fn is_spoken_by(server: &str) -> bool {
    match dial(server).await {
        Ok(stream) => bandog_net::tls::speaks_tls(host_of(server), stream).await,
        Err(_) => false,
    }
}

/// The host of a server's address, which has a port.
fn host_of(server: &str) -> &str {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
