//! The layout `shedlock`: the holds of mutexes are rows of the table of ShedLock, a Java library.
//!
//! The rules are those of all other locks ([`LockState`](bandog_core::LockState)). Only the statements differ: the holder
//! and the time of expiry are in ShedLock's table, and the fence and the marks of the waiters stay in tables of bandog.

use std::collections::BTreeMap;

use bandog_core::{Error, ErrorKind};

use crate::{
    context::Context,
    fault::Fault,
    options::{Dialect, RowTable, TableName},
    row::Row,
    session::Link,
    shared_table::{Conversion, Table},
};

/// The length of the longest claim id.
const HOLDER_LENGTH: i64 = 57;
/// Minimum digits of the seconds: a rounded time could end a lease too early.
const MIN_DIGITS: i64 = 3;
/// Digits of a time in microseconds.
const ALL_DIGITS: i64 = 6;

/// Reads and checks the columns of the table.
///
/// # Errors
/// `Unsupported`: the table is missing, or cannot have locks.
pub(crate) async fn read(link: &Link, context: &Context, name: &TableName) -> Result<Table, Fault> {
    let columns = columns(link, name).await?;
    let quoted = context.options.dialect.quoted(name);
    let unsupported = |what: String| {
        let message = format!("{}: the table {quoted} of ShedLock {what}", context.options.store());
        Fault::Described(Error::new(ErrorKind::Unsupported, message))
    };
    let page = context.options.dialect.page();
    if columns.is_empty() {
        return Err(unsupported(format!(
            "does not exist, or the user has no right to read it; {page} says how to create it"
        )));
    }
    let column = |name: &str| {
        columns.get(name).ok_or_else(|| unsupported(format!("has no column {name}; {page} says how to create it")))
    };
    let (key, holder) = (column("name")?, column("locked_by")?);
    if !key.is_key {
        return Err(unsupported("must have the column name as its primary key".into()));
    }
    if holder.length.is_some_and(|length| length < HOLDER_LENGTH) {
        return Err(unsupported(format!("has a column locked_by with less than {HOLDER_LENGTH} characters")));
    }
    let (dialect, zone) = (context.options.dialect, context.options.session_zone.as_ref());
    let time = |name: &str| {
        let Column { kind, digits, .. } = column(name)?;
        let digits = match digits {
            Some(digits) if *digits >= MIN_DIGITS => *digits,
            Some(_) => {
                return Err(unsupported(format!("has a column {name} without milliseconds; change it to {kind}(3)")));
            }
            None => return Err(unsupported(format!("has a column {name} of the type {kind}, which is no time"))),
        };
        let has_zone = kind == dialect.with_zone();
        if has_zone && zone.is_none() {
            return Err(unsupported(format!(
                "has a column {name} of the type {kind}, whose times depend on the time zone of each session, so ShedLock \
                 and bandog may not see each other's locks. While no program uses the table, change the column to {}(3); \
                 or add session_zone=ZONE to the URL, with the time zone of the sessions of ShedLock, such as \
                 Asia/Shanghai or +08:00; {page} says how to find it out",
                dialect.without_zone()
            )));
        }
        Ok((digits, Conversion::new(dialect, zone.filter(|_| has_zone))))
    };
    let ((until_digits, until), (at_digits, at)) = (time("lock_until")?, time("locked_at")?);
    if let (Dialect::Postgres, Some(zone)) = (dialect, zone) {
        let known = link.execute(&format!("select now() at time zone {}", zone.on_postgres())).await;
        known.map_err(|fault| unknown_zone(fault, context))?;
    }
    let slack = (until_digits.min(at_digits)..ALL_DIGITS).fold(1, |slack, _| slack * 10) - 1;
    Ok(Table { slack, until, at, ..key.table(quoted, "name".into()) })
}

/// The error for the caller if the server has refused a statement because it does not know the time zone.
pub(crate) fn unknown_zone(fault: Fault, context: &Context) -> Fault {
    let Fault::Refused(refusal) = fault else { return fault };
    let message = format!(
        "{}: the server does not know the time zone of session_zone in the URL ({}); write another name, or an offset such as \
         +08:00 if the zone has no daylight saving time",
        context.options.store(),
        refusal.message
    );
    Fault::Described(Error::new(ErrorKind::Unsupported, message))
}

/// Reads and checks the table whose rows are locked.
///
/// # Errors
/// `Unsupported`: the table or the column is missing, or the column cannot have names.
pub(crate) async fn read_rows(link: &Link, context: &Context, name: &RowTable) -> Result<Table, Fault> {
    let RowTable { table, column } = name;
    let columns = columns(link, table).await?;
    let dialect = context.options.dialect;
    let (quoted, quoted_column) = (dialect.quoted(table), dialect.quoted_column(column));
    let unsupported = |what: &str| {
        let message = format!("{}: the table {quoted} {what}", context.options.store());
        Fault::Described(Error::new(ErrorKind::Unsupported, message))
    };
    let found = columns.iter().find(|(name, _)| name.eq_ignore_ascii_case(column)).map(|(_, column)| column);
    match found {
        None if columns.is_empty() => Err(unsupported("does not exist, or the user has no right to read it")),
        None => Err(unsupported(&format!("has no column {quoted_column}"))),
        Some(found) if !found.is_unique => Err(unsupported(&format!(
            "has no unique key that is the column {quoted_column}; without one, locks of different names wait for each other"
        ))),
        Some(found) if !found.is_text() => Err(unsupported(&format!("has a column {quoted_column} that is no text"))),
        Some(found) => Ok(found.table(quoted.clone(), quoted_column)),
    }
}

/// The columns of a table.
async fn columns(link: &Link, name: &TableName) -> Result<BTreeMap<String, Column>, Fault> {
    let rows = link.query(&link.statements.shared_table, &[&name.schema, &name.table]).await?;
    rows.iter().map(Column::read).collect()
}

/// A column of the table.
struct Column {
    kind: String,
    length: Option<i64>,
    digits: Option<i64>,
    collation: Option<(String, String)>,
    is_key: bool,
    is_unique: bool,
}

impl Column {
    fn read(row: &Row) -> Result<(String, Self), Fault> {
        let (set, collation): (Option<String>, Option<String>) = (row.try_get(4)?, row.try_get(5)?);
        let column = Self {
            kind: row.try_get(1)?,
            length: row.try_get(2)?,
            digits: row.try_get(3)?,
            collation: set.zip(collation),
            is_key: row.try_get(6)?,
            is_unique: row.try_get(7)?,
        };
        Ok((row.try_get(0)?, column))
    }

    fn is_text(&self) -> bool {
        self.length.is_some() || self.kind == "text"
    }

    /// The table, if this is its column with the names.
    fn table(&self, quoted: String, column: String) -> Table {
        let is_utf8 = matches!(self.collation.as_ref().map(|(set, _)| set.as_str()), None | Some("utf8mb4"));
        Table {
            quoted,
            column,
            longest: self.length.and_then(|length| usize::try_from(length).ok()),
            is_ascii: !is_utf8,
            collation: self.collation.clone(),
            slack: 0,
            until: Conversion::default(),
            at: Conversion::default(),
        }
    }
}
