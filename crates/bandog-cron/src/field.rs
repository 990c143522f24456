//! The fields of an expression, and the names that they accept, such as `MON`.

use std::fmt;

/// A field of an expression.
///
/// ```
/// use bandog_cron::{Cron, Field};
///
/// let error = Cron::parse("0 0 0 1 13 ?").unwrap_err();
/// assert_eq!(error.field(), Some(Field::Month));
/// assert_eq!(Field::Month.to_string(), "month");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// Seconds, 0 to 59.
    Seconds,
    /// Minutes, 0 to 59.
    Minutes,
    /// Hours, 0 to 23.
    Hours,
    /// Day of the month, 1 to 31.
    DayOfMonth,
    /// Month, 1 to 12.
    Month,
    /// Day of the week. The dialect decides which day a number means.
    DayOfWeek,
    /// Year, 1970 to 2099.
    Year,
}

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(crate) const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Field {
    /// The names that this field accepts, in full or as their first three letters.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Month => &MONTHS,
            Self::DayOfWeek => &WEEKDAYS,
            Self::Seconds | Self::Minutes | Self::Hours | Self::DayOfMonth | Self::Year => &[],
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
            Self::Year => "year",
        })
    }
}
