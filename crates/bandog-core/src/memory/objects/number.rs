//! Numbers in values and maps, which are texts.

use std::{fmt::Display, str::FromStr};

use super::terms::{no_number, overflow};
use crate::{
    Error, ErrorKind, Result,
    structures::{Bytes, Reply},
};

/// The numbers of a counter.
pub(super) trait Number: Copy + PartialEq + Default + Display + FromStr {
    /// The sum.
    fn plus(self, by: Self) -> Result<Self>;
    /// The answer with this number.
    fn reply(self) -> Reply;
}

impl Number for i64 {
    fn plus(self, by: Self) -> Result<Self> {
        self.checked_add(by).ok_or_else(overflow)
    }

    fn reply(self) -> Reply {
        Reply::Int(self)
    }
}

impl Number for f64 {
    fn plus(self, by: Self) -> Result<Self> {
        finite(self + by)
    }

    fn reply(self) -> Reply {
        Reply::Float(self)
    }
}

/// The number, if it is finite.
pub(super) fn finite(number: f64) -> Result<f64> {
    if number.is_finite() {
        return Ok(number);
    }
    Err(Error::new(ErrorKind::Denied, "the number would be NaN or infinite"))
}

/// The number that this text is. Absent: 0.
pub(super) fn number<N: Number>(text: Option<&Bytes>) -> Result<N> {
    let Some(text) = text else { return Ok(N::default()) };
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(no_number)
}
