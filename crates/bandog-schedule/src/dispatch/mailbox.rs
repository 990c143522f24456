//! Messages to the dispatcher.

use std::{sync::Arc, time::Duration};

use bandog_core::{Moment, Result};
use tokio::sync::{mpsc, oneshot};

use super::entry::JobId;
use crate::{State, run::RunInfo};

/// Maximum number of messages handled in one round.
const MAX_PER_ROUND: usize = 1024;
/// Maximum time between two reads of the mailbox.
const MAX_DELAY: Duration = Duration::from_millis(250);

/// A message to the dispatcher. `RunEnded`: a run has ended; `note` is the text that the job's body has set for the
/// history. `Stop`: begins a stop; `drain` is the time for which the runs can continue, and `done` gets the result.
#[derive(Debug)]
pub(crate) enum Message {
    RunEnded {
        job: JobId,
        attempt: u32,
        state: State,
        info: Arc<RunInfo>,
        error: Option<String>,
        note: Option<String>,
    },
    /// `drain`: none means that the runs can continue for whatever time.
    Stop {
        drain: Option<Duration>,
        done: oneshot::Sender<Result<()>>,
    },
    /// Ends the drain now.
    EndDrain,
    /// A caller waits until no run is under way and no event has to be written. Then the caller is notified through
    /// this sender.
    NotifyWhenIdle(oneshot::Sender<()>),
    /// Polls the store in the next round.
    Poll,
}

/// The messages that have arrived. The channel is unbounded, so a run never waits when it reports its end. The channel
/// stays small, because each message comes from the end of a run or from a call of [`crate::Running`].
pub(super) struct Mailbox {
    receiver: mpsc::UnboundedReceiver<Message>,
    /// Number of further messages that this round can handle.
    left: usize,
    /// Whether the channel might contain messages that the last round did not handle.
    has_more: bool,
    /// Time of the last round that read messages.
    read_at: Moment,
}

impl Mailbox {
    pub(super) fn new(receiver: mpsc::UnboundedReceiver<Message>, now: Moment) -> Self {
        Self { receiver, left: 0, has_more: false, read_at: now }
    }

    /// Begins a round, which can handle a limited number of messages. `is_busy`: whether very many jobs are ready. If
    /// so, the planning of these jobs comes first, and the mailbox is read only four times a second.
    pub(super) fn begin_round(&mut self, is_busy: bool, now: Moment) {
        if !is_busy || now.since(self.read_at) > MAX_DELAY {
            (self.left, self.has_more, self.read_at) = (MAX_PER_ROUND, true, now);
        }
    }

    /// The next message of this round, if one has arrived.
    pub(super) fn next_of_round(&mut self) -> Option<Message> {
        self.left = self.left.checked_sub(1)?;
        let message = self.receiver.try_recv().ok();
        if message.is_none() {
            (self.left, self.has_more) = (0, false);
        }
        message
    }

    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Waits for the next message.
    ///
    /// # Cancel safety
    /// If the future is dropped, no message is lost.
    pub(super) async fn recv(&mut self) -> Option<Message> {
        self.receiver.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the mailbox in a round at this time. Returns the number of messages.
    fn round(mailbox: &mut Mailbox, is_busy: bool, ms: u64) -> usize {
        mailbox.begin_round(is_busy, Moment::from_nanos(0) + Duration::from_millis(ms));
        std::iter::from_fn(|| mailbox.next_of_round()).count()
    }

    #[test]
    fn a_round_is_bounded_and_the_rest_follows() {
        let (sender, receiver) = mpsc::unbounded_channel();
        (0..MAX_PER_ROUND + 5).for_each(|_| sender.send(Message::Poll).unwrap());
        let mut mailbox = Mailbox::new(receiver, Moment::from_nanos(0));
        assert_eq!((round(&mut mailbox, false, 1), mailbox.has_more()), (MAX_PER_ROUND, true));
        assert_eq!((round(&mut mailbox, false, 1), mailbox.has_more()), (5, false));
        assert!(mailbox.next_of_round().is_none(), "no round has begun");
    }

    #[test]
    fn while_jobs_are_ready_the_mailbox_is_read_four_times_a_second() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut mailbox = Mailbox::new(receiver, Moment::from_nanos(0));
        sender.send(Message::Poll).unwrap();
        assert_eq!([100, 250, 251, 300].map(|ms| round(&mut mailbox, true, ms)), [0, 0, 1, 0]);
    }
}
