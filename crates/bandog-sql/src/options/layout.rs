//! Where the holds of mutexes are.

use bandog_core::{Error, Result};

use super::dialect::Dialect;

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
    /// As [`Layout::Leases`], and while a claim holds a mutex, a transaction of the database has locked a row of this table:
    /// `?mode=rowlock&table=NAME&column=NAME`.
    RowLock(RowTable),
    /// As [`Layout::Leases`], and while a claim holds a mutex, a session of the database has an advisory lock, on MySQL one
    /// of `GET_LOCK`: `?mode=advisory`.
    Advisory,
}

/// The time zone of the sessions of ShedLock. Some drivers of Java set that of the JVM, others leave that of the server. A column whose times depend on the zone of
/// the session has UTC times as if they were of this zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionZone(String);

impl SessionZone {
    /// Reads `Area/City`, `UTC`, or an offset such as `+08:00`. Other names, such as `GMT+8` or `CST`, have several meanings.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '/');
        let is_name =
            text.contains('/') && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_sign);
        let is_zone = text == "UTC" || is_name || is_offset(text);
        is_zone.then(|| Self(text.to_owned()))
    }

    /// The zone behind `at time zone`. PostgreSQL gives the sign of an offset in a text the opposite meaning.
    pub(crate) fn on_postgres(&self) -> String {
        let kind = if is_offset(&self.0) { "interval " } else { "" };
        format!("{kind}'{}'", self.0)
    }

    /// The zone of a session. A server knows names only if an administrator has loaded them.
    #[cfg(feature = "mysql")]
    pub(crate) fn on_mysql(&self) -> &str {
        if self.0 == "UTC" { "+00:00" } else { &self.0 }
    }
}

/// Whether the text is `+HH:MM` or `-HH:MM`.
fn is_offset(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).and_then(|rest| rest.split_once(':'));
    let is_number = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    rest.is_some_and(|(hours, minutes)| is_number(hours) && is_number(minutes))
}

/// A table whose rows are locked, and the column with the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowTable {
    pub(crate) table: TableName,
    pub(crate) column: String,
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
    /// The number of sessions that can hold locks, unless the URL names another one.
    pub(crate) const CONNECTIONS: usize = 10;
    /// The usual name of ShedLock's table.
    pub(crate) const SHEDLOCK: &str = "shedlock";

    /// The options of the URL for this layout. None: the default.
    pub(super) fn option(&self) -> Option<String> {
        match self {
            Self::Leases => None,
            Self::ShedLock(table) if table.text() == Self::SHEDLOCK => Some("layout=shedlock".into()),
            Self::ShedLock(table) => Some(format!("layout=shedlock&table={}", table.text())),
            Self::RowLock(RowTable { table, column }) => {
                Some(format!("mode=rowlock&table={}&column={column}", table.text()))
            }
            Self::Advisory => Some("mode=advisory".into()),
        }
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
        if !is_identifier(schema) || !is_identifier(table) {
            return Err(Error::misused(format!(
                "the table {text:?} must be TABLE or SCHEMA.TABLE, with letters, digits, _ and -"
            )));
        }
        let has_schema = text.contains('.');
        Ok(Self { schema: schema.to_owned(), table: table.to_owned(), has_schema })
    }
}

impl TableName {
    /// The table, as a URL names it.
    fn text(&self) -> String {
        if self.has_schema { format!("{}.{}", self.schema, self.table) } else { self.table.clone() }
    }
}

impl RowTable {
    pub(super) fn parse(dialect: Dialect, database: &str, table: &str, column: &str) -> Result<Self> {
        if !is_identifier(column) {
            return Err(Error::misused(format!("the column {column:?} must have letters, digits, _ and -")));
        }
        Ok(Self { table: TableName::parse(dialect, database, table)?, column: column.to_owned() })
    }
}

/// Whether the text has only signs that do not end an identifier in quotation marks, and no `$`, with which the markers of
/// the statements begin.
fn is_identifier(text: &str) -> bool {
    let is_sign = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    !text.is_empty() && text.chars().count() <= MAX_IDENTIFIER && text.chars().all(is_sign)
}

impl Dialect {
    /// A column, as statements name it.
    pub(crate) fn quoted_column(self, column: &str) -> String {
        match self {
            Self::Postgres => format!("\"{column}\""),
            #[cfg(feature = "mysql")]
            Self::MySql => format!("`{column}`"),
        }
    }

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

    /// The type of a time that depends on the time zone of the session.
    pub(crate) fn with_zone(self) -> &'static str {
        match self {
            Self::Postgres => "timestamptz",
            #[cfg(feature = "mysql")]
            Self::MySql => "timestamp",
        }
    }

    /// The type of a time that does not.
    pub(crate) fn without_zone(self) -> &'static str {
        match self {
            Self::Postgres => "timestamp",
            #[cfg(feature = "mysql")]
            Self::MySql => "datetime",
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
