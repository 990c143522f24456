//! Describes in words what an expression means.

mod chinese;
mod english;
mod outline;
mod shape;

use self::outline::Outline;
use crate::fields::Fields;

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
