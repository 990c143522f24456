//! The rows that a statement returns.

#[cfg(feature = "mysql")]
use std::time::Duration;
use std::time::SystemTime;

use bandog_core::{Error, ErrorKind};
use tokio_postgres::types::FromSql;

use crate::fault::Fault;

/// A row of a result.
#[derive(Debug)]
pub(crate) enum Row {
    Postgres(tokio_postgres::Row),
    /// The columns as texts. None is null.
    #[cfg(feature = "mysql")]
    Texts(Vec<Option<Vec<u8>>>),
}

impl Row {
    /// The value of a column.
    ///
    /// # Errors
    /// `Corrupt`: the column has another type, or there is no such column.
    pub(crate) fn try_get<'a, T: Column<'a>>(&'a self, column: usize) -> Result<T, Fault> {
        let unexpected = |cause: &dyn std::fmt::Display| {
            let message = format!("the database has returned an unexpected column {column}: {cause}");
            Fault::Described(Error::new(ErrorKind::Corrupt, message))
        };
        match self {
            Self::Postgres(row) => row.try_get(column).map_err(|error| unexpected(&error)),
            #[cfg(feature = "mysql")]
            Self::Texts(columns) => {
                let text = columns.get(column).ok_or_else(|| unexpected(&"there is no such column"))?;
                T::from_text(text.as_deref()).ok_or_else(|| unexpected(&"it has another type"))
            }
        }
    }

    /// The number of columns.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Postgres(row) => row.len(),
            #[cfg(feature = "mysql")]
            Self::Texts(columns) => columns.len(),
        }
    }
}

/// A type that a column of every database can have.
pub(crate) trait Column<'a>: FromSql<'a> + FromText<'a> {}

impl<'a, T: FromSql<'a> + FromText<'a>> Column<'a> for T {}

/// A value that can be read from a text. None if the text has another form.
pub(crate) trait FromText<'a>: Sized {
    #[cfg(feature = "mysql")]
    fn from_text(text: Option<&'a [u8]>) -> Option<Self>;
}

/// Declares how a type is read.
macro_rules! from_text {
    ($($type:ty: $read:expr,)+) => {
        $(impl<'a> FromText<'a> for $type {
            #[cfg(feature = "mysql")]
            fn from_text(text: Option<&'a [u8]>) -> Option<Self> {
                let read: fn(&'a [u8]) -> Option<Self> = $read;
                text.and_then(read)
            }
        })+
    };
}

from_text! {
    &'a [u8]: Some,
    &'a str: |text| std::str::from_utf8(text).ok(),
    String: |text| Some(std::str::from_utf8(text).ok()?.to_owned()),
    i64: |text| std::str::from_utf8(text).ok()?.parse().ok(),
    i32: |text| std::str::from_utf8(text).ok()?.parse().ok(),
    bool: |text| match text {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    },
    // The number of microseconds since 1970.
    SystemTime: |text| {
        let micros = std::str::from_utf8(text).ok()?.parse().ok()?;
        Some(std::time::UNIX_EPOCH + Duration::from_micros(micros))
    },
    // Names, one a line.
    Vec<&'a str>: |text| Some(std::str::from_utf8(text).ok()?.lines().collect()),
}

impl<'a, T: FromText<'a>> FromText<'a> for Option<T> {
    #[cfg(feature = "mysql")]
    fn from_text(text: Option<&'a [u8]>) -> Option<Self> {
        match text {
            None => Some(None),
            Some(_) => T::from_text(text).map(Some),
        }
    }
}
