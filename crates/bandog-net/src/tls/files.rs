//! The configuration of TLS from PEM files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bandog_core::{
    Error,
    ErrorKind::{Denied, Unsupported},
    Result,
};
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier,
    client::WantsClientCert,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::OptionNames;

/// The PEM files for TLS. They are read at each connection attempt. So after a certificate was renewed, the next
/// connection uses the new certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The file of the trusted authorities. If the value is None, the authorities that the system trusts are used.
    pub ca: Option<PathBuf>,
    /// The file of the client's certificate, and the file of the private key of this certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The client's TLS configuration with these files. Reads the files, so an async function must not call it directly.
///
/// # Errors
/// - `Misused`: a file cannot be read, or cannot be used.
/// - `Denied`: the system trusts no authority, and the files name none.
/// - `Unsupported`: the cryptography provider has no TLS version.
pub fn config(files: &TlsFiles, names: &OptionNames) -> Result<ClientConfig> {
    let trusting = trusting(match &files.ca {
        Some(path) => roots_in(path, names)?,
        None => roots_of_the_system(names)?,
    })?;
    let Some((cert, key)) = &files.identity else {
        return Ok(trusting.with_no_client_auth());
    };
    let secret = PrivateKeyDer::from_pem_file(key).map_err(unreadable(names.key, key))?;
    trusting.with_client_auth_cert(certificates(names.cert, cert)?, secret).map_err(|error| {
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

/// A configuration that trusts these authorities, and has no identity yet.
pub(crate) fn trusting(roots: RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    Ok(versions()?.with_root_certificates(roots))
}

/// A configuration with the usual versions of TLS, and without authorities.
pub(crate) fn versions() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(Unsupported, "the TLS configuration cannot be created").caused_by(error))
}

/// The certificates of the authorities that this system trusts. Reads files.
#[must_use]
pub fn certificates_of_the_system() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// The trusted authorities in this file.
fn roots_in(path: &Path, names: &OptionNames) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(names.ca, path)? {
        roots.add(certificate).map_err(|error| {
            let option = names.ca;
            let message =
                format!("the file {} of ?{option}= contains a certificate that cannot be parsed", path.display());
            Error::misused(message).caused_by(error)
        })?;
    }
    Ok(roots)
}

/// The authorities that this system trusts.
fn roots_of_the_system(names: &OptionNames) -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // An authority whose certificate cannot be parsed is skipped. The client can still trust each server whose
    // certificate is signed by one of the other authorities.
    let _ = roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let error = Error::new(
        Denied,
        format!(
            "this system has no trusted authorities; install its package ca-certificates, or add ?{}=PATH to the URL",
            names.ca
        ),
    );
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
        let message = format!("the file {} of ?{option}= contains no certificate in PEM format", path.display());
        return Err(Error::misused(message));
    }
    Ok(certificates)
}

/// A function that makes the error for this file. `option` is the option of the URL that names the file.
fn unreadable<E: std::error::Error + Send + Sync + 'static>(option: &str, path: &Path) -> impl FnOnce(E) -> Error {
    let message = format!("the file {} of ?{option}= cannot be used", path.display());
    move |error| Error::misused(message).caused_by(error)
}
