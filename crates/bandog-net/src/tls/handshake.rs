//! The TLS handshake of a new connection.

use std::sync::Arc;

use bandog_core::{Error, Result};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::ServerName,
};
use tokio::{net::TcpStream, task::spawn_blocking};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    OptionNames,
    files::{TlsFiles, config, trusting},
    refusal::{cause, refused},
    unchecked::unchecked_config,
};

/// Does the TLS handshake with this host. `store` is the server's address, for error messages.
///
/// # Errors
/// - `Denied`: the client refuses the server's certificate, or the server refuses the client's.
/// - `Unavailable`: the connection ended, or the server aborted the handshake.
/// - `Unsupported`: the server does not speak TLS, or has no version or cipher in common with this client.
/// - `Misused`: a file cannot be used, or the host is not a host name.
///
/// # Cancel safety
/// If the future is dropped, the connection is closed.
pub async fn shake_hands(
    store: &str,
    host: &str,
    files: &TlsFiles,
    names: &OptionNames,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>> {
    let name = server_name(host)?;
    let (files, option_names) = (files.clone(), *names);
    let config = spawn_blocking(move || config(&files, &option_names)).await;
    let config =
        config.map_err(|error| Error::unavailable("the Tokio runtime is shutting down").caused_by(error))??;
    connect(store, name, config, names, stream).await
}

/// Does the TLS handshake with this host, and accepts every certificate. The connection is then safe from readers of the
/// network, and not from a server that pretends to be this host.
///
/// # Errors
/// As [`shake_hands`]; the client refuses no certificate.
///
/// # Cancel safety
/// If the future is dropped, the connection is closed.
pub async fn shake_hands_unchecked(
    store: &str,
    host: &str,
    names: &OptionNames,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>> {
    connect(store, server_name(host)?, unchecked_config()?, names, stream).await
}

async fn connect(
    store: &str,
    name: ServerName<'static>,
    config: ClientConfig,
    names: &OptionNames,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>> {
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    stream.map_err(|error| match cause(&error) {
        Some(cause) => refused(store, names, cause),
        None => {
            let cure = names.without_tls;
            let message = format!(
                "{store} closed the connection during the TLS handshake; if the server has no TLS, write {cure} in the URL"
            );
            Error::unavailable(message).caused_by(error)
        }
    })
}

/// Begins a TLS handshake with this host, and checks whether the server takes part in it. Does not end if the server is
/// silent.
///
/// # Cancel safety
/// If the future is dropped, the connection is closed.
pub async fn speaks_tls(host: &str, stream: TcpStream) -> bool {
    let Ok(name) = server_name(host) else { return false };
    // This client trusts no authority, so it refuses every certificate, and the handshake always fails. The error
    // InvalidMessage means that the server does not speak TLS. Any other TLS error means that the server speaks TLS.
    let Ok(config) = trusting(RootCertStore::empty()) else { return false };
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let Err(error) = connector.connect(name, stream).await else { return false };
    cause(&error).is_some_and(|cause| !matches!(cause, rustls::Error::InvalidMessage(_)))
}

/// Checks that a certificate can be issued for this host.
///
/// # Errors
/// `Misused`: it is neither a name of DNS nor an IP address.
pub fn check_host(host: &str) -> Result<()> {
    server_name(host).map(|_| ())
}

fn server_name(host: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned())
        .map_err(|error| Error::misused(format!("{host:?} is not a host name")).caused_by(error))
}

/// Chooses `ring` as the cryptography provider of the process, unless the process has chosen one. Client libraries that
/// accept no provider use that of the process, and panic without one if the program contains several.
pub fn choose_provider() {
    if CryptoProvider::get_default().is_none() {
        // An error means that another thread has chosen one meanwhile.
        let _ = ring::default_provider().install_default();
    }
}
