//! When a job is due, in milliseconds since 1970.

use std::{sync::Arc, time::Duration};

use bandog_cron::{Cron, Time};

/// Milliseconds since 1970-01-01T00:00:00Z.
pub(crate) type Ms = i64;

/// The shortest period.
pub(crate) const MIN_PERIOD: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
pub(crate) enum Trigger {
    Cron(Arc<Cron>),
    FixedRate(Ms),
    FixedDelay(Ms),
    At(Ms),
    Once,
    /// By hand only: Spring's expression `-`.
    Never,
}

/// What of a job's state its next tick depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The newest tick that was claimed.
    pub(crate) watermark: Ms,
    /// Where the grid of a fixed rate begins, and when a single run is due.
    pub(crate) anchor: Ms,
    /// When a fixed delay is due; none while it runs.
    pub(crate) next_due: Option<Ms>,
}

impl Trigger {
    /// The first tick after the watermark.
    pub(crate) fn next(&self, place: Place) -> Option<Ms> {
        let after = place.watermark;
        match self {
            Self::Cron(cron) => Some(cron.next(Time::from_millisecond(after))?.millisecond()),
            Self::FixedRate(period) => {
                let period = *period;
                let passed = after.saturating_sub(place.anchor);
                let turns = if passed < 0 { 0 } else { passed / period + 1 };
                turns.checked_mul(period)?.checked_add(place.anchor)
            }
            Self::FixedDelay(_) => place.next_due.map(|due| due.max(after.saturating_add(1))),
            Self::At(time) => Some(*time).filter(|time| *time > after),
            Self::Once => Some(place.anchor).filter(|time| *time > after),
            Self::Never => None,
        }
    }

    /// The ticks in `(place.watermark, until]` that are later than `from`, in order.
    pub(crate) fn between(&self, place: Place, from: Ms, until: Ms) -> impl Iterator<Item = Ms> + '_ {
        let mut place = Place { watermark: place.watermark.max(from), ..place };
        std::iter::from_fn(move || {
            let tick = self.next(place).filter(|tick| *tick <= until)?;
            place.watermark = tick;
            // A fixed delay has one tick until its run has ended.
            place.next_due = None;
            Some(tick)
        })
    }

    /// Whether it counts a time from something, and does not wait for an instant that a clock shows.
    pub(crate) fn is_counted(&self) -> bool {
        match self {
            Self::FixedRate(_) | Self::FixedDelay(_) | Self::Once => true,
            Self::Cron(_) | Self::At(_) | Self::Never => false,
        }
    }

    /// What it is, in one line that a machine can tell apart.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Cron(cron) => format!("cron {}", cron.text()),
            Self::FixedRate(period) => format!("fixed_rate {}", span(*period)),
            Self::FixedDelay(delay) => format!("fixed_delay {}", span(*delay)),
            Self::At(time) => format!("at {}", Time::from_millisecond(*time)),
            Self::Once => "once".to_owned(),
            Self::Never => "cron -".to_owned(),
        }
    }

    /// What it is, in words.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Cron(cron) => cron.describe(),
            Self::FixedRate(period) => format!("every {}", span(*period)),
            Self::FixedDelay(delay) => format!("{} after each run", span(*delay)),
            Self::At(time) => format!("once at {}", Time::from_millisecond(*time)),
            Self::Once => "once".to_owned(),
            Self::Never => "by hand only".to_owned(),
        }
    }

    pub(crate) fn zone(&self) -> Option<String> {
        match self {
            Self::Cron(cron) => Some(cron.zone().to_string()),
            Self::FixedRate(_) | Self::FixedDelay(_) | Self::At(_) | Self::Once | Self::Never => None,
        }
    }
}

/// Milliseconds as people write them.
fn span(ms: Ms) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_millis(ms.unsigned_abs()))
}

/// A duration in milliseconds; what is longer than 292 million years becomes that.
pub(crate) fn millis(duration: Duration) -> Ms {
    Ms::try_from(duration.as_millis()).unwrap_or(Ms::MAX)
}
