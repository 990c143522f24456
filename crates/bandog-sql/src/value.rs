//! The parameters of statements.

use std::{
    fmt::{self, Display, Formatter},
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

/// A parameter of a statement for MySQL, which gets parameters as a part of the text or beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "only MySQL needs it"))]
pub(crate) enum Literal {
    One(Scalar),
    Each(Vec<Scalar>),
}

/// One value. As a text, it is what a statement has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "only MySQL needs it"))]
pub(crate) enum Scalar {
    Null,
    Number(i64),
    Bytes(Vec<u8>),
    Time(SystemTime),
}

/// The digits of hexadecimal numbers. A format for each byte would be ten times slower.
const HEX_DIGITS: [u8; 16] = *b"0123456789abcdef";

impl Display for Scalar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Number(number) => write!(f, "{number}"),
            // A hexadecimal number, so no text can have a meaning in the statement.
            Self::Bytes(bytes) => {
                let mut digits = Vec::with_capacity(2 * bytes.len());
                for byte in bytes {
                    digits.extend([byte >> 4, byte & 15].map(|digit| HEX_DIGITS[usize::from(digit)]));
                }
                write!(f, "x'{}'", String::from_utf8_lossy(&digits))
            }
            Self::Time(time) => {
                let micros = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
                write!(f, "'1970-01-01' + interval {micros} microsecond")
            }
        }
    }
}

/// Values that a statement for MySQL can have as parameters.
#[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "only MySQL needs it"))]
pub(crate) trait Literals {
    fn literal(&self) -> Literal;
}

impl Literals for i64 {
    fn literal(&self) -> Literal {
        Literal::One(Scalar::Number(*self))
    }
}

impl Literals for bool {
    fn literal(&self) -> Literal {
        i64::from(*self).literal()
    }
}

impl Literals for SystemTime {
    fn literal(&self) -> Literal {
        Literal::One(Scalar::Time(*self))
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
        Literal::One(Scalar::Bytes(self.to_vec()))
    }
}

impl<T: Literals> Literals for Option<T> {
    fn literal(&self) -> Literal {
        self.as_ref().map_or(Literal::One(Scalar::Null), Literals::literal)
    }
}

impl<T: Literals> Literals for [T] {
    fn literal(&self) -> Literal {
        let each = self.iter().flat_map(|value| match value.literal() {
            Literal::One(value) => vec![value],
            Literal::Each(values) => values,
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
