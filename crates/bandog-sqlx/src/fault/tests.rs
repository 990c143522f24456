use std::{borrow::Cow, error::Error as StdError, fmt};

use sqlx::error::{DatabaseError, ErrorKind as SqlxKind};

use super::*;

/// An error of a database with this SQLSTATE.
#[derive(Debug)]
struct Said(&'static str);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("said")
    }
}

impl StdError for Said {}

impl DatabaseError for Said {
    fn message(&self) -> &str {
        "said"
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.0.into())
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> SqlxKind {
        SqlxKind::Other
    }
}

fn commit(code: &'static str) -> Error {
    let key = Key::new("k").expect("the name is right");
    of_commit(Purpose::Fence, &key, sqlx::Error::Database(Box::new(Said(code))))
}

#[test]
fn a_commit_is_refused_only_by_an_error_that_says_so() {
    for code in ["08006", "08P01", "57P01", "57P02", "57014", "58000", "XX000", "40003", "25P04"] {
        let error = commit(code);
        assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true), "{code}");
    }
    for code in ["23505", "23514", "25P02", "P0001"] {
        let error = commit(code);
        assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Denied, false), "{code}");
    }
    for code in ["40001", "40P01", "55P03", "25P03"] {
        let error = commit(code);
        assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false), "{code}");
    }
}

#[test]
fn a_rollback_that_fails_has_committed_nothing() {
    let key = Key::new("k").expect("the name is right");
    for code in ["08006", "57P01", "25P02"] {
        let error = of_rollback(Purpose::Complete, &key, sqlx::Error::Database(Box::new(Said(code))));
        assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false), "{code}");
        assert_eq!(error.verb(), Some("complete"));
    }
}
