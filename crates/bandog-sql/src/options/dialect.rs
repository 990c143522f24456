//! The kinds of servers.

use std::path::Path;

/// The kind of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Postgres,
    /// MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql,
}

impl Dialect {
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            #[cfg(feature = "mysql")]
            Self::MySql => "mysql",
        }
    }

    /// The server, in words.
    pub(crate) fn server(self) -> &'static str {
        match self {
            Self::Postgres => "a PostgreSQL server",
            #[cfg(feature = "mysql")]
            Self::MySql => "a server of MySQL or MariaDB",
        }
    }

    /// The container of the tables, for messages.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Self::Postgres => "the schema",
            #[cfg(feature = "mysql")]
            Self::MySql => "the database",
        }
    }

    /// The option of the URL that names this socket.
    pub(super) fn socket(self, path: &Path) -> String {
        match self {
            Self::Postgres => format!("host={}", path.parent().unwrap_or(path).display()),
            #[cfg(feature = "mysql")]
            Self::MySql => format!("socket={}", path.display()),
        }
    }
}
