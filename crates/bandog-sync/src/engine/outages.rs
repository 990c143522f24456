//! Log lines about the store's outages. An outage has one line at its beginning and one line at its end, instead of one
//! line for each failed request.

use std::time::Duration;

use bandog_core::Moment;

/// Minimum interval between two logged outages. Without this interval, a store that fails again and again would cause
/// too many lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The line to log now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutageLog {
    Began,
    Ended,
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct Outages {
    /// Whether the store did not answer the last request.
    is_away: bool,
    /// When the beginning of an outage was last logged.
    logged_at: Option<Moment>,
    /// Whether the beginning of the present outage was logged. If so, the end of the outage is logged as well.
    is_logged: bool,
}

impl Outages {
    /// Whether the store did not answer the last request.
    pub(super) fn is_away(&self) -> bool {
        self.is_away
    }

    /// Records that the store has answered a request.
    pub(super) fn answered(&mut self) -> OutageLog {
        let was_logged = std::mem::take(&mut self.is_logged);
        if std::mem::take(&mut self.is_away) && was_logged { OutageLog::Ended } else { OutageLog::Nothing }
    }

    /// Records that the store has not answered a request. `is_logged_elsewhere` returns whether the program that uses
    /// this client logs outages itself.
    pub(super) fn not_answered(&mut self, now: Moment, is_logged_elsewhere: impl FnOnce() -> bool) -> OutageLog {
        let began = !std::mem::replace(&mut self.is_away, true);
        let may_log = self.logged_at.is_none_or(|logged| now.since(logged) >= LOG_INTERVAL);
        let is_reported = self.is_logged && !began;
        if !may_log || is_reported || is_logged_elsewhere() {
            return OutageLog::Nothing;
        }
        (self.logged_at, self.is_logged) = (Some(now), true);
        OutageLog::Began
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(1_000_000_000 * (seconds + 1))
    }

    #[test]
    fn an_outage_is_logged_once_and_its_end_once() {
        let mut outages = Outages::default();
        assert_eq!(outages.not_answered(at(0), || false), OutageLog::Began);
        assert_eq!(outages.not_answered(at(1), || false), OutageLog::Nothing);
        assert!(outages.is_away());
        assert_eq!(outages.answered(), OutageLog::Ended);
        assert_eq!(outages.answered(), OutageLog::Nothing);
        assert!(!outages.is_away());
    }

    #[test]
    fn a_store_that_alternates_is_logged_every_ten_seconds() {
        let mut outages = Outages::default();
        let mut logged = 0;
        for second in 0..100 {
            logged += u32::from(outages.not_answered(at(second), || false) == OutageLog::Began);
            outages.answered();
        }
        assert_eq!(logged, 10);
    }

    #[test]
    fn an_outage_that_a_caller_logs_is_not_logged_here() {
        let mut outages = Outages::default();
        assert_eq!(outages.not_answered(at(0), || true), OutageLog::Nothing);
        assert_eq!(outages.answered(), OutageLog::Nothing);
        assert_eq!(outages.not_answered(at(1), || false), OutageLog::Began);
    }
}
