//! A table of other programs that has the holds of mutexes, or rows that are locked.

use bandog_core::{ClaimId, Error, Key};

use crate::{
    options::{Dialect, SessionZone},
    statements::Statements,
};

/// The sign before the holder of a row that is not a row of bandog.
const SHARED: char = '!';
/// The beginning of the state of a row whose name is spelled in another way.
const SPELLED: &str = "spelled ";

/// Stands for a holder that is not a client of bandog. No claim has this id.
pub(crate) const FOREIGN: ClaimId = ClaimId { client: ClaimId::OFFERED.client, number: 1 };

/// A table of other programs, as a session has read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// The table, and the column with the names, as statements name them.
    pub(crate) quoted: String,
    pub(crate) column: String,
    /// Maximum length of a name, in characters. None: there is no limit.
    pub(crate) longest: Option<usize>,
    /// Whether names must be ASCII.
    pub(crate) is_ascii: bool,
    /// The character set and the collation of names. None: names are bytes.
    pub(crate) collation: Option<(String, String)>,
    /// Microseconds that are added to each time, because the server cuts the last digits.
    pub(crate) slack: i64,
    /// The expressions behind a time of the columns `lock_until` and `locked_at` that read and write it.
    pub(crate) until: Conversion,
    pub(crate) at: Conversion,
}

/// How PostgreSQL reads and writes a time of ShedLock: the digits of UTC, in a column with or without a zone. On MySQL, the
/// session has the zone of the column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Conversion {
    read: String,
    write: String,
}

impl Conversion {
    pub(crate) fn new(dialect: Dialect, zone: Option<&SessionZone>) -> Self {
        const UTC: &str = "at time zone 'UTC'";
        match (dialect, zone) {
            (Dialect::Postgres, None) => Self { read: UTC.into(), write: UTC.into() },
            (Dialect::Postgres, Some(zone)) => {
                let zone = format!("at time zone {}", zone.on_postgres());
                Self { read: format!("{zone} {UTC}"), write: format!("{UTC} {zone}") }
            }
            #[cfg(feature = "mysql")]
            (Dialect::MySql, _) => Self::default(),
        }
    }
}

impl Table {
    /// Why this table cannot have a lock with this name.
    pub(crate) fn refuse(&self, key: &Key) -> Option<Error> {
        let Self { quoted, column, longest, .. } = self;
        let count = key.as_str().chars().count();
        if let Some(longest) = longest.filter(|longest| count > *longest) {
            let message =
                format!("the name has {count} characters, and the column {column} of {quoted} has room for {longest}");
            return Some(Error::misused(message).at(key));
        }
        if self.is_ascii && !key.as_str().is_ascii() {
            let message = format!(
                "the column {column} of {quoted} does not have the character set utf8mb4, so names must be ASCII"
            );
            return Some(Error::misused(message).at(key));
        }
        None
    }

    /// The statements for this table.
    pub(crate) fn fill(&self, statements: &Statements) -> Statements {
        let of_table = |column: &str| match &self.collation {
            Some((set, collation)) => format!("convert({column} using {set}) collate {collation}"),
            None => column.to_owned(),
        };
        let values = [
            ("$table", self.quoted.clone()),
            ("$column", self.column.clone()),
            ("$given", of_table("g.name")),
            ("$name", of_table("l.name")),
            ("$asked", of_table("$1")),
            ("$slack", self.slack.to_string()),
            ("$read_until", self.until.read.clone()),
            ("$write_until", self.until.write.clone()),
            ("$read_at", self.at.read.clone()),
            ("$write_at", self.at.write.clone()),
            ("$foreign", FOREIGN.to_string()),
        ];
        statements.filled(|text| values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value)))
    }
}

/// The holder of a row of ShedLock's table: a claim, or a text that another program has written. None: the row is one of
/// bandog.
pub(crate) fn holder(owner: &str) -> Option<(ClaimId, Option<String>)> {
    let holder = owner.strip_prefix(SHARED)?;
    match holder.parse() {
        Ok(id) if id != FOREIGN => Some((id, None)),
        Ok(_) | Err(_) => Some((FOREIGN, Some(holder.to_owned()))),
    }
}

/// The other spelling of a name, if this state of a row has one.
pub(crate) fn other_spelling(state: &str) -> Option<&str> {
    state.strip_prefix(SPELLED)
}
