//! A file with the password of a login.

use std::{
    fmt, fs,
    io::{self, Read},
    path::PathBuf,
};

use tokio::task::spawn_blocking;

use bandog_core::{Error, Result};

/// Maximum size of the file, in bytes.
const MAX_SIZE: u64 = 64 * 1024;

/// A file with the password of a login. It is read for each new connection. So after the password was changed, the next
/// connection uses the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordFile {
    path: PathBuf,
    /// The option of the URL that names the file.
    option: &'static str,
}

impl PasswordFile {
    /// The file that this option of a URL names. `has_password`: the URL has a password, too.
    ///
    /// # Errors
    /// `Misused` if the URL has a password, too, or if the path is empty.
    pub fn of_url(option: &'static str, path: String, has_password: bool) -> Result<Self> {
        if has_password {
            return Err(Error::misused(format!("the URL has a password and {option}=; write only one of them")));
        }
        if path.is_empty() {
            return Err(Error::misused(format!("the URL's {option}= is empty; write the path of a file")));
        }
        Ok(Self { path: path.into(), option })
    }

    /// Reads the password: the content of the file without one line end at its end.
    ///
    /// # Errors
    /// `Misused` if the file cannot be read, is empty, is too large or is not UTF-8. The message names the path, and never
    /// contains the content.
    ///
    /// # Cancel safety
    /// If the future is dropped, a thread of the runtime ends the read.
    pub async fn read(&self) -> Result<String> {
        let path = self.path.clone();
        let read = spawn_blocking(move || {
            let mut content = Vec::new();
            fs::File::open(path)?.take(MAX_SIZE + 1).read_to_end(&mut content).map(|_| content)
        });
        let read =
            read.await.map_err(|error| Error::unavailable("the Tokio runtime is shutting down").caused_by(error))?;
        self.password(read)
    }

    fn password(&self, read: io::Result<Vec<u8>>) -> Result<String> {
        let content = read.map_err(|error| self.unusable("cannot be read").caused_by(error))?;
        if content.len() as u64 > MAX_SIZE {
            return Err(self.unusable("is larger than 64 KiB"));
        }
        // The error of the conversion contains the content, so it is not the cause.
        let mut password = String::from_utf8(content).map_err(|_| self.unusable("is not UTF-8"))?;
        if password.ends_with('\n') {
            password.pop();
            if password.ends_with('\r') {
                password.pop();
            }
        }
        if password.is_empty() {
            return Err(self.unusable("is empty; write the password into it"));
        }
        Ok(password)
    }

    fn unusable(&self, why: &str) -> Error {
        Error::misused(format!("{self} of ?{}= {why}", self.option))
    }
}

impl fmt::Display for PasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file {}", self.path.display())
    }
}

#[cfg(test)]
mod tests;
