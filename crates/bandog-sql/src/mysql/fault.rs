//! The errors of the client for MySQL.

use mysql_async::{Error, ServerError};

use crate::fault::{Fault, Reason, Refusal};

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Server(refusal) if ends_session(&refusal) => Self::Broken(Some(refusal.message)),
            Error::Server(refusal) => Self::Refused(read(&refusal)),
            // A text of the client can contain a value of the request, so it is not shown.
            Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => Self::Broken(None),
        }
    }
}

/// Whether the server ends the session with this error: the server shuts down, an operator has ended the session, or the
/// session was idle for too long.
fn ends_session(refusal: &ServerError) -> bool {
    matches!(refusal.code, 1053 | 1077 | 1078 | 1079 | 1158..=1161 | 1927 | 4031)
}

fn read(refusal: &ServerError) -> Refusal {
    let ServerError { code, message, state } = refusal;
    let reason = match code {
        // MySQL has a code of its own for a statement that does not wait.
        1205 | 3572 => Reason::RowLocked,
        // A deadlock, a row that has changed since the transaction began, or a prepared statement that is too old.
        1213 | 1020 | 1615 => Reason::Disturbed,
        1062 => Reason::Duplicate,
        // The format of the binary log does not fit READ COMMITTED.
        1665 => Reason::Unsupported,
        // An operator, or the limit of a statement's time on MariaDB or MySQL.
        1317 | 1969 | 3024 => Reason::Interrupted,
        // The table or the database is missing, or the server is read-only.
        1146 | 1049 | 1290 | 1792 | 1836 => Reason::Gone,
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 => Reason::Denied,
        // A column is missing, or has another type.
        1054 | 1136 | 1264 | 1265 | 1364 | 1366 | 1406 => Reason::Changed,
        _ => Reason::Other,
    };
    let hint = match code {
        1665 => "; set binlog_format to MIXED or ROW in the configuration of the server",
        1461 => "; raise max_prepared_stmt_count in the configuration of the server",
        _ if reason == Reason::Denied => {
            "; `bandog schema --print` shows the rights that locks need, and docs/mysql.md lists them"
        }
        _ => "",
    };
    Refusal { reason, message: format!("{message} (error {code}, SQLSTATE {state}){hint}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of statements can be interrupted after its commit.
    #[test]
    fn an_interrupted_statement_may_have_been_applied() {
        for (code, is_ambiguous) in
            [(1317, true), (1969, true), (3024, true), (1205, false), (1213, false), (1146, false)]
        {
            let refusal = ServerError { code, message: "words".into(), state: "70100".into() };
            let error = Fault::from(Error::Server(refusal)).describe("db");
            assert_eq!(error.kind(), bandog_core::ErrorKind::Unavailable, "{code}");
            assert_eq!(error.maybe_applied(), is_ambiguous, "{code}");
        }
    }
}
