//! A statement that a program executes in a transaction of its own.

use std::fmt;

use crate::{Error, ErrorKind, Key};

/// A statement that a program executes in its own transaction, with any client of the database. It checks that a claim
/// holds its lock ([`crate::Leases::fence_sql`]), or creates a record once ([`crate::Records::mark_sql`]).
///
/// All values are texts, and the statement converts them. It returns one row, whose column `fence` is a `bigint`: the
/// fence of the lock, or 1. A statement that creates a record returns no row on MySQL and MariaDB. If a condition is not met, the database refuses the statement with an error. On PostgreSQL, the
/// transaction then cannot commit. On MySQL and MariaDB it can: roll it back after each error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlStatement {
    /// The lock or the record.
    pub key: Key,
    /// The database that understands the text.
    pub dialect: SqlDialect,
    /// The text, with the placeholders of the dialect.
    pub text: String,
    /// The values of the placeholders, in their order.
    pub values: Vec<String>,
}

/// A record that a transaction of the user creates, at most once: the run of a job is completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The name of the new record.
    pub key: Key,
    /// Another record, which must contain this text.
    pub within: (Key, String),
    /// Earlier marks, which nothing needs any more: the records from the first name up to, and without, the second one.
    pub obsolete: (Key, Key),
}

/// The SQL of one kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SqlDialect {
    /// PostgreSQL. The placeholders are `$1`, `$2` and so on.
    Postgres,
    /// MySQL and MariaDB. Each placeholder is `?`, and the character set of the connection must be `utf8mb4`.
    MySql,
    /// Any of these databases: the statement of a store in memory, in the tests of a program.
    Any,
}

impl SqlStatement {
    /// The words in the database's error if the claim does not hold the lock.
    pub const LOST: &str = "bandog: this claim does not hold the lock";
    /// The words in the database's error if the delivery does not have the element of a work queue.
    pub const NOT_TAKEN: &str = "bandog: this delivery does not have the element";
    /// The words in the database's error if the database is not the one that has the lock.
    pub const OTHER_DATABASE: &str = "bandog: this is not the database of the lock";
    /// The words in the error of MySQL or MariaDB if the snapshot of the transaction is older than the grant.
    pub const TOO_EARLY: &str = "bandog: the transaction began before the lock was granted";
    /// The words in the error of MariaDB if no transaction is open. A statement that changes a table has committed it.
    pub const NO_TRANSACTION: &str = "bandog: no transaction is open";
    /// The words in the database's error if a mark exists already, also if the same transaction has created it.
    pub const COMPLETED: &str = "bandog: this run was completed already";
    /// The words in the database's error if the record of the job does not contain the run.
    pub const ENDED: &str = "bandog: this run has ended, or another node has taken it over";
    /// The words in the database's error if the transaction is not at the level READ COMMITTED.
    pub const ISOLATION: &str = "bandog: a run can be completed at the isolation level READ COMMITTED only";

    /// The statement of a store in memory, which has found that the claim holds its lock, or that the run has not ended. Its
    /// number is a `bigint` in each database.
    pub(crate) fn of_memory(key: &Key, fence: u64) -> Self {
        let text = format!("select {fence} + 0 * 4294967296 as fence");
        Self { key: key.clone(), dialect: SqlDialect::Any, text, values: Vec::new() }
    }

    /// The error of bandog for an error of the database with this message. None if the message has another cause, such as
    /// a broken connection.
    ///
    /// - [`ErrorKind::Lost`]: the claim does not hold the lock, the delivery does not have the element, or the run was
    ///   completed, has ended or was taken over.
    /// - [`ErrorKind::Misused`]: the database is not the one that has the lock, the isolation level is not allowed, or no
    ///   transaction is open.
    /// - [`ErrorKind::Unavailable`]: the transaction has a snapshot that is older than the lock. A new one can succeed.
    pub fn refusal(&self, message: &str) -> Option<Error> {
        if message.contains(Self::LOST) {
            return Some(Error::lost(&self.key).during("fence"));
        }
        if message.contains(Self::NOT_TAKEN) {
            let message = "the element was settled or removed, or another worker may have it";
            return Some(Error::new(ErrorKind::Lost, message).during("settle").at(&self.key));
        }
        if message.contains(Self::TOO_EARLY) {
            let error = Error::unavailable("the transaction began before the lock was granted; repeat it");
            return Some(error.during("fence").at(&self.key));
        }
        let of_mark =
            [(Self::COMPLETED, ErrorKind::Lost), (Self::ENDED, ErrorKind::Lost), (Self::ISOLATION, ErrorKind::Misused)];
        for (words, kind) in of_mark {
            if message.contains(words) {
                let reason = words.strip_prefix("bandog: ").unwrap_or(words);
                return Some(Error::new(kind, reason).during("complete").at(&self.key));
            }
        }
        if message.contains(Self::NO_TRANSACTION) {
            let error = Error::misused(
                "no transaction is open, so nothing can be undone; a statement such as create table commits the open one",
            );
            return Some(error.at(&self.key));
        }
        message.contains(Self::OTHER_DATABASE).then(|| self.other_database())
    }

    /// The error for a transaction of a database that is not the one that has the lock.
    pub fn other_database(&self) -> Error {
        let message = "the transaction is in another database than the tables of bandog: both must be in the same \
                       database, and the transaction must use the same schema of these tables";
        Error::new(ErrorKind::Misused, message).during("fence").at(&self.key)
    }
}

impl fmt::Display for SqlDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "PostgreSQL",
            Self::MySql => "MySQL",
            Self::Any => "any SQL database",
        })
    }
}
