//! TLS: the options of the URL, the certificates for the client library, and the handshake of the health check.
//!
//! The feature `tls` adds a second cryptography library to the program. Without the feature, a [`Tls`] cannot exist.

#[cfg_attr(feature = "tls", path = "tls/enabled.rs")]
#[cfg_attr(not(feature = "tls"), path = "tls/disabled.rs")]
mod inner;

pub(crate) use self::inner::{Certificates, Tls, is_spoken_by};

/// The options of a URL for TLS, which name PEM files.
#[derive(Debug, Default)]
pub(crate) struct FileOptions {
    pub(crate) ca: Option<String>,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
}
