//! This client's entry in the registry.

use std::time::Duration;

use bandog_core::{Member, Moment};

pub(in crate::engine) struct Registration {
    /// This client's entry in the registry.
    pub(in crate::engine) member: Member,
    /// How long a registration lasts. The registration is repeated when a third of this time has passed.
    pub(in crate::engine) ttl: Duration,
    /// When the last registration was sent. `None` if this client is certainly not in the registry.
    pub(in crate::engine) last_sent: Option<Moment>,
    /// When the next registration is due. `None` if the timer is not set.
    pub(in crate::engine) timer: Option<Moment>,
    /// The end of the holds that stay in the store without this client. Until then, operators can read which client took
    /// them.
    pub(in crate::engine) kept_until: Option<Moment>,
    /// Whether the store has refused a registration, because this user is not allowed to write to the registry. If so,
    /// no further registration is sent.
    pub(in crate::engine) refused: bool,
}

impl Registration {
    pub(in crate::engine) fn new(member: Member, ttl: Duration) -> Self {
        Self { member, ttl, last_sent: None, timer: None, kept_until: None, refused: false }
    }

    /// How long a registration at this moment lasts.
    pub(in crate::engine) fn ttl_at(&self, now: Moment) -> Duration {
        self.kept_until.map_or(self.ttl, |until| until.since(now).max(self.ttl))
    }

    pub(in crate::engine) fn member(&self) -> &Member {
        &self.member
    }

    pub(in crate::engine) fn member_mut(&mut self) -> &mut Member {
        &mut self.member
    }
}
