//! Whose rules an expression follows.

/// Whose rules an expression follows.
///
/// ```
/// use bandog_cron::{Cron, Dialect};
///
/// // Friday the 13th: Spring wants both day fields to match.
/// let cron = Cron::parse_with("0 0 0 13 * FRI", Dialect::Spring)?;
/// assert_eq!(cron.dialect(), Dialect::Spring);
/// # Ok::<(), bandog_cron::ParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// Six fields, or seven with a year; Sunday is 1.
    #[default]
    Quartz,
    /// Six fields as in Spring's `@Scheduled(cron = …)`; Sunday is 0 or 7.
    Spring,
    /// Five fields as in a crontab; Sunday is 0 or 7, and if both day fields are restricted one of them must match.
    Unix,
}

/// What happens where a zone's clocks are set forward or back.
///
/// Without a word of yours, it is [`Elapsed`](Self::Elapsed) if the hours are `*` or stepped, else
/// [`Pinned`](Self::Pinned).
///
/// ```
/// use bandog_cron::{Cron, Daylight};
///
/// assert_eq!(Cron::parse("0 0/30 * * * ?")?.daylight(), Daylight::Elapsed);
/// assert_eq!(Cron::parse("0 30 2 * * ?")?.daylight(), Daylight::Pinned);
/// assert_eq!(Cron::parse("0 30 2 * * ?")?.on_daylight(Daylight::Skip).daylight(), Daylight::Skip);
/// # Ok::<(), bandog_cron::ParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Daylight {
    /// Each time of the wall clock fires once a date: the first pass of an overlap; all times inside one gap fire
    /// once, at the first instant after it, if that is still the same date.
    Pinned,
    /// Real time counts: nothing fires for a gap, and both passes of an overlap fire.
    Elapsed,
    /// As `Pinned`, but times inside a gap are left out.
    Skip,
}
