//! The state of a slot.

use bandog_core::{Error, Key, Kind, Moment, Subscription};

use super::{
    attempt::Attempt,
    further_claims::Further,
    holds::Holds,
    pending_downgrade::Downgrade,
    policy::{HoldsAtOnce, Policy},
    queue::Queue,
    streak::Streak,
};
use crate::{
    lane::SlotId,
    terms::{Terms, Ticket},
};

/// One key and one kind of lock in this client. The slot has only one attempt and one subscription, even if many calls
/// wait. Both use the terms of the first waiting call. Only the slot of a semaphore can have further claims in flight.
pub(in crate::engine) struct Slot {
    pub(super) id: SlotId,
    pub(super) policy: &'static Policy,
    /// The calls that wait for the key.
    pub(super) queue: Queue,
    /// The present attempt to get a hold.
    pub(super) stage: Stage,
    pub(super) holds: Holds,
    /// The subscription to releases of the key. A notification wakes the waiting calls.
    pub(super) wake_ups: WakeUps,
    /// How often the slot has learned that the key was held: the store reported another holder, or a hold of this
    /// client ended. When a call times out, this number decides whether the call is answered with "held" or with an
    /// error.
    pub(super) refusals: u64,
    /// The error of the last claim. Cleared when the store answers a claim.
    pub(super) fault: Option<Error>,
    /// The present downgrade of a writer.
    pub(super) downgrade: Option<Box<Downgrade>>,
    /// Claims of a semaphore that are in flight beside the attempt.
    pub(super) further: Further,
    /// Whether a writer of this client waits. Then no hold of readers stays open.
    pub(super) writer_waits: bool,
}

/// The present attempt to get a hold. Attempts are boxed, because a client can have many slots, so each slot should be
/// small.
#[derive(Default)]
pub(super) enum Stage {
    /// There is no attempt.
    #[default]
    Idle,
    /// A claim or a pass is in flight.
    Claiming(Claiming),
    /// Another client holds the key, or the store did not answer. The claim is sent again after a notification, or at
    /// `retry_at`.
    Waiting { attempt: Box<Attempt>, retry_at: Moment },
    /// A streak has ended. This client does not claim the key before `until`, so that other clients can get the key.
    Resting { until: Moment },
    /// The release of the last hold is in flight, and no call waits. A call that arrives before the store's answer
    /// continues the streak.
    Releasing(Streak),
}

/// A claim in flight.
pub(super) struct Claiming {
    pub(super) attempt: Box<Attempt>,
    /// The newest call that had already arrived when the claim was sent. The answer "busy" counts only for this call
    /// and for earlier calls, because the store may have decided before later calls arrived.
    pub(super) last_covered: Option<Ticket>,
    /// Whether a notification arrived after the claim was sent.
    pub(super) is_notified: bool,
}

/// This client's subscription to releases of the key.
#[derive(Default)]
pub(super) enum WakeUps {
    #[default]
    Off,
    /// The backend has not answered the subscription yet.
    Subscribing,
    /// The backend has subscribed this client. A *silent* subscription never notifies.
    On(Subscription),
}

impl WakeUps {
    /// Whether this client expects notifications of releases. The result is already true while the backend has not
    /// answered the subscription yet.
    pub(super) fn expects_notifications(&self) -> bool {
        match self {
            Self::Off => false,
            Self::Subscribing => true,
            Self::On(subscription) => !subscription.is_silent(),
        }
    }
}

impl Slot {
    pub(in crate::engine) fn new(id: SlotId) -> Self {
        Self {
            policy: Policy::of(id.lane),
            id,
            queue: Queue::default(),
            stage: Stage::Idle,
            holds: Holds::Empty,
            wake_ups: WakeUps::Off,
            refusals: 0,
            fault: None,
            downgrade: None,
            further: Further::default(),
            writer_waits: false,
        }
    }

    /// Whether the slot has a hold that is not lost.
    pub(in crate::engine) fn is_held(&self) -> bool {
        self.holds.present() > 0
    }

    /// Whether the slot can have a hold with these terms in addition to its present holds. If not, a call with these
    /// terms waits until a present hold ends, or gets the next turn of a present hold.
    pub(super) fn fits(&self, terms: Terms) -> bool {
        match terms.kind {
            Kind::Permits { take, of } => self.holds.permits() + u64::from(take.get()) <= u64::from(of.get()),
            _ if self.policy.holds == HoldsAtOnce::One => !self.is_held() && self.downgrade.is_none(),
            _ => true,
        }
    }

    pub(super) fn key(&self) -> &Key {
        &self.id.key
    }
}
