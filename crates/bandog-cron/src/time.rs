//! Instants, and their text form.

use std::{fmt, str::FromStr, time::SystemTime};

use jiff::{Timestamp, fmt::temporal::Pieces};

use crate::Zone;

/// An instant, in UTC. Its text form is RFC 3339. An instant can be converted from a `SystemTime` and into a
/// `SystemTime`.
///
/// The last instant is 9999-12-30T22:00:00.999999999Z. A text with a later instant of the year 9999, such as
/// `9999-12-31T23:59:59Z`, is parsed as this last instant.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use bandog_cron::Time;
///
/// let time: Time = "2026-01-31T01:00:00+01:00".parse()?;
/// assert_eq!(time.to_string(), "2026-01-31T00:00:00Z");
/// assert_eq!(SystemTime::from(time), SystemTime::UNIX_EPOCH + Duration::from_secs(1_769_817_600));
/// assert_eq!(Time::from(SystemTime::UNIX_EPOCH).to_string(), "1970-01-01T00:00:00Z");
/// # Ok::<(), bandog_cron::TimeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Timestamp);

impl Time {
    /// The last instant.
    pub(crate) const END: Self = Self(Timestamp::MAX);

    /// The instant that is `second` seconds after 1970-01-01T00:00:00Z. An instant outside the years -9999 to 9999 is
    /// replaced by the first or the last instant that this type supports.
    ///
    /// ```
    /// # use bandog_cron::Time;
    /// assert_eq!(Time::from_second(86_400).to_string(), "1970-01-02T00:00:00Z");
    /// ```
    pub fn from_second(second: i64) -> Self {
        let end = if second < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Self(Timestamp::from_second(second).unwrap_or(end))
    }

    /// The seconds since 1970-01-01T00:00:00Z, rounded down.
    ///
    /// ```
    /// # use bandog_cron::Time;
    /// let time: Time = "1969-12-31T23:59:59.5Z".parse()?;
    /// assert_eq!(time.second(), -1);
    /// # Ok::<(), bandog_cron::TimeError>(())
    /// ```
    pub fn second(self) -> i64 {
        self.0.as_second() - i64::from(self.0.subsec_nanosecond() < 0)
    }

    /// The seconds since 1970-01-01T00:00:00Z, rounded up.
    pub(crate) fn second_up(self) -> i64 {
        self.0.as_second() + i64::from(self.0.subsec_nanosecond() > 0)
    }

    /// The instant that is `millisecond` milliseconds after 1970-01-01T00:00:00Z. An instant outside the years -9999 to
    /// 9999 is replaced by the first or the last instant that this type supports.
    ///
    /// ```
    /// # use bandog_cron::Time;
    /// assert_eq!(Time::from_millisecond(1_500).to_string(), "1970-01-01T00:00:01.5Z");
    /// ```
    pub fn from_millisecond(millisecond: i64) -> Self {
        let end = if millisecond < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Self(Timestamp::from_millisecond(millisecond).unwrap_or(end))
    }

    /// The milliseconds since 1970-01-01T00:00:00Z, rounded down.
    ///
    /// ```
    /// # use bandog_cron::Time;
    /// let time: Time = "1969-12-31T23:59:59.9995Z".parse()?;
    /// assert_eq!(time.millisecond(), -1);
    /// # Ok::<(), bandog_cron::TimeError>(())
    /// ```
    pub fn millisecond(self) -> i64 {
        self.0.as_millisecond() - i64::from(self.0.subsec_nanosecond() % 1_000_000 < 0)
    }

    /// The instant as the clocks of a zone show it: RFC 3339 with the zone's offset, or `Z` for UTC. RFC 3339 cannot
    /// write an offset with seconds, such as the offset of Monrovia until 1972. An instant with such an offset is
    /// written in UTC.
    ///
    /// ```
    /// # use bandog_cron::{Time, Zone};
    /// let time: Time = "2026-01-31T00:00:00Z".parse()?;
    /// assert_eq!(time.at(&Zone::named("Asia/Kathmandu")?).to_string(), "2026-01-31T05:45:00+05:45");
    /// assert_eq!(time.at(&Zone::UTC).to_string(), "2026-01-31T00:00:00Z");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn at(self, zone: &Zone) -> Zoned<'_> {
        Zoned { time: self, zone }
    }
}

impl From<SystemTime> for Time {
    /// An instant outside the years -9999 to 9999 is replaced by the first or the last instant of [`Time`].
    fn from(time: SystemTime) -> Self {
        let end = if time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
        Self(Timestamp::try_from(time).unwrap_or(end))
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        time.0.into()
    }
}

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let time = text.parse().ok().or_else(|| last_day(text));
        time.map(Self).ok_or_else(|| TimeError { text: text.chars().take(64).collect() })
    }
}

/// Parses a text with an instant of the year 9999 that [`Timestamp`] refuses. The result is the last instant. Many
/// people write the end of the year 9999 to say "never ends". But [`Timestamp::MAX`] is earlier than the end of the
/// year 9999, because [`Timestamp`] reserves the last hours of that year for the offsets of zones.
fn last_day(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    let is_complete = pieces.time().is_some() && pieces.offset().is_some();
    (is_complete && pieces.date().year() == 9999).then_some(Timestamp::MAX)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An instant, and the zone in which `Display` writes the instant. [`Time::at`] creates this value.
///
/// ```
/// # use bandog_cron::{Time, Zone};
/// let zone = Zone::named("Europe/Amsterdam")?;
/// let time: Time = "2026-07-01T00:00:00Z".parse()?;
/// println!("{}", time.at(&zone));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Zoned<'a> {
    time: Time,
    zone: &'a Zone,
}

impl fmt::Display for Zoned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.zone.offset(self.time.0) {
            Some(offset) if offset.seconds() % 60 == 0 => self.time.0.display_with_offset(offset).fmt(f),
            _ => self.time.fmt(f),
        }
    }
}

/// The error for a text that is not an instant of RFC 3339.
///
/// ```
/// use bandog_cron::{Time, TimeError};
///
/// let error: TimeError = "tomorrow".parse::<Time>().unwrap_err();
/// assert_eq!(error.to_string(), "\"tomorrow\" is no instant; write it as 2026-01-31T00:00:00Z or with an offset");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeError {
    /// The first 64 characters of the text.
    text: String,
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no instant; write it as 2026-01-31T00:00:00Z or with an offset", self.text)
    }
}

impl std::error::Error for TimeError {}
