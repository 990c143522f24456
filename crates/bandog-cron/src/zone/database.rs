//! The table of zones that is built into the program.

use std::sync::LazyLock;

use jiff::tz::TimeZoneDatabase;

/// The built-in IANA table.
pub(super) static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
