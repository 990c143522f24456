//! Certificates for servers and clients with TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// PEM files for a server or a client with TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate of the authority that has signed the certificate of the file `cert`.
    pub ca: PathBuf,
    /// The certificate.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// A certificate authority, and the directory of its files.
///
/// If a method fails, it panics.
///
/// ```
/// use bandog_testkit::Authority;
/// let authority = Authority::new("shop");
/// let files = authority.issue("localhost", |_| ());
/// assert!(files.cert.is_file() && files.ca == authority.ca);
/// ```
#[derive(Debug)]
pub struct Authority {
    /// The file of the authority's own certificate.
    pub ca: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    dir: TempDir,
}

impl Authority {
    /// Creates an authority with this name. Every user of the machine can read its files, so that servers with a user of
    /// their own can.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("bandog-tls-").tempdir().expect("cannot make a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("cannot open the directory for all");
        let mut params = CertificateParams::new([]).expect("no names are correct names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("cannot generate a key");
        let ca = dir.path().join("ca.pem");
        fs::write(&ca, params.self_signed(&key).expect("cannot sign").pem()).expect("cannot write the certificate");
        Self { ca, issuer: Issuer::new(params, key), dir }
    }

    /// Issues a certificate for this host or client. `change` can change the content of the certificate before it is
    /// signed.
    #[must_use]
    pub fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> TlsFiles {
        let key = KeyPair::generate().expect("cannot generate a key");
        let mut params = CertificateParams::new([name.to_owned()]).expect("the name of the certificate is wrong");
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("cannot sign");
        let files = TlsFiles {
            ca: self.ca.clone(),
            cert: self.path(&format!("{name}.crt")),
            key: self.path(&format!("{name}.key")),
        };
        fs::write(&files.cert, certificate.pem()).expect("cannot write the certificate");
        fs::write(&files.key, key.serialize_pem()).expect("cannot write the key");
        files
    }

    /// The path of a file in the directory of the authority.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}
