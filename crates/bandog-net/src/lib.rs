//! How the backends of bandog connect: the addresses of a host, and passwords in files.
//!
//! This crate is a part of `bandog`. It has no stable API of its own.

mod dial;
mod password_file;

pub use dial::{addresses, first_of, tcp};
pub use password_file::PasswordFile;
