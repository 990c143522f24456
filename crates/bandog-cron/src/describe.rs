//! Describes in words what an expression means.

mod chinese;
mod english;
mod shape;

use crate::{calendar::small, fields::Fields};

use self::shape::Shape;

/// A language of [`Cron::describe_in`](crate::Cron::describe_in).
///
/// ```
/// use bandog_cron::{Cron, Language};
///
/// let cron = Cron::parse("0 0 0 L * ?")?;
/// assert_eq!(cron.describe_in(Language::English), "At 00:00, on the last day of the month");
/// assert_eq!(cron.describe_in(Language::Chinese), "每月最后一天，00:00");
/// # Ok::<(), bandog_cron::ParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Chinese, in simplified characters.
    Chinese,
}

/// The meaning of an expression, as a phrase in this language.
pub(crate) fn describe(fields: &Fields, language: Language) -> String {
    let outline = Outline::of(fields);
    match language {
        Language::English => english::phrase(fields, &outline),
        Language::Chinese => chinese::phrase(fields, &outline),
    }
}

/// The values of each field as a [`Shape`], such as one value or a range. Each language turns the shapes into words.
struct Outline {
    seconds: Shape,
    minutes: Shape,
    hours: Shape,
    days: Shape,
    /// Monday is 1, and Sunday is 7.
    weekdays: Shape,
    months: Shape,
    years: Shape,
    /// All times of a day at which the expression fires, as texts. `None` if there are more than [`FEW`] such times.
    clock: Option<Vec<String>>,
}

/// Maximum number of times of a day that a phrase lists one by one.
const FEW: usize = 6;

impl Outline {
    fn of(fields: &Fields) -> Self {
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
    fn on_the_minute(&self) -> bool {
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
