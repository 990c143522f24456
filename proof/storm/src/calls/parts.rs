//! The parts of the lines of the history.

use std::str::FromStr;

/// Reads a part of a line.
pub(crate) fn read<T: FromStr>(text: &str) -> Result<T, ()> {
    text.parse().map_err(drop)
}
