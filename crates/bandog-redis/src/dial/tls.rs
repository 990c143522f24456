//! TLS: the trusted authorities, the client's certificate, and the errors of a failed TLS handshake.
//!
//! The cryptography provider is passed to each configuration. It is not installed as the default of the process. So
//! this crate works in the same way even if the user's program has installed another provider as the default.

use std::{io, path::Path, sync::Arc};

use bandog_core::{
    Error,
    ErrorKind::{self, Denied, Unavailable, Unsupported},
    Result,
};
use rustls::{
    AlertDescription as Alert, CertificateError as Certificate, ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{net::TcpStream, task::spawn_blocking};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::options::TlsFiles;

/// Does the TLS handshake with this host. `store` is the server's address, for error messages.
pub(super) async fn shake_hands(
    store: &str,
    host: &str,
    files: &TlsFiles,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| Error::misused(format!("{host:?} is not a host name")).caused_by(error))?;
    let files = files.clone();
    let config = spawn_blocking(move || config(&files)).await;
    let config =
        config.map_err(|error| Error::unavailable("the Tokio runtime is shutting down").caused_by(error))??;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    stream.map_err(|error| match cause(&error) {
        Some(cause) => refused(store, cause),
        None => Error::unavailable(format!(
            "{store} closed the connection during the TLS handshake; if the server has no TLS, write redis:// in the \
             URL"
        ))
        .caused_by(error),
    })
}

/// The TLS error inside an I/O error of a TLS stream.
pub(super) fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// The error of a failed TLS handshake. The message says which side refused the other side, and what the user can do.
/// `store` is the server's address, for the message.
pub(super) fn refused(store: &str, error: &rustls::Error) -> Error {
    let (kind, message) = meaning(error);
    Error::new(kind, format!("{store}: {message}")).caused_by(error.clone())
}

/// The kind of the error, and its message.
fn meaning(error: &rustls::Error) -> (ErrorKind, &'static str) {
    match error {
        rustls::Error::InvalidCertificate(error) => (Denied, our_refusal(error)),
        rustls::Error::AlertReceived(alert) => server_alert(*alert),
        rustls::Error::InvalidMessage(_) => {
            (Unsupported, "the server does not speak TLS; if it is a Redis server, write redis:// in the URL")
        }
        rustls::Error::PeerIncompatible(_) => {
            (Unsupported, "the server and this client have no TLS version or cipher in common")
        }
        _ => (Unavailable, "the TLS handshake failed"),
    }
}

/// The message if this client refuses the server's certificate.
fn our_refusal(error: &Certificate) -> &'static str {
    match error {
        Certificate::UnknownIssuer => {
            "we refuse the server's certificate: no authority that we trust has signed it; if you trust its authority, \
             add ?ca=PATH with the authority's file to the URL"
        }
        Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
            "we refuse the server's certificate: it was not issued for this host; in the URL, use a host for which the \
             certificate was issued"
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => {
            "we refuse the server's certificate: it has expired; have it renewed, or check this machine's clock"
        }
        Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
            "we refuse the server's certificate: it is not valid yet; check this machine's clock"
        }
        _ => "we refuse the server's certificate",
    }
}

/// The kind and the message of the error if the server has sent this alert. An alert that is not listed here might have
/// a temporary cause, so its kind is `Unavailable`. For example, a proxy sends such an alert while it cannot reach its
/// server.
fn server_alert(alert: Alert) -> (ErrorKind, &'static str) {
    match alert {
        Alert::CertificateRequired => {
            (Denied, "the server requires a client certificate; name it with ?cert=PATH&key=PATH")
        }
        Alert::HandshakeFailure => (
            Denied,
            "the server refuses the handshake; if it requires a client certificate, name it with \
             ?cert=PATH&key=PATH",
        ),
        Alert::UnknownCA
        | Alert::BadCertificate
        | Alert::CertificateExpired
        | Alert::CertificateRevoked
        | Alert::CertificateUnknown
        | Alert::UnsupportedCertificate
        | Alert::DecryptError
        | Alert::AccessDenied => (
            Denied,
            "the server refuses our certificate; ?cert=PATH must name one that is valid and signed by an authority \
             that the server trusts",
        ),
        Alert::UnrecognisedName => (Denied, "the server does not know the host of the URL"),
        Alert::ProtocolVersion => (Unsupported, "the server speaks neither TLS 1.2 nor 1.3"),
        _ => (Unavailable, "the server aborted the handshake"),
    }
}

/// The client's TLS configuration with these files.
fn config(files: &TlsFiles) -> Result<ClientConfig> {
    // `versions` and `trusting` are builders of the configuration. `versions` has the TLS versions. `trusting` also has
    // the trusted authorities.
    let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(Unsupported, "the TLS configuration cannot be created").caused_by(error))?;
    let trusting = versions.with_root_certificates(match &files.ca {
        Some(path) => roots_in(path)?,
        None => roots_of_the_system()?,
    });
    let Some((cert, key)) = &files.identity else {
        return Ok(trusting.with_no_client_auth());
    };
    let unreadable = unreadable("key", key);
    let secret = PrivateKeyDer::from_pem_file(key).map_err(unreadable)?;
    trusting.with_client_auth_cert(certificates("cert", cert)?, secret).map_err(|error| {
        let message = match &error {
            rustls::Error::InconsistentKeys(_) => {
                format!("the key {} does not match the certificate {}", key.display(), cert.display())
            }
            _ => format!(
                "the certificate {} with the key {} cannot be used; it must be an X.509 certificate of version 3",
                cert.display(),
                key.display()
            ),
        };
        Error::misused(message).caused_by(error)
    })
}

/// The trusted authorities in this file.
fn roots_in(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", path)? {
        roots.add(certificate).map_err(|error| {
            Error::misused(format!("the file {} of ?ca= contains a certificate that cannot be parsed", path.display()))
                .caused_by(error)
        })?;
    }
    Ok(roots)
}

/// The authorities that this system trusts.
fn roots_of_the_system() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // An authority whose certificate cannot be parsed is skipped. The client can still trust each server whose
    // certificate is signed by one of the other authorities.
    let _ = roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let message =
        "this system has no trusted authorities; install its package ca-certificates, or add ?ca=PATH to the URL";
    let error = Error::new(Denied, message);
    Err(match found.errors.into_iter().next() {
        Some(cause) => error.caused_by(cause),
        None => error,
    })
}

/// The certificates in a file. Fails if the file contains none. `option` is the option of the URL that names the file.
fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(unreadable(option, path))?;
    if certificates.is_empty() {
        return Err(Error::misused(format!(
            "the file {} of ?{option}= contains no certificate in PEM format",
            path.display()
        )));
    }
    Ok(certificates)
}

/// A function that makes the error for this file. `option` is the option of the URL that names the file.
fn unreadable<E: std::error::Error + Send + Sync + 'static>(option: &str, path: &Path) -> impl FnOnce(E) -> Error {
    let message = format!("the file {} of ?{option}= cannot be used", path.display());
    move |error| Error::misused(message).caused_by(error)
}

#[cfg(test)]
mod tests;
