//! Triggers: when a job is due.

use std::{sync::Arc, time::Duration};

use bandog_cron::{Cron, Time};

/// Milliseconds since 1970-01-01T00:00:00Z.
pub(crate) type UnixMs = i64;

/// Milliseconds between two instants.
pub(crate) type DurationMs = i64;

/// Minimum period of a fixed rate and of a fixed delay.
pub(crate) const MIN_PERIOD: Duration = Duration::from_millis(1);

/// Number of ticks whose distances [`Trigger::shortest_gap`] compares.
const GAPS: usize = 50;
/// The instant from which [`Trigger::period`] counts ticks: 2020-01-01T00:00:00Z.
const FIRST_TICKS: UnixMs = 1_577_836_800_000;

/// The rule that says when a job is due. Durations and instants are in milliseconds.
#[derive(Debug, Clone)]
pub(crate) enum Trigger {
    Cron(Arc<Cron>),
    FixedRate(DurationMs),
    FixedDelay(DurationMs),
    At(UnixMs),
    Once,
    /// The job never fires, and runs only when an operator requests a run. In Spring, this is the expression `-`.
    Never,
}

/// The part of a job's state that its next tick depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TickCursor {
    /// The newest tick that was claimed.
    pub(crate) watermark: UnixMs,
    /// For a fixed rate: the tick from which the periods are counted. For a job that fires once: its tick.
    pub(crate) anchor: UnixMs,
    /// The next tick of a job with a fixed delay. None while the job runs.
    pub(crate) next_due: Option<UnixMs>,
}

impl Trigger {
    /// The first tick after the watermark.
    pub(crate) fn next(&self, cursor: TickCursor) -> Option<UnixMs> {
        let after = cursor.watermark;
        match self {
            Self::Cron(cron) => Some(cron.next(Time::from_millisecond(after))?.millisecond()),
            Self::FixedRate(period) => {
                let period = *period;
                let passed = after.saturating_sub(cursor.anchor);
                let periods = if passed < 0 { 0 } else { passed / period + 1 };
                periods.checked_mul(period)?.checked_add(cursor.anchor)
            }
            Self::FixedDelay(_) => cursor.next_due.map(|due| due.max(after.saturating_add(1))),
            Self::At(time) => Some(*time).filter(|time| *time > after),
            Self::Once => Some(cursor.anchor).filter(|time| *time > after),
            Self::Never => None,
        }
    }

    /// The ticks after `from` up to `until`, the oldest first. Ticks up to the watermark are left out.
    pub(crate) fn between(&self, cursor: TickCursor, from: UnixMs, until: UnixMs) -> impl Iterator<Item = UnixMs> + '_ {
        let mut cursor = TickCursor { watermark: cursor.watermark.max(from), ..cursor };
        std::iter::from_fn(move || {
            let tick = self.next(cursor).filter(|tick| *tick <= until)?;
            cursor.watermark = tick;
            // With a fixed delay, the next tick is known only after the end of the run of this tick.
            cursor.next_due = None;
            Some(tick)
        })
    }

    /// The shortest time between two of the next ticks. None: the job has no further tick, or the next tick depends on the
    /// end of a run.
    pub(crate) fn shortest_gap(&self, now: UnixMs) -> Option<DurationMs> {
        match self {
            Self::Cron(cron) => {
                let ticks: Vec<_> = cron.after(Time::from_millisecond(now)).take(GAPS + 1).collect();
                ticks.windows(2).map(|pair| pair[1].millisecond() - pair[0].millisecond()).min()
            }
            Self::FixedRate(period) => Some(*period),
            Self::FixedDelay(_) | Self::At(_) | Self::Once | Self::Never => None,
        }
    }

    /// The delay of a job with a fixed delay. 0 for other triggers, which do not use the `next_due` of the job's state.
    pub(crate) fn delay(&self) -> DurationMs {
        match self {
            Self::FixedDelay(delay) => *delay,
            Self::Cron(_) | Self::FixedRate(_) | Self::At(_) | Self::Once | Self::Never => 0,
        }
    }

    /// Whether the job has at most one tick at a time, which a duration determines. Such a tick is never missed: it is
    /// overdue until it runs.
    pub(crate) fn has_one_tick(&self) -> bool {
        match self {
            Self::FixedDelay(_) | Self::Once => true,
            Self::Cron(_) | Self::FixedRate(_) | Self::At(_) | Self::Never => false,
        }
    }

    /// The shortest time between two of the first ticks. For a cron expression, the first ticks are counted from a fixed
    /// instant, so that all nodes compute the same time.
    pub(crate) fn period(&self) -> Option<DurationMs> {
        match self {
            Self::Cron(cron) => {
                let mut from = Time::from_millisecond(FIRST_TICKS);
                let ticks = std::iter::from_fn(|| {
                    from = cron.next(from)?;
                    Some(from.millisecond())
                });
                let ticks: Vec<UnixMs> = ticks.take(3).collect();
                ticks.windows(2).map(|pair| pair[1] - pair[0]).min()
            }
            Self::FixedRate(period) | Self::FixedDelay(period) => Some(*period),
            Self::At(_) | Self::Once | Self::Never => None,
        }
    }

    /// Whether the trigger measures durations. The other triggers name instants of the calendar, which follow the wall
    /// clock when the clock is set.
    pub(crate) fn is_counted(&self) -> bool {
        match self {
            Self::FixedRate(_) | Self::FixedDelay(_) | Self::Once => true,
            Self::Cron(_) | Self::At(_) | Self::Never => false,
        }
    }

    /// The trigger in one line, for programs.
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

    /// The trigger in words, for people.
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

/// A duration for people, such as `1m 30s`.
fn span(ms: DurationMs) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_millis(ms.unsigned_abs()))
}

/// The duration in milliseconds, at most 292 million years.
pub(crate) fn duration_ms(duration: Duration) -> DurationMs {
    DurationMs::try_from(duration.as_millis()).unwrap_or(DurationMs::MAX)
}
