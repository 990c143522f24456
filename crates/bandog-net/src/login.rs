//! The login of new connections.

use std::{error::Error as StdError, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::timeout;

use bandog_core::{Error, Result, rounded};

use crate::PasswordFile;

/// The user and the password of a connection. `Debug` does not show the password.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// The user. None: the user of the URL.
    pub user: Option<String>,
    /// The password. None: a login without a password.
    pub password: Option<String>,
}

impl Credentials {
    /// A user and a password.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: Some(password.into()) }
    }

    /// A password of the user of the URL.
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: Some(password.into()) }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "***");
        f.debug_struct("Credentials").field("user", &self.user).field("password", &password).finish()
    }
}

/// A function of the program that gives the credentials of each new connection.
#[derive(Clone)]
pub struct CredentialsSource(Arc<dyn Fn() -> BoxFuture<'static, Result<Credentials>> + Send + Sync>);

impl CredentialsSource {
    /// A source that calls this function for each new connection.
    pub fn new<F, G, E>(give: F) -> Self
    where
        F: Fn() -> G + Send + Sync + 'static,
        G: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Self(Arc::new(move || {
            // The call of the function, not only its future, can panic.
            let given = std::panic::catch_unwind(AssertUnwindSafe(&give)).map(AssertUnwindSafe);
            async move {
                match given {
                    Ok(given) => match given.catch_unwind().await {
                        Ok(given) => given.map_err(|error| no_credentials("failed").caused_by(error)),
                        Err(_) => Err(no_credentials("panicked")),
                    },
                    Err(_) => Err(no_credentials("panicked")),
                }
            }
            .boxed()
        }))
    }
}

fn no_credentials(why: impl fmt::Display) -> Error {
    Error::unavailable(format!("no connection: the program's function for credentials {why}"))
}

impl fmt::Debug for CredentialsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsSource")
    }
}

impl PartialEq for CredentialsSource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CredentialsSource {}

/// The login of new connections. `Debug` does not show the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    user: Option<String>,
    source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Url(Credentials),
    File(PasswordFile),
    Program(CredentialsSource),
}

impl Login {
    /// The login of a URL.
    pub fn of_url(user: Option<String>, password: Option<String>) -> Self {
        Self { user, source: Source::Url(Credentials { user: None, password }) }
    }

    /// The login with the user of a URL and the password in a file.
    pub fn with_file(user: Option<String>, file: PasswordFile) -> Self {
        Self { user, source: Source::File(file) }
    }

    /// The login with the credentials that the program gives. They replace the password of the URL or of the file.
    #[must_use]
    pub fn given_by(self, program: CredentialsSource) -> Self {
        Self { source: Source::Program(program), ..self }
    }

    /// The user of the URL.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Whether connections have a password.
    pub fn has_password(&self) -> bool {
        match &self.source {
            Source::Url(credentials) => credentials.password.is_some(),
            Source::File(_) | Source::Program(_) => true,
        }
    }

    /// Whether the URL has the password, or would have it.
    pub fn is_in_url(&self) -> bool {
        matches!(self.source, Source::Url(_))
    }

    /// The credentials that a refused login concerns, and their sources, for messages.
    pub fn blamed(&self) -> String {
        match &self.source {
            Source::Url(_) if self.user.is_none() => "the password in the URL".to_owned(),
            Source::Url(_) => "the user and the password in the URL".to_owned(),
            Source::File(file) if self.user.is_none() => format!("the password in {file}"),
            Source::File(file) => format!("the user in the URL and the password in {file}"),
            Source::Program(_) => "the credentials that the program gave".to_owned(),
        }
    }

    /// The credentials of a new connection, which is attempted for this time.
    ///
    /// # Errors
    /// - `Misused`: the file cannot be used; see [`PasswordFile::read`].
    /// - `Unavailable`: the program's function has failed, has panicked, or has not answered in nine tenths of the time.
    ///
    /// # Cancel safety
    /// If the future is dropped, the future of the program's function is dropped.
    pub async fn credentials(&self, limit: Duration) -> Result<Credentials> {
        let given = match &self.source {
            Source::Url(credentials) => credentials.clone(),
            Source::File(file) => Credentials::password(file.read().await?),
            Source::Program(CredentialsSource(give)) => {
                let limit = limit * 9 / 10;
                let given = timeout(limit, give()).await;
                given.unwrap_or_else(|_| Err(no_credentials(format!("gave none within {}", rounded(limit)))))?
            }
        };
        Ok(Credentials { user: given.user.or_else(|| self.user.clone()), ..given })
    }
}

#[cfg(test)]
mod tests;
