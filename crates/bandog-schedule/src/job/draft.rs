//! A job's trigger before its values are checked.

use std::{sync::Arc, time::Duration};

use bandog_core::{Error, Result};
use bandog_cron::{Cron, DayMatch, Daylight, Dialect, ParseError, Phrasing, Time, Zone};

use crate::trigger::{Trigger, duration_ms};

/// A trigger before its values are checked.
pub(super) enum TriggerDraft {
    Cron(CronDraft),
    Parsed(Arc<Cron>),
    FixedRate(Duration),
    FixedDelay(Duration),
    At(Time),
    Once,
}

/// A cron expression before it is parsed.
pub(super) struct CronDraft {
    pub(super) text: Box<str>,
    pub(super) dialect: Dialect,
    /// The rule for an expression that restricts both the day of the month and the day of the week. None: the default
    /// of the dialect.
    pub(super) days: Option<DayMatch>,
    pub(super) daylight: Option<Daylight>,
    pub(super) zone: Option<Box<str>>,
    /// Whether errors name the methods of `Job` or the keys of an attribute.
    pub(super) phrasing: Phrasing,
}

impl TriggerDraft {
    /// Checks the values, and returns the trigger. Only a disabled job can have the expression `-`.
    pub(super) fn prepare(&self, enabled: bool) -> Result<Trigger> {
        Ok(match self {
            Self::Cron(cron) if !enabled && cron.is_dash() => Trigger::Never,
            Self::Cron(cron) => Trigger::Cron(Arc::new(cron.prepare()?)),
            Self::Parsed(cron) if cron.never_fires() => {
                return Err(Error::misused(format!("{:?} never fires: no year has such a day", cron.text())));
            }
            Self::Parsed(cron) => Trigger::Cron(Arc::clone(cron)),
            Self::FixedRate(period) => Trigger::FixedRate(duration_ms(*period)),
            Self::FixedDelay(delay) => Trigger::FixedDelay(duration_ms(*delay)),
            Self::At(time) => Trigger::At(time.millisecond()),
            Self::Once => Trigger::Once,
        })
    }
}

impl CronDraft {
    /// Parses the expression, and checks that there are ticks.
    fn prepare(&self) -> Result<Cron> {
        let Self { text, dialect, days, daylight, zone, phrasing } = self;
        let rules = days.map_or_else(|| (*dialect).into(), |days| dialect.days(days));
        // The picture has two lines: the expression, and a caret that marks the wrong character. So the picture must
        // begin a new line. Otherwise the caret would not be below this character.
        let refused = |error: ParseError| {
            Error::misused(format!(
                "this is no expression of the {dialect} dialect\n{}",
                error.phrased(*phrasing).picture()
            ))
        };
        let mut cron = Cron::parse_with(text, rules).map_err(refused)?;
        if cron.never_fires() {
            return Err(Error::misused(format!("{text:?} never fires: no year has such a day")));
        }
        if let Some(zone) = zone {
            cron = cron.in_zone(Zone::named(zone).map_err(|error| Error::misused(error.to_string()))?);
        }
        Ok(match daylight {
            Some(daylight) => cron.on_daylight(*daylight),
            None => cron,
        })
    }

    /// Whether the expression is `-`, which disables the job.
    pub(super) fn is_dash(&self) -> bool {
        self.text.trim() == "-"
    }
}
