//! The values of an expression that a language puts into words.

use super::shape::Shape;
use crate::{calendar::small, fields::Fields};

/// The values of each field as a [`Shape`], such as one value or a range. Each language turns the shapes into words.
pub(super) struct Outline {
    pub(super) seconds: Shape,
    pub(super) minutes: Shape,
    pub(super) hours: Shape,
    pub(super) days: Shape,
    /// Monday is 1, and Sunday is 7.
    pub(super) weekdays: Shape,
    pub(super) months: Shape,
    pub(super) years: Shape,
    /// All times of a day at which the expression fires, as texts. `None` if there are more than [`FEW`] such times.
    pub(super) clock: Option<Vec<String>>,
}

/// Maximum number of times of a day that a phrase lists one by one.
const FEW: usize = 6;

impl Outline {
    pub(super) fn of(fields: &Fields) -> Self {
        // A closure that returns the numbers of the bits that are set in `mask`.
        let bits = |mask: u64| (0..64).filter(move |bit| mask >> bit & 1 == 1).collect::<Vec<u32>>();
        let (seconds, minutes, hours) = (bits(fields.seconds), bits(fields.minutes), bits(fields.hours.into()));
        // The set of weekdays, in which bit 0 is Sunday, is repeated, so that bit 7 is Sunday, too.
        let week = u64::from(fields.weekdays) << 7 | u64::from(fields.weekdays);
        let years = (1970..=2099).filter(|year| fields.every_year || fields.has_year(*year));
        Self {
            clock: clock(&hours, &minutes, &seconds),
            seconds: Shape::of(seconds, 0, 59),
            minutes: Shape::of(minutes, 0, 59),
            hours: Shape::of(hours, 0, 23),
            days: Shape::of(bits(u64::from(fields.days) & !1), 1, 31),
            weekdays: Shape::of(bits(week & 0xfe), 1, 7),
            months: Shape::of(bits(u64::from(fields.months)), 1, 12),
            years: Shape::of(years.map(small).collect(), 1970, 2099),
        }
    }

    /// Whether all fires are at whole minutes.
    pub(super) fn on_the_minute(&self) -> bool {
        self.seconds == Shape::One(0)
    }
}

/// All times of a day with these hours, minutes and seconds, as texts. `None` if there are more than [`FEW`] such
/// times.
fn clock(hours: &[u32], minutes: &[u32], seconds: &[u32]) -> Option<Vec<String>> {
    if hours.len() * minutes.len() * seconds.len() > FEW {
        return None;
    }
    let mut times = Vec::new();
    for hour in hours {
        for minute in minutes {
            for second in seconds {
                times.push(match seconds {
                    [0] => format!("{hour:02}:{minute:02}"),
                    _ => format!("{hour:02}:{minute:02}:{second:02}"),
                });
            }
        }
    }
    Some(times)
}
