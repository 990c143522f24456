//! The parameters of statements.

use std::{
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio_postgres::types::ToSql;

/// A parameter of a statement.
pub(crate) type Parameter<'a> = &'a dyn Value;

/// A value that all databases accept.
pub(crate) trait Value: Literals + Sync {
    /// The value for PostgreSQL.
    fn postgres(&self) -> &(dyn ToSql + Sync);
}

impl<T: ToSql + Literals + Sync> Value for T {
    fn postgres(&self) -> &(dyn ToSql + Sync) {
        self
    }
}

/// A value as a part of the text of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "PostgreSQL gets the values beside the text"))]
pub(crate) enum Literal {
    One(String),
    Each(Vec<String>),
}

/// The literal of a missing value.
pub(crate) const NULL: &str = "null";

/// Values that can be a part of the text of a statement. Texts are written as hexadecimal numbers, so no text can have a
/// meaning in the statement.
#[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "PostgreSQL gets the values beside the text"))]
pub(crate) trait Literals {
    fn literal(&self) -> Literal;
}

impl Literals for i64 {
    fn literal(&self) -> Literal {
        Literal::One(self.to_string())
    }
}

impl Literals for bool {
    fn literal(&self) -> Literal {
        Literal::One(i64::from(*self).to_string())
    }
}

impl Literals for SystemTime {
    fn literal(&self) -> Literal {
        let micros = self.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        Literal::One(format!("'1970-01-01' + interval {micros} microsecond"))
    }
}

impl Literals for str {
    fn literal(&self) -> Literal {
        self.as_bytes().literal()
    }
}

impl Literals for String {
    fn literal(&self) -> Literal {
        self.as_bytes().literal()
    }
}

impl Literals for [u8] {
    fn literal(&self) -> Literal {
        let mut text = String::with_capacity(2 * self.len() + 3);
        text.push_str("x'");
        for byte in self {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\'');
        Literal::One(text)
    }
}

impl<T: Literals> Literals for Option<T> {
    fn literal(&self) -> Literal {
        self.as_ref().map_or_else(|| Literal::One(NULL.into()), Literals::literal)
    }
}

impl<T: Literals> Literals for [T] {
    fn literal(&self) -> Literal {
        let each = self.iter().flat_map(|value| match value.literal() {
            Literal::One(text) => vec![text],
            Literal::Each(texts) => texts,
        });
        Literal::Each(each.collect())
    }
}

impl<T: Literals> Literals for Vec<T> {
    fn literal(&self) -> Literal {
        self.as_slice().literal()
    }
}

impl<T: Literals + ?Sized> Literals for &T {
    fn literal(&self) -> Literal {
        (**self).literal()
    }
}
