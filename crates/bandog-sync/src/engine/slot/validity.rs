//! How long a hold lasts, and when it is renewed.

use std::time::Duration;

use bandog_core::Moment;

/// Time between the end of a hold in this client and its end in the store. This time covers the drift of the clocks,
/// and lets the user stop in time.
fn margin(valid_for: Duration) -> Duration {
    (valid_for / 100).max(Duration::from_millis(5))
}

/// The plan for the next renewal of a hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum NextRenewal {
    At(Moment),
    /// The renewal is in the outbox. It is sent when the number of renewal requests in flight is below its limit.
    Queued,
    /// A renewal was sent at `asked_at`. If there is no answer by `repeat_at`, another renewal is sent.
    InFlight {
        asked_at: Moment,
        repeat_at: Moment,
    },
    /// The lease is fixed, or the hold is lost.
    Never,
}

impl NextRenewal {
    /// When the hold's timer must fire for the renewal.
    pub(super) fn wake(self) -> Option<Moment> {
        match self {
            Self::At(moment) | Self::InFlight { repeat_at: moment, .. } => Some(moment),
            Self::Queued | Self::Never => None,
        }
    }
}

/// How long the store keeps a hold. The time counts from the claim, or from the successful renewal that was sent last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Validity {
    /// When the request was sent. `valid_for` counts from this moment, not from the arrival of the answer.
    pub(super) asked_at: Moment,
    /// How long the store keeps the hold. This time can be shorter than the ttl that the client asked for.
    pub(super) valid_for: Duration,
    /// The end of the hold in this client. This moment is earlier than the end of the hold in the store.
    pub(super) until: Moment,
    /// Until this moment, more than half of the time is left, so that the hold can serve a further call.
    serves_until: Moment,
}

impl Validity {
    pub(super) fn new(asked_at: Moment, valid_for: Duration) -> Self {
        let until = asked_at + valid_for - margin(valid_for);
        Self { asked_at, valid_for, until, serves_until: until - valid_for / 2 }
    }

    /// The end of the hold in the store.
    pub(super) fn store_until(self) -> Moment {
        self.asked_at + self.valid_for
    }

    /// Whether enough time is left for a further call.
    pub(super) fn has_time(self, now: Moment) -> bool {
        now < self.serves_until
    }
}
