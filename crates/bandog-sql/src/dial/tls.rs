//! TLS: the trusted authorities, the client's certificate, and the errors of a failed TLS handshake.
//!
//! The cryptography provider is passed to each configuration, so the default provider of the process does not matter.

use std::{io, path::Path, sync::Arc};

use bandog_core::{Error, ErrorKind, Result};
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
    stream.map_err(|error| refused(store, error))
}

/// The error of a failed TLS handshake. The message says which side refused the other side.
pub(crate) fn refused(store: &str, error: io::Error) -> Error {
    let (kind, message) = match error.get_ref().and_then(|cause| cause.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(cause)) => (ErrorKind::Denied, our_refusal(cause)),
        Some(rustls::Error::AlertReceived(
            Alert::CertificateRequired
            | Alert::HandshakeFailure
            | Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::UnsupportedCertificate
            | Alert::DecryptError
            | Alert::AccessDenied,
        )) => (ErrorKind::Denied, "the server refuses our certificate; name a valid one with sslcert and sslkey"),
        Some(rustls::Error::PeerIncompatible(_)) => {
            (ErrorKind::Unsupported, "the server and this client have no TLS version or cipher in common")
        }
        Some(_) | None => (ErrorKind::Unavailable, "the TLS handshake failed"),
    };
    Error::new(kind, format!("{store}: {message}")).caused_by(error)
}

/// The message if this client refuses the server's certificate.
fn our_refusal(error: &Certificate) -> &'static str {
    match error {
        Certificate::UnknownIssuer => {
            "we refuse the server's certificate: no authority that we trust has signed it; if you trust its authority, \
             name its file with sslrootcert=PATH"
        }
        Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
            "we refuse the server's certificate: it was not issued for the host in the URL"
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => {
            "we refuse the server's certificate: it has expired; have it renewed, or check this machine's clock"
        }
        _ => "we refuse the server's certificate",
    }
}

/// The client's TLS configuration with these files.
pub(crate) fn config(files: &TlsFiles) -> Result<ClientConfig> {
    let unusable =
        |error| Error::new(ErrorKind::Unsupported, "the TLS configuration cannot be created").caused_by(error);
    let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let trusting =
        versions.with_safe_default_protocol_versions().map_err(unusable)?.with_root_certificates(match &files.ca {
            Some(path) => roots_in(path)?,
            None => roots_of_the_system()?,
        });
    let Some((cert, key)) = &files.identity else {
        return Ok(trusting.with_no_client_auth());
    };
    let secret = PrivateKeyDer::from_pem_file(key).map_err(unreadable("sslkey", key))?;
    trusting.with_client_auth_cert(certificates("sslcert", cert)?, secret).map_err(|error| {
        let message = format!("the certificate {} with the key {} cannot be used", cert.display(), key.display());
        Error::misused(message).caused_by(error)
    })
}

/// The trusted authorities in this file.
fn roots_in(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("sslrootcert", path)? {
        roots.add(certificate).map_err(unreadable("sslrootcert", path))?;
    }
    Ok(roots)
}

/// The authorities that this system trusts.
fn roots_of_the_system() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // An authority whose certificate cannot be parsed is skipped.
    let _ = roots.add_parsable_certificates(certificates_of_the_system());
    if roots.is_empty() {
        let message = "this system has no trusted authorities; install its package ca-certificates, or name a file with \
                       sslrootcert=PATH";
        return Err(Error::new(ErrorKind::Denied, message));
    }
    Ok(roots)
}

pub(crate) fn certificates_of_the_system() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// The certificates in a file. Fails if the file contains none. `option` is the option of the URL that names the file.
fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(unreadable(option, path))?;
    if certificates.is_empty() {
        let message = format!("the file {} of {option}= contains no certificate in PEM format", path.display());
        return Err(Error::misused(message));
    }
    Ok(certificates)
}

/// A function that makes the error for this file.
fn unreadable<E: std::error::Error + Send + Sync + 'static>(option: &str, path: &Path) -> impl FnOnce(E) -> Error {
    let message = format!("the file {} of {option}= cannot be used", path.display());
    move |error| Error::misused(message).caused_by(error)
}
