//! TLS: the PEM files that a URL names, the handshake, and the errors of a failed handshake.
//!
//! The cryptography provider is passed to each configuration, so a provider that the user's program has chosen for the
//! process changes nothing. Client libraries that make their own connections use the provider of the process:
//! [`choose_provider`].

mod files;
mod handshake;
mod refusal;
mod unchecked;

pub use self::{
    files::{TlsFiles, certificates_of_the_system, config},
    handshake::{check_host, choose_provider, shake_hands, shake_hands_unchecked, speaks_tls},
    refusal::{cause, refused},
};

/// The names of the options for TLS in the URLs of a backend. Error messages show them.
#[derive(Debug, Clone, Copy)]
pub struct OptionNames {
    /// The option with the file of the trusted authorities.
    pub ca: &'static str,
    /// The option with the file of the client's certificate.
    pub cert: &'static str,
    /// The option with the file of the certificate's private key.
    pub key: &'static str,
    /// The part of a URL without TLS, such as `redis://`.
    pub without_tls: &'static str,
}
