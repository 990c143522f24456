//! The end of a fixed lease, and how callers move it to a later moment.
//!
//! The watchdog does not renew a fixed lease, but a caller can *extend* it: the next renewal of the hold asks the store for
//! more time. The answer to this renewal moves the deadline of the guards. Without an answer, the guards keep the earlier
//! deadline, and the renewal is repeated, because the store may or may not have the later end.
//!
//! No renewal shortens a hold in the store ([`bandog_core::Leases::renew`]). So it does not matter in which order the store
//! applies the renewals of a hold, and each answer counts for the whole time that its renewal asked for.

use std::time::Duration;

use bandog_core::Moment;

use crate::turn::Report;

/// A fixed lease.
pub(super) struct Lease {
    /// The end that renewals ask the store for.
    end: Moment,
    /// The time that the next renewal asks for, if that is more than the rest of the lease.
    wanted: Duration,
    /// The callers whose extension is not answered yet.
    callers: Vec<WaitingCaller>,
    /// The renewals that the store may still apply.
    requests: Vec<Request>,
}

struct WaitingCaller {
    report: Report,
    /// When the renewal for this caller was sent. `None` if it is not sent yet.
    asked_at: Option<Moment>,
}

struct Request {
    asked_at: Moment,
    /// The end of the time in which the store may still apply the request. `None` while it is in flight.
    until: Option<Moment>,
}

impl Lease {
    pub(super) fn until(end: Moment) -> Box<Self> {
        Box::new(Self { end, wanted: Duration::ZERO, callers: Vec::new(), requests: Vec::new() })
    }

    pub(super) fn end(&self) -> Moment {
        self.end
    }

    /// Lets the next renewal ask for at least this time.
    pub(super) fn extend(&mut self, ttl: Duration, report: Report) {
        self.wanted = self.wanted.max(ttl);
        self.callers.push(WaitingCaller { report, asked_at: None });
    }

    /// The ttl of a renewal that is sent now. Zero if the lease has expired.
    pub(super) fn ttl_of_renewal(&mut self, now: Moment) -> Duration {
        let ttl = self.end.since(now).max(std::mem::take(&mut self.wanted));
        if ttl.is_zero() {
            return ttl;
        }
        self.end = now + ttl;
        self.callers.iter_mut().for_each(|caller| caller.asked_at = caller.asked_at.or(Some(now)));
        self.forget_old_requests(now);
        self.requests.push(Request { asked_at: now, until: None });
        ttl
    }

    /// Handles a renewal that has succeeded.
    pub(super) fn renewed(&mut self, asked_at: Moment) {
        self.requests.retain(|request| request.asked_at != asked_at);
    }

    /// Handles a renewal without an answer. The store may still apply it until this moment.
    pub(super) fn renewal_failed(&mut self, asked_at: Moment, until: Moment) {
        let failed = self.requests.iter_mut().filter(|request| request.asked_at == asked_at);
        failed.for_each(|request| request.until = Some(until));
    }

    /// The callers that the answer to this renewal serves.
    pub(super) fn answered(&mut self, asked_at: Moment) -> Vec<Report> {
        let is_served = |caller: &mut WaitingCaller| caller.asked_at.is_some_and(|asked| asked <= asked_at);
        self.callers.extract_if(.., is_served).map(|caller| caller.report).collect()
    }

    /// Whether the store can apply no earlier renewal any more.
    pub(super) fn is_settled(&mut self, now: Moment) -> bool {
        self.forget_old_requests(now);
        self.requests.is_empty()
    }

    /// Forgets the callers, because the hold is lost.
    pub(super) fn lose(&mut self) {
        self.callers.clear();
    }

    fn forget_old_requests(&mut self, now: Moment) {
        self.requests.retain(|request| request.until.is_none_or(|until| now < until));
    }
}
