//! How the backends of bandog connect: the addresses of a host, the socket, TLS, the login, and the delays between attempts.
//!
//! This crate is a part of `bandog`. It has no stable API of its own.

mod backoff;
mod dial;
mod login;
mod password_file;
#[cfg(feature = "tls")]
mod stream;
#[cfg(feature = "tls")]
pub mod tls;

pub use backoff::{Backoff, random_fraction, retryable};
pub use dial::{addresses, configure, first_of, tcp};
pub use login::{Credentials, CredentialsSource, Login};
pub use password_file::PasswordFile;
#[cfg(feature = "tls")]
pub use stream::{Reset, ServerStream, Socket, Tap};
