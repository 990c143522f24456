//! Decides when the node polls the store. A poll finds commands of operators, expired sessions and changed records. The
//! node polls once per interval, and after each notification.

use std::time::Duration;

use bandog_core::Moment;

/// Interval between two polls. A poll reads the board, which is a record that gets a new version with each published
/// change of jobs or pauses. A poll also checks whether the sessions of nodes are held. A session is a renewed lock
/// that proves that a node is alive.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of regular polls between two reads of all jobs. A read of all jobs also finds changes that were never
/// published.
const READ_ALL_EVERY: u32 = 30;
/// Minimum interval between two polls that are caused by notifications.
const MIN_POLL_DISTANCE: Duration = Duration::from_millis(50);
/// Delay before the repetition of a call that the store has not answered. The delay doubles with each attempt, up to
/// [`POLL_INTERVAL`].
pub(super) const RETRY: Duration = Duration::from_millis(100);

pub(super) struct Polls {
    /// Interval between two regular polls.
    interval: Duration,
    /// Time of the next regular poll.
    next: Moment,
    /// Time at which the node reads all jobs again, including those that have not changed.
    read_all_at: Moment,
    /// Whether a poll is in flight.
    is_polling: bool,
    /// Number of calls in flight that read records.
    reads_in_flight: usize,
    /// Time of the next poll that a notification has requested.
    requested: Option<Moment>,
    /// Time of the last poll that a notification had requested.
    last_requested: Option<Moment>,
    /// Delay before the next attempt while the store does not answer.
    retry_delay: Duration,
}

impl Polls {
    pub(super) fn new(interval: Duration, now: Moment) -> Self {
        Self {
            interval,
            next: now,
            read_all_at: now + interval * READ_ALL_EVERY,
            is_polling: false,
            reads_in_flight: 0,
            requested: None,
            last_requested: None,
            retry_delay: RETRY,
        }
    }

    /// Makes the next regular poll due.
    pub(super) fn poll_now(&mut self, now: Moment) {
        self.next = now;
    }

    /// Handles a notification. If several notifications arrive within a short time, the first notification causes a
    /// poll immediately, and the further notifications together cause one more poll.
    pub(super) fn notified(&mut self, now: Moment) {
        self.requested.get_or_insert(self.last_requested.map_or(now, |last| now.max(last + MIN_POLL_DISTANCE)));
    }

    /// Requests one more poll soon. Another process has changed the board, but may not have written the news yet.
    pub(super) fn poll_again(&mut self, now: Moment) {
        self.requested.get_or_insert(now + MIN_POLL_DISTANCE);
    }

    /// Time of the next poll that a notification has requested. None while a poll or a read of records is in flight.
    pub(super) fn requested(&self) -> Option<Moment> {
        self.requested.filter(|_| !self.is_polling && self.reads_in_flight == 0)
    }

    /// Whether a new poll interval begins now.
    pub(super) fn begins_interval(&mut self, now: Moment) -> bool {
        let is_time = now >= self.next;
        if is_time {
            self.next = now + self.interval;
        }
        is_time
    }

    /// Whether the store should be polled now. If so, the caller must call `poll_ended` after the answer.
    pub(super) fn begins_poll(&mut self, is_new_interval: bool, now: Moment) -> bool {
        let is_due = is_new_interval || self.requested().is_some_and(|due| now >= due);
        if !is_due || self.is_polling {
            return false;
        }
        self.is_polling = true;
        if self.requested.take().is_some() {
            self.last_requested = Some(now);
        }
        true
    }

    pub(super) fn poll_ended(&mut self) {
        self.is_polling = false;
    }

    pub(super) fn read_began(&mut self) {
        self.reads_in_flight += 1;
    }

    pub(super) fn read_ended(&mut self) {
        self.reads_in_flight -= 1;
    }

    /// Whether the node has to read all jobs now, including those that have not changed.
    pub(super) fn reads_all(&mut self, now: Moment) -> bool {
        let is_time = now >= self.read_all_at;
        if is_time {
            self.read_all_at = now + self.interval * READ_ALL_EVERY;
        }
        is_time
    }

    pub(super) fn until_next(&self, now: Moment) -> Duration {
        self.next.since(now)
    }

    pub(super) fn until_requested(&self, now: Moment) -> Option<Duration> {
        self.requested().map(|due| due.since(now))
    }

    pub(super) fn retry_delay(&self) -> Duration {
        self.retry_delay
    }

    pub(super) fn answered(&mut self) {
        self.retry_delay = RETRY;
    }

    pub(super) fn unanswered(&mut self) {
        self.retry_delay = (self.retry_delay * 2).min(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_millis(ms)
    }

    /// Begins a poll if one is due at this time. Returns whether a poll has begun.
    fn poll(polls: &mut Polls, ms: u64) -> bool {
        let is_new = polls.begins_interval(at(ms));
        polls.begins_poll(is_new, at(ms))
    }

    #[test]
    fn a_poll_is_due_once_per_interval_and_not_while_one_is_in_flight() {
        let mut polls = Polls::new(POLL_INTERVAL, at(0));
        assert!(poll(&mut polls, 0));
        assert!(!poll(&mut polls, 1000), "the first has no answer yet");
        polls.poll_ended();
        assert!(!poll(&mut polls, 1500));
        assert_eq!(polls.until_next(at(1500)), Duration::from_millis(500));
        assert!(poll(&mut polls, 2000));
        polls.poll_ended();
        polls.poll_now(at(2100));
        assert!(poll(&mut polls, 2100));
    }

    #[test]
    fn many_notifications_cause_one_poll_now_and_one_after_it() {
        let mut polls = Polls::new(POLL_INTERVAL, at(0));
        assert!(poll(&mut polls, 0));
        polls.poll_ended();
        polls.notified(at(200));
        assert!(poll(&mut polls, 200));
        polls.poll_ended();
        (201..210).for_each(|ms| polls.notified(at(ms)));
        assert_eq!(polls.requested(), Some(at(250)));
        assert!(!poll(&mut polls, 249) && poll(&mut polls, 250));
        polls.poll_ended();
        assert_eq!(polls.requested(), None);
    }

    #[test]
    fn no_notified_poll_is_sent_while_the_last_result_is_being_read() {
        let mut polls = Polls::new(POLL_INTERVAL, at(0));
        assert!(poll(&mut polls, 0));
        polls.notified(at(10));
        assert_eq!(polls.until_requested(at(10)), None);
        polls.read_began();
        polls.poll_ended();
        assert!(!poll(&mut polls, 20), "a read of records is in flight");
        polls.read_ended();
        assert!(poll(&mut polls, 20));
    }

    #[test]
    fn all_jobs_are_read_after_thirty_intervals() {
        let mut polls = Polls::new(POLL_INTERVAL, at(0));
        let reads = [0, 29_999, 30_000, 31_000, 60_000].map(|ms| polls.reads_all(at(ms)));
        assert_eq!(reads, [false, false, true, false, true]);
    }

    #[test]
    fn retry_delays_double_up_to_the_interval_and_an_answer_resets_them() {
        let mut polls = Polls::new(POLL_INTERVAL, at(0));
        let delays = [(); 5].map(|()| {
            polls.unanswered();
            polls.retry_delay().as_millis()
        });
        assert_eq!(delays, [200, 400, 800, 1000, 1000]);
        polls.answered();
        assert_eq!(polls.retry_delay(), RETRY);
    }
}
