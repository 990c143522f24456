//! TLS: what we trust, who we are, and what it means when one side refuses the other.
//!
//! The provider of cryptography is named here and nowhere installed for the process, so it neither needs nor minds a
//! default that the user's program has chosen.

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

use crate::options::Files;

/// Encrypts a connection to this host.
pub(super) async fn shake_hands(
    store: &str,
    host: &str,
    files: &Files,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| Error::misused(format!("{host:?} is no name of a host")).caused_by(error))?;
    let files = files.clone();
    let config = spawn_blocking(move || config(&files)).await;
    let config = config.map_err(|error| Error::unavailable("the runtime is about to end").caused_by(error))??;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    stream.map_err(|error| match cause(&error) {
        Some(cause) => refused(store, cause),
        None => Error::unavailable(format!(
            "{store} closed the connection in the middle of the TLS handshake; if it listens without TLS, write redis://"
        ))
        .caused_by(error),
    })
}

/// What TLS says of an error of its stream.
pub(super) fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Why a handshake failed: which side refused, and what to do.
pub(super) fn refused(store: &str, error: &rustls::Error) -> Error {
    let (kind, message) = meaning(error);
    Error::new(kind, format!("{store}: {message}")).caused_by(error.clone())
}

fn meaning(error: &rustls::Error) -> (ErrorKind, &'static str) {
    match error {
        rustls::Error::InvalidCertificate(error) => (Denied, ours(error)),
        rustls::Error::AlertReceived(alert) => theirs(*alert),
        rustls::Error::InvalidMessage(_) => {
            (Unsupported, "what answers speaks no TLS; if Redis listens there without it, write redis://")
        }
        rustls::Error::PeerIncompatible(_) => (Unsupported, "the server speaks neither TLS 1.2 nor 1.3 as we do"),
        _ => (Unavailable, "the TLS handshake failed"),
    }
}

/// Why we refuse the server.
fn ours(error: &Certificate) -> &'static str {
    match error {
        Certificate::UnknownIssuer => {
            "we refuse the server's certificate: no authority that we trust has signed it; name its authority with \
             ?ca=PATH"
        }
        Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
            "we refuse the server's certificate: it is not made for this host; write a host that it names"
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => {
            "we refuse the server's certificate: it has expired; have it renewed, or look at this machine's clock"
        }
        Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
            "we refuse the server's certificate: it is not valid yet; look at this machine's clock"
        }
        _ => "we refuse the server's certificate",
    }
}

/// Why the server refuses us. What is not about who we are, such as a proxy that has lost its server, may pass.
fn theirs(alert: Alert) -> (ErrorKind, &'static str) {
    match alert {
        Alert::CertificateRequired => {
            (Denied, "the server wants to see a certificate of ours; name it with ?cert=PATH&key=PATH")
        }
        Alert::HandshakeFailure => (
            Denied,
            "the server refuses the handshake; if it wants to see a certificate of ours, name it with \
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
            "the server refuses our certificate; ?cert=PATH takes one that is valid and signed by an authority that the \
             server trusts",
        ),
        Alert::UnrecognisedName => (Denied, "the server knows of no such host as the URL has"),
        Alert::ProtocolVersion => (Unsupported, "the server speaks neither TLS 1.2 nor 1.3"),
        _ => (Unavailable, "the server gave up the handshake"),
    }
}

fn config(files: &Files) -> Result<ClientConfig> {
    let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(Unsupported, "TLS cannot be set up").caused_by(error))?;
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
                format!("the key {} does not fit the certificate {}", key.display(), cert.display())
            }
            _ => format!(
                "the certificate {} with the key {} cannot be used; it takes X.509 version 3",
                cert.display(),
                key.display()
            ),
        };
        Error::misused(message).caused_by(error)
    })
}

fn roots_in(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", path)? {
        roots.add(certificate).map_err(|error| {
            Error::misused(format!("the file {} has something that is no authority", path.display())).caused_by(error)
        })?;
    }
    Ok(roots)
}

fn roots_of_the_system() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A certificate that this version cannot read need not be the one that signed the server's.
    let _ = roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let message = "this system trusts no authority; install its package ca-certificates, or write ?ca=PATH";
    let error = Error::new(Denied, message);
    Err(match found.errors.into_iter().next() {
        Some(cause) => error.caused_by(cause),
        None => error,
    })
}

/// The certificates in a file, at least one.
fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(unreadable(option, path))?;
    if certificates.is_empty() {
        return Err(Error::misused(format!("the file {} of ?{option}= has no certificate in PEM", path.display())));
    }
    Ok(certificates)
}

fn unreadable<E: std::error::Error + Send + Sync + 'static>(option: &str, path: &Path) -> impl FnOnce(E) -> Error {
    let message = format!("the file {} of ?{option}= cannot be used", path.display());
    move |error| Error::misused(message).caused_by(error)
}

#[cfg(test)]
mod tests;
