//! Certificates for servers.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// The files of an authority, and of a server whose certificate it has signed.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new(host: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = KeyPair::generate().unwrap();
        let ca = params.self_signed(&authority).unwrap();
        let issuer = Issuer::new(params, authority);
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let files = Self(dir);
        fs::write(files.path("ca"), ca.pem()).unwrap();
        fs::write(files.path("cert"), cert.pem()).unwrap();
        fs::write(files.path("key"), key.serialize_pem()).unwrap();
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.pem"))
    }
}
