//! How the backends of bandog connect: the addresses of a host, and the login.
//!
//! This crate is a part of `bandog`. It has no stable API of its own.

mod dial;
mod login;
mod password_file;

pub use dial::{addresses, first_of, tcp};
pub use login::{Credentials, CredentialsSource, Login};
pub use password_file::PasswordFile;
