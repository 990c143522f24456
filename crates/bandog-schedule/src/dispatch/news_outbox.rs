//! The jobs that this node has changed, and whose names are not published yet. The names are published in the news, a
//! record from which the other nodes learn which jobs they have to read again.

use crate::news::ChangedJobs;

#[derive(Debug, Default)]
pub(super) struct NewsOutbox {
    /// Jobs that the next publication will contain.
    waiting: Option<ChangedJobs>,
    /// Jobs whose publication is in flight.
    in_flight: Option<ChangedJobs>,
}

impl NewsOutbox {
    pub(super) fn add(&mut self, job: &str) {
        self.waiting.get_or_insert_with(ChangedJobs::none).add(job);
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// The jobs to publish now. Only one publication is in flight at a time. So a job that is added during a
    /// publication waits for the next one.
    pub(super) fn begin(&mut self) -> Option<ChangedJobs> {
        if self.in_flight.is_some() {
            return None;
        }
        self.in_flight = self.waiting.take();
        self.in_flight.clone()
    }

    /// Ends the publication, whether it succeeded or not.
    pub(super) fn published(&mut self) {
        self.in_flight = None;
    }

    /// Takes all jobs whose changes the other nodes might not know.
    pub(super) fn take_all(&mut self) -> ChangedJobs {
        let mut all = ChangedJobs::none();
        self.in_flight.take().into_iter().chain(self.waiting.take()).for_each(|changed| all.join(changed));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_publication_is_in_flight_at_a_time() {
        let mut outbox = NewsOutbox::default();
        assert_eq!(outbox.begin(), None);
        outbox.add("a");
        assert_eq!(outbox.begin(), Some(ChangedJobs::job("a")));
        outbox.add("b");
        assert!(outbox.is_waiting() && outbox.begin().is_none());
        outbox.published();
        assert_eq!(outbox.begin(), Some(ChangedJobs::job("b")));
        assert!(!outbox.is_waiting());
    }

    #[test]
    fn news_whose_publication_has_no_answer_is_not_forgotten() {
        let mut outbox = NewsOutbox::default();
        outbox.add("a");
        outbox.begin();
        outbox.add("b");
        let mut both = ChangedJobs::job("a");
        both.add("b");
        assert_eq!(outbox.take_all(), both);
        assert_eq!(outbox.take_all(), ChangedJobs::none());
    }
}
