//! A compiled expression.

use std::{fmt, iter::FusedIterator, str::FromStr};

use crate::{Daylight, Dialect, Language, ParseError, Rules, Time, Zone, describe, fields::Fields, parse, zone};

/// A compiled expression, with its zone and its text. The value has 96 bytes, plus the text on the heap.
///
/// A fire is an instant at which the expression matches the wall clock of the zone. Each fire is a whole second. Fires
/// are in the years 1970 to 2199, or 1970 to 2099 if the expression has a year field that is not `*`.
///
/// ```
/// use bandog_cron::{Cron, Time};
///
/// let cron = Cron::parse("0 0 0 L * ?")?;
/// let fires: Vec<_> = cron.after("2024-01-04T10:00:00Z".parse::<Time>()?).take(2).collect();
/// assert_eq!(fires[0].to_string(), "2024-01-31T00:00:00Z");
/// assert_eq!(fires[1].to_string(), "2024-02-29T00:00:00Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: Box<str>,
    zone: Zone,
    fields: Fields,
}

impl Cron {
    /// Compiles an expression of the Quartz dialect. The zone of the result is UTC.
    ///
    /// # Errors
    /// The call fails if the expression is not valid in the dialect. The error names the field, the column and the
    /// allowed values.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// assert!(Cron::parse("0 0 12 * * ?").is_ok());
    /// assert!(Cron::parse("0 0 25 * * ?").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, Dialect::Quartz)
    }

    /// Compiles an expression by the given rules. The rules are a dialect, or the result of [`Dialect::days`], which
    /// also says how the two day fields combine. The zone of the result is UTC.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    ///
    /// ```
    /// # use bandog_cron::{Cron, DayMatch, Dialect};
    /// assert!(Cron::parse_with("0 0 13 * 5", Dialect::Unix.days(DayMatch::And)).is_ok());
    /// assert!(Cron::parse_with("*/5 * * * *", Dialect::Unix).is_ok());
    /// ```
    pub fn parse_with(text: &str, rules: impl Into<Rules>) -> Result<Self, ParseError> {
        match parse::parse(text, rules.into()) {
            Ok(fields) => Ok(Self { text: text.into(), zone: Zone::UTC, fields }),
            Err(fault) => Err(ParseError::new(text, fault)),
        }
    }

    /// The same expression in another zone.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Time, Zone};
    /// let cron = Cron::parse("0 0 9 * * ?")?.in_zone(Zone::named("Asia/Tokyo")?);
    /// let fire = cron.next("2026-01-01T12:00:00Z".parse::<Time>()?).unwrap();
    /// assert_eq!(fire.to_string(), "2026-01-02T00:00:00Z");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_zone(mut self, zone: Zone) -> Self {
        self.zone = zone;
        self
    }

    /// The same expression with another rule for the times that the clocks skip (a gap) or show twice (an overlap).
    ///
    /// ```
    /// # use bandog_cron::{Cron, Daylight, Time, Zone};
    /// let cron = Cron::parse("0 30 2 * * ?")?.in_zone(Zone::named("Europe/Berlin")?).on_daylight(Daylight::Skip);
    /// let fire = cron.next("2026-03-28T12:00:00Z".parse::<Time>()?).unwrap();
    /// assert_eq!(fire.at(cron.zone()).to_string(), "2026-03-30T02:30:00+02:00", "29 March has no 02:30");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_daylight(mut self, daylight: Daylight) -> Self {
        self.fields.daylight = daylight;
        self
    }

    /// The text from which the expression was compiled.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// assert_eq!(Cron::parse("@daily")?.text(), "@daily");
    /// # Ok::<(), bandog_cron::ParseError>(())
    /// ```
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The dialect in which the expression was parsed.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Dialect};
    /// assert_eq!(Cron::parse("@daily")?.dialect(), Dialect::Quartz);
    /// # Ok::<(), bandog_cron::ParseError>(())
    /// ```
    pub fn dialect(&self) -> Dialect {
        self.fields.dialect
    }

    /// The rules by which the expression was parsed: its dialect, and its [`DayMatch`](crate::DayMatch) if the
    /// [`DayMatch`](crate::DayMatch) differs from the dialect's default.
    ///
    /// To make an equal expression, only four values are needed: the text, the rules, the zone and the
    /// [`daylight`](Self::daylight) rule.
    ///
    /// ```
    /// # use bandog_cron::{Cron, DayMatch, Dialect};
    /// let friday_13 = Cron::parse_with("0 0 0 13 * FRI", Dialect::Quartz.days(DayMatch::And))?;
    /// assert_eq!(friday_13.rules().day_match(), Some(DayMatch::And));
    /// assert_eq!(Cron::parse_with(friday_13.text(), friday_13.rules())?, friday_13);
    /// let spring = Cron::parse_with("0 0 0 13 * FRI", Dialect::Spring.days(DayMatch::And))?;
    /// assert_eq!(spring.rules(), Dialect::Spring.into(), "And is Spring's default");
    /// # Ok::<(), bandog_cron::ParseError>(())
    /// ```
    pub fn rules(&self) -> Rules {
        Rules { dialect: self.fields.dialect, days: self.fields.day_match_override }
    }

    /// The zone whose clocks the expression follows.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Zone};
    /// assert_eq!(Cron::parse("@daily")?.zone(), &Zone::UTC);
    /// # Ok::<(), bandog_cron::ParseError>(())
    /// ```
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The rule for times that the clocks skip or show twice.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Daylight};
    /// assert_eq!(Cron::parse("@hourly")?.daylight(), Daylight::Elapsed);
    /// # Ok::<(), bandog_cron::ParseError>(())
    /// ```
    pub fn daylight(&self) -> Daylight {
        self.fields.daylight
    }

    /// The first fire after this instant. A fire at this instant does not count. `None` if no fire follows.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Time};
    /// let cron = Cron::parse("0/10 * * * * ?")?;
    /// let fire = cron.next("2026-01-01T00:00:00Z".parse::<Time>()?).unwrap();
    /// assert_eq!(fire.to_string(), "2026-01-01T00:00:10Z");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next(&self, after: impl Into<Time>) -> Option<Time> {
        zone::at_or_after(&self.fields, &self.zone, after.into().second() + 1).map(Time::from_second)
    }

    /// The last fire before this instant. A fire at this instant does not count. `None` if no fire is earlier.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Time};
    /// let cron = Cron::parse("0 0 0 29 2 ?")?;
    /// let fire = cron.prev("2026-01-01T00:00:00Z".parse::<Time>()?).unwrap();
    /// assert_eq!(fire.to_string(), "2024-02-29T00:00:00Z");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prev(&self, before: impl Into<Time>) -> Option<Time> {
        zone::at_or_before(&self.fields, &self.zone, before.into().second_up() - 1).map(Time::from_second)
    }

    /// All fires after this instant, in order. A fire at this instant does not count.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Time};
    /// let cron = Cron::parse("0 0 0 1 1 ? 2099")?;
    /// assert_eq!(cron.after("2026-01-01T00:00:00Z".parse::<Time>()?).count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after(&self, after: impl Into<Time>) -> Fires<'_> {
        Fires { cron: self, after: Some(after.into()), until: Time::END }
    }

    /// All fires after `from`, up to and including `to`, in order. A fire at `from` itself does not count. So the fires
    /// of (a, b] and of (b, c] together are exactly the fires of (a, c].
    ///
    /// ```
    /// # use bandog_cron::{Cron, Time};
    /// let cron = Cron::parse("@hourly")?;
    /// let (from, to) = ("2026-01-01T00:00:00Z".parse::<Time>()?, "2026-01-01T02:00:00Z".parse::<Time>()?);
    /// let fires: Vec<_> = cron.between(from, to).map(|fire| fire.to_string()).collect();
    /// assert_eq!(fires, ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]);
    /// assert_eq!(cron.between(to, from).count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn between(&self, from: impl Into<Time>, to: impl Into<Time>) -> Fires<'_> {
        Fires { cron: self, after: Some(from.into()), until: to.into() }
    }

    /// Number of fires after `from`, up to and including `to`. If there are more than `at_most` fires, the result is
    /// `at_most`. The fires are counted by arithmetic. This takes some microseconds for each year from `from` to `to`,
    /// even if the expression fires every second.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Time};
    /// let cron = Cron::parse("* * * * * ?")?;
    /// let (from, to) = ("2026-01-01T00:00:00Z".parse::<Time>()?, "2026-01-01T00:01:00Z".parse::<Time>()?);
    /// assert_eq!(cron.count_between(from, to, 1_000), 60);
    /// assert_eq!(cron.count_between(from, to, 10), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count_between(&self, from: impl Into<Time>, to: impl Into<Time>, at_most: usize) -> usize {
        let (from, to) = (from.into().second() + 1, to.into().second());
        let count = zone::count(&self.fields, &self.zone, from, to);
        usize::try_from(count).unwrap_or(usize::MAX).min(at_most)
    }

    /// Whether the expression fires in the second that contains this instant.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Time};
    /// let cron = Cron::parse("0 0 12 * * ?")?;
    /// assert!(cron.matches("2026-01-01T12:00:00.25Z".parse::<Time>()?));
    /// assert!(!cron.matches("2026-01-01T12:00:01Z".parse::<Time>()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn matches(&self, at: impl Into<Time>) -> bool {
        let second = at.into().second();
        zone::at_or_after(&self.fields, &self.zone, second) == Some(second)
    }

    /// Whether the expression has no fire in any year, for example because its only date is 31 June. The result is
    /// false for an expression that fired in the past and has no further fire.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// assert!(Cron::parse("0 0 0 31 6 ?")?.never_fires());
    /// assert!(Cron::parse("0 0 0 29 2 ? 2027")?.never_fires());
    /// assert!(!Cron::parse("0 0 0 1 1 ? 1999")?.never_fires());
    /// # Ok::<(), bandog_cron::ParseError>(())
    /// ```
    pub fn never_fires(&self) -> bool {
        self.fields.at_or_after(0).is_none()
    }

    /// The meaning of the expression, as an English phrase.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// assert_eq!(Cron::parse("0 0/5 9-17 ? * 6L")?.describe(), "Every 5 minutes from 09:00 to 17:59, on the last Friday of the month");
    /// # Ok::<(), bandog_cron::ParseError>(())
    /// ```
    pub fn describe(&self) -> String {
        self.describe_in(Language::English)
    }

    /// The meaning of the expression, as a phrase in this language.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Language};
    /// assert_eq!(Cron::parse("0 15 10 ? * MON-FRI")?.describe_in(Language::Chinese), "周一至周五，10:15");
    /// # Ok::<(), bandog_cron::ParseError>(())
    /// ```
    pub fn describe_in(&self, language: Language) -> String {
        describe::describe(&self.fields, language)
    }
}

impl FromStr for Cron {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The fires of an expression, from [`Cron::after`] and [`Cron::between`].
///
/// ```
/// # use bandog_cron::{Cron, Time};
/// let cron = Cron::parse("@daily")?;
/// for fire in cron.after("2026-01-01T00:00:00Z".parse::<Time>()?).take(3) {
///     println!("{fire}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Fires<'a> {
    cron: &'a Cron,
    /// The fire that was returned most recently, or the start of the search. `None` if no fire is left.
    after: Option<Time>,
    /// The last instant that is included.
    until: Time,
}

impl Iterator for Fires<'_> {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        self.after = self.cron.next(self.after?).filter(|fire| *fire <= self.until);
        self.after
    }
}

impl FusedIterator for Fires<'_> {}
