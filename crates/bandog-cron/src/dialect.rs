//! The dialects of cron, and the settings that change what an expression means.

use std::{fmt, str::FromStr};

/// The kind of scheduler for which an expression is written. Each kind has its own rules for expressions.
///
/// ```
/// use bandog_cron::{Cron, Dialect};
///
/// // Friday the 13th: in Spring, both day fields must match.
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
    /// Five fields as in a crontab; Sunday is 0 or 7. If both day fields are restricted, a match of one is enough.
    Unix,
}

impl Dialect {
    /// This dialect, with a rule for expressions that restrict both day fields.
    ///
    /// ```
    /// # use bandog_cron::{Cron, DayMatch, Dialect};
    /// assert!(Cron::parse("0 0 0 13 * FRI").is_err());
    /// let cron = Cron::parse_with("0 0 0 13 * FRI", Dialect::Quartz.days(DayMatch::And))?;
    /// assert_eq!(cron.describe(), "At 00:00, on day 13 of the month, if it is also on Friday");
    /// # Ok::<(), bandog_cron::ParseError>(())
    /// ```
    pub fn days(self, days: DayMatch) -> Rules {
        Rules { dialect: self, days: Some(days) }
    }

    /// The dialect's default rule for two restricted day fields. Quartz has no default and refuses such an expression.
    pub(crate) fn default_day_match(self) -> Option<DayMatch> {
        match self {
            Self::Quartz => None,
            Self::Spring => Some(DayMatch::And),
            Self::Unix => Some(DayMatch::Or),
        }
    }
}

/// Written as `quartz`, `spring` or `unix`.
impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Quartz => "quartz",
            Self::Spring => "spring",
            Self::Unix => "unix",
        })
    }
}

impl FromStr for Dialect {
    type Err = DialectError;

    fn from_str(text: &str) -> Result<Self, DialectError> {
        let all = [Self::Quartz, Self::Spring, Self::Unix];
        let found = all.into_iter().find(|dialect| text.eq_ignore_ascii_case(&dialect.to_string()));
        found.ok_or_else(|| DialectError { text: text.chars().take(64).collect() })
    }
}

/// The error for a text that is not the name of a dialect.
///
/// ```
/// use bandog_cron::Dialect;
///
/// assert_eq!("spring".parse(), Ok(Dialect::Spring));
/// let error = "systemd".parse::<Dialect>().unwrap_err();
/// assert_eq!(error.to_string(), "\"systemd\" is no dialect; allowed are quartz, spring and unix");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialectError {
    /// The first 64 characters of the text.
    text: String,
}

impl fmt::Display for DialectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no dialect; allowed are quartz, spring and unix", self.text)
    }
}

impl std::error::Error for DialectError {}

/// The rule for expressions that restrict both the day of the month and the day of the week.
///
/// The default depends on the dialect: [`Dialect::Quartz`] refuses such an expression, [`Dialect::Spring`] uses
/// [`And`](Self::And), and [`Dialect::Unix`] uses [`Or`](Self::Or). In Quartz and Spring, a day field does not restrict
/// the days if it is `*` or `?`. In Unix, a day field does not restrict the days if it begins with `*`.
///
/// ```
/// use bandog_cron::{Cron, DayMatch, Dialect, Time};
///
/// let start: Time = "2026-01-01T00:00:00Z".parse()?;
/// let first = |days| Cron::parse_with("0 0 0 13 * FRI", Dialect::Quartz.days(days)).map(|cron| cron.next(start));
/// assert_eq!(first(DayMatch::And)?, Some("2026-02-13T00:00:00Z".parse()?), "the first Friday that is a 13th");
/// assert_eq!(first(DayMatch::Or)?, Some("2026-01-02T00:00:00Z".parse()?), "the first Friday");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DayMatch {
    /// Both fields must match: Friday the 13th.
    And,
    /// One field must match: every Friday and every 13th.
    Or,
}

/// Written as `and` or `or`.
impl fmt::Display for DayMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::And => "and",
            Self::Or => "or",
        })
    }
}

impl FromStr for DayMatch {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        WordError::pick(text, &[Self::And, Self::Or], "no day match; allowed are and, or")
    }
}

/// A dialect with an optional [`DayMatch`]. [`Dialect::days`] makes rules with a [`DayMatch`]. A [`Dialect`] converts
/// into rules without a [`DayMatch`].
///
/// ```
/// use bandog_cron::{Cron, DayMatch, Dialect, Rules};
///
/// let rules: Rules = Dialect::Unix.into();
/// assert_eq!(Cron::parse_with("0 0 13 * 5", rules), Cron::parse_with("0 0 13 * 5", Dialect::Unix));
/// assert_ne!(rules, Dialect::Unix.days(DayMatch::And));
/// # Ok::<(), bandog_cron::ParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rules {
    pub(crate) dialect: Dialect,
    /// The rule that was set for two restricted day fields. `None` means the dialect's default.
    pub(crate) days: Option<DayMatch>,
}

impl Rules {
    /// The dialect.
    pub fn dialect(self) -> Dialect {
        self.dialect
    }

    /// The rule that was set for two restricted day fields. `None` means the dialect's default.
    pub fn day_match(self) -> Option<DayMatch> {
        self.days
    }
}

impl From<Dialect> for Rules {
    fn from(dialect: Dialect) -> Self {
        Self { dialect, days: None }
    }
}

/// The rule for the times that the clocks of a zone skip or show twice.
///
/// If the clocks are set forward, the times that they skip are a gap. If the clocks are set back, the times that they
/// show twice are an overlap. The default is [`Elapsed`](Self::Elapsed) if the hours are `*` or have a step, else
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
    /// The expression fires once for each matching time of each matching date. For a time in an overlap, the expression
    /// fires at the first of the two instants. If one or more matching times are in a gap, the expression fires once,
    /// at the first instant after the gap. If a gap begins on one date and ends on the next date, the times of the
    /// first date do not count.
    Pinned,
    /// Real time counts: the expression does not fire for a time in a gap, and fires twice for a time in an overlap.
    Elapsed,
    /// Like `Pinned`, but the expression does not fire for a time in a gap.
    Skip,
}

/// Written as `pinned`, `elapsed` or `skip`.
impl fmt::Display for Daylight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pinned => "pinned",
            Self::Elapsed => "elapsed",
            Self::Skip => "skip",
        })
    }
}

impl FromStr for Daylight {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let all = [Self::Pinned, Self::Elapsed, Self::Skip];
        WordError::pick(text, &all, "no rule for daylight saving; allowed are pinned, elapsed, skip")
    }
}

/// The error for a text that is not the name of a [`DayMatch`] or of a [`Daylight`] rule.
///
/// ```
/// use bandog_cron::{DayMatch, Daylight};
///
/// assert_eq!("and".parse(), Ok(DayMatch::And));
/// let error = "winter".parse::<Daylight>().unwrap_err();
/// assert_eq!(error.to_string(), "\"winter\" is no rule for daylight saving; allowed are pinned, elapsed, skip");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordError {
    /// The first 64 characters of the text.
    text: String,
    /// The end of the error message, such as `no day match; allowed are and, or`.
    what: &'static str,
}

impl WordError {
    /// The value in `all` whose name is `text`. Upper and lower case are equal. `what` is the end of the error message.
    fn pick<T: Copy + fmt::Display>(text: &str, all: &[T], what: &'static str) -> Result<T, Self> {
        let found = all.iter().find(|one| text.eq_ignore_ascii_case(&one.to_string())).copied();
        found.ok_or_else(|| Self { text: text.chars().take(64).collect(), what })
    }
}

impl fmt::Display for WordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is {}", self.text, self.what)
    }
}

impl std::error::Error for WordError {}
