//! A statement that a program executes in a transaction of its own.

use std::fmt;

use crate::{Error, ErrorKind, Key};

/// A statement that a program executes in its own transaction, with any client of the database. It checks that a claim
/// holds its lock, and keeps the store from granting the lock to another claim until the transaction ends.
///
/// All values are texts, and the statement converts them. It returns one row, whose column `fence` is the fence as a
/// `bigint`. If the claim does not hold the lock, the database refuses the statement with an error, so that the
/// transaction cannot commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlStatement {
    /// The lock.
    pub key: Key,
    /// The database that understands the text.
    pub dialect: SqlDialect,
    /// The text, with the placeholders of the dialect.
    pub text: String,
    /// The values of the placeholders, in their order.
    pub values: Vec<String>,
}

/// The SQL of one kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SqlDialect {
    /// PostgreSQL. The placeholders are `$1`, `$2` and so on.
    Postgres,
}

impl SqlStatement {
    /// The words in the database's error if the claim does not hold the lock.
    pub const LOST: &str = "bandog: this claim does not hold the lock";
    /// The words in the database's error if the database is not the one that has the lock.
    pub const OTHER_DATABASE: &str = "bandog: this is not the database of the lock";

    /// The error of bandog for an error of the database with this message. None if the message has another cause, such as
    /// a broken connection.
    ///
    /// - [`ErrorKind::Lost`]: the claim does not hold the lock.
    /// - [`ErrorKind::Misused`]: the database is not the one that has the lock.
    pub fn refusal(&self, message: &str) -> Option<Error> {
        if message.contains(Self::LOST) {
            return Some(Error::lost(&self.key).during("fence"));
        }
        message.contains(Self::OTHER_DATABASE).then(|| self.other_database())
    }

    /// The error for a transaction of a database that is not the one that has the lock.
    pub fn other_database(&self) -> Error {
        let message = "the transaction is in another database than the lock: both must use the same database, and the \
                       same schema of bandog's tables";
        Error::new(ErrorKind::Misused, message).during("fence").at(&self.key)
    }
}

impl fmt::Display for SqlDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "PostgreSQL",
        })
    }
}
