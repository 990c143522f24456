//! Where the holds of mutexes are.

use bandog_core::{Error, Result};

use super::Dialect;

/// Maximum length of an identifier that all databases have.
const MAX_IDENTIFIER: usize = 63;

/// The place of the holds of mutexes.
///
/// All clients that share a lock must use the same layout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Rows of bandog's own tables. This is the default. It has all kinds of locks.
    #[default]
    Leases,
    /// Rows of the table of ShedLock, a Java library, `?layout=shedlock&table=NAME`: jobs under ShedLock and the mutexes of
    /// bandog exclude each other. There are no other kinds of locks. The fences, and the marks of waiters, stay in bandog's
    /// own tables. ShedLock must use the time of the database (`usingDbTime()`).
    ShedLock(TableName),
}

/// A table that other programs write, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) schema: String,
    pub(crate) table: String,
    /// Whether the URL names the schema.
    has_schema: bool,
}

impl Layout {
    /// The usual name of ShedLock's table.
    pub(crate) const SHEDLOCK: &str = "shedlock";

    /// The options of the URL for this layout. None: the default.
    pub(super) fn option(&self) -> Option<String> {
        let Self::ShedLock(TableName { schema, table, has_schema }) = self else { return None };
        let table = match (has_schema, table.as_str()) {
            (false, Self::SHEDLOCK) => String::new(),
            (false, table) => format!("&table={table}"),
            (true, table) => format!("&table={schema}.{table}"),
        };
        Some(format!("layout=shedlock{table}"))
    }
}

impl TableName {
    /// Reads `table` or `schema.table`. Without a schema, the table is in the schema `public`, and on MySQL in the database
    /// of the URL.
    pub(super) fn parse(dialect: Dialect, database: &str, text: &str) -> Result<Self> {
        let (schema, table) = match text.split_once('.') {
            Some((schema, table)) => (schema, table),
            None => (dialect.usual_schema().unwrap_or(database), text),
        };
        for part in [schema, table] {
            let is_sign = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-');
            if part.is_empty() || part.chars().count() > MAX_IDENTIFIER || !part.chars().all(is_sign) {
                return Err(Error::misused(format!(
                    "the table {text:?} must be TABLE or SCHEMA.TABLE, with letters, digits, _, - and $"
                )));
            }
        }
        let has_schema = text.contains('.');
        Ok(Self { schema: schema.to_owned(), table: table.to_owned(), has_schema })
    }
}

impl Dialect {
    /// The schema of a table whose name has no schema. None: the database of the URL.
    fn usual_schema(self) -> Option<&'static str> {
        match self {
            Self::Postgres => Some("public"),
            #[cfg(feature = "mysql")]
            Self::MySql => None,
        }
    }

    /// The table, as statements name it. Its name has no sign that ends an identifier.
    pub(crate) fn quoted(self, name: &TableName) -> String {
        let TableName { schema, table, .. } = name;
        match self {
            Self::Postgres => format!("\"{schema}\".\"{table}\""),
            #[cfg(feature = "mysql")]
            Self::MySql => format!("`{schema}`.`{table}`"),
        }
    }

    /// The page of the documentation.
    pub(crate) fn page(self) -> &'static str {
        match self {
            Self::Postgres => "docs/postgres.md",
            #[cfg(feature = "mysql")]
            Self::MySql => "docs/mysql.md",
        }
    }
}
