//! Outages of the store: whether the store answers, and which outages are logged.

use std::time::Duration;

use bandog_core::Moment;

/// Minimum interval between two log entries about outages. So a store that is often unavailable does not flood the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The present outage, if there is one, and the last log entry about an outage.
#[derive(Debug, Default)]
pub(super) struct OutageLog {
    /// Whether the last call was not answered.
    is_down: bool,
    /// Whether the present outage is logged.
    is_logged: bool,
    /// Time of the last log entry about an outage.
    logged_at: Option<Moment>,
}

/// The first answer after an outage.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutageEnd {
    /// Whether the start of the outage was logged.
    pub(super) was_logged: bool,
}

impl OutageLog {
    pub(super) fn is_down(&self) -> bool {
        self.is_down
    }

    /// Records that the store did not answer. Returns true if the caller should log the outage.
    pub(super) fn unanswered(&mut self, now: Moment) -> bool {
        self.is_down = true;
        let is_time = self.logged_at.is_none_or(|logged_at| now.since(logged_at) >= LOG_INTERVAL);
        let is_new = is_time && !std::mem::replace(&mut self.is_logged, true);
        if is_new {
            self.logged_at = Some(now);
        }
        is_new
    }

    /// Records that the store answered. Returns the end of the outage, or none if there was no outage.
    pub(super) fn answered(&mut self) -> Option<OutageEnd> {
        let was_down = std::mem::take(&mut self.is_down);
        was_down.then(|| OutageEnd { was_logged: std::mem::take(&mut self.is_logged) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn an_outage_is_logged_once_and_so_is_its_end() {
        let mut outages = OutageLog::default();
        assert_eq!(outages.answered(), None);
        assert!(outages.unanswered(at(1)) && !outages.unanswered(at(2)) && !outages.unanswered(at(60)));
        assert!(outages.is_down());
        assert_eq!(outages.answered(), Some(OutageEnd { was_logged: true }));
        assert_eq!((outages.answered(), outages.is_down()), (None, false));
    }

    #[test]
    fn outages_within_ten_seconds_are_logged_together() {
        let mut outages = OutageLog::default();
        assert!(outages.unanswered(at(1)));
        outages.answered();
        assert!(!outages.unanswered(at(5)));
        assert_eq!(outages.answered(), Some(OutageEnd { was_logged: false }));
        assert!(!outages.unanswered(at(10)) && outages.unanswered(at(11)), "a long outage is logged later");
    }
}
