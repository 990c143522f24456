//! The rules of one lock, for backends that read the state of a lock, change the state, and write it back.

mod text;

use std::num::NonZeroU32;

use crate::{
    Answer, Claim, ClaimId, Error, ErrorKind, Family, Fence, Fences, Holder, Key, Kind, Kinds, MAX_BLOCK, Moment,
    OFFER, PLACE, Released, Renewal, Result, Row, Step, Verdict,
};

/// Maximum number of followers in one answer ([`Verdict::Granted`]). With the claim itself, they have one fence each.
const MAX_FOLLOWERS: usize = MAX_BLOCK.get() as usize - 1;

/// The state of one lock: its holds, the claims that have a place, and the last fence. The store also keeps the state
/// of a free lock, because the next grant must have a greater fence.
///
/// This type makes the decisions for every kind of lock. The backend makes each change atomic, and sends the
/// notifications. A state can be written as a text (`Display`) and parsed from the text (`FromStr`). The text is one
/// line without a tab.
///
/// ```
/// use bandog::backend::{Clock, LockState};
/// let state = LockState::default();
/// assert_eq!(state.to_string().parse::<LockState>()?, state);
/// # Ok::<(), bandog::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockState {
    /// The holds, in the order of their grants. Holds that have expired are removed at the next step.
    holds: Vec<Hold>,
    /// The claims that have a place ([`Claim::joins`]), in the order in which they got it.
    places: Vec<Place>,
    /// The last fence that was reserved.
    fence: u64,
    /// Whether a client starves for the lock: the client has waited for a second or more. In this case, the release of
    /// the hold makes an offer, which reserves the lock for starving clients (see [`Claim::offers`]).
    starving: bool,
    /// The number of permits. None if the name was never used as a semaphore.
    limit: Option<Limit>,
}

/// The number of permits of a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The present number.
    pub now: u32,
    /// The number before the last change. Claims that still name this number are accepted, so that a change of the
    /// limit does not stop clients that do not know it yet.
    pub before: u32,
}

/// A hold of a claim, or an offer: a reservation for starving clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The claim that holds the lock. For an offer, [`ClaimId::OFFERED`].
    pub id: ClaimId,
    /// The kind of the hold.
    pub kind: Kind,
    /// The time at which the hold expires.
    pub until: Moment,
    /// The last fence that the grant reserved.
    pub last_fence: Fence,
}

/// The place of a claim that waits ([`Claim::joins`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The claim that waits.
    pub id: ClaimId,
    /// The kind of the claim.
    pub kind: Kind,
    /// The time at which the place expires, unless the claim is sent again or renewed.
    pub until: Moment,
}

impl LockState {
    /// The kinds of locks that this type supports. A backend that uses this type returns this set in
    /// [`crate::Profile::kinds`].
    pub const KINDS: Kinds = Kinds::MUTEX.and(Kinds::FAIR).and(Kinds::READ_WRITE).and(Kinds::PERMITS);

    /// The state of a mutex with this hold and this last fence, for a backend that stores the hold and the fence in
    /// columns. `starving`: whether a client starves for the lock (see [`Claim::offers`]).
    pub fn of_mutex(hold: Option<(ClaimId, Moment)>, starving: bool, fence: Fence) -> Self {
        let hold = hold.map(|(id, until)| Hold { id, kind: Kind::Mutex, until, last_fence: fence });
        Self { holds: hold.into_iter().collect(), places: Vec::new(), fence: fence.get(), starving, limit: None }
    }

    /// The state with these parts, for a backend that stores each hold and each place separately. The holds are in the
    /// order of their grants, and the places in the order of the queue. `starving`: whether a client starves for the
    /// lock (see [`Claim::offers`]).
    pub fn of_parts(holds: Vec<Hold>, places: Vec<Place>, limit: Option<Limit>, starving: bool, fence: Fence) -> Self {
        Self { holds, places, fence: fence.get(), starving, limit }
    }

    /// The holds, expired or not, in the order of their grants.
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// The first hold, expired or not. A mutex has at most one hold.
    pub fn hold(&self) -> Option<&Hold> {
        self.holds.first()
    }

    /// The claims that have a place, expired or not, in the order of the queue.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The claim that is next in the queue of a fair mutex. None if no claim of [`Kind::Fair`] has a place. After a
    /// release, a backend can notify only the client of this claim.
    pub fn next_in_queue(&self, now: Moment) -> Option<ClaimId> {
        let next = |place: &&Place| now < place.until && matches!(place.kind, Kind::Fair);
        self.places.iter().find(next).map(|place| place.id)
    }

    /// Whether a client starves for the lock (see [`Claim::offers`]).
    pub fn is_starving(&self) -> bool {
        self.starving
    }

    /// The last fence.
    pub fn fence(&self) -> Fence {
        Fence::new(self.fence)
    }

    /// The number of permits of this semaphore. None if the name was never used as a semaphore.
    pub fn limit(&self) -> Option<u32> {
        self.limit.map(|limit| limit.now)
    }

    /// The number of permits of this semaphore, and the number before the last change. None if the name was never used
    /// as a semaphore.
    pub fn limits(&self) -> Option<Limit> {
        self.limit
    }

    /// Changes the number of permits. If more permits are held than the new limit allows, no permits are granted until
    /// enough of them are released. Claims that name the number before the last change are still accepted.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if a claim of another family holds the name.
    pub fn set_limit(&mut self, permits: NonZeroU32, now: Moment) -> Result<Option<u32>> {
        self.forget_expired(now);
        self.check_family(Family::Semaphore)?;
        let (now, earlier) = (permits.get(), self.limit());
        let before = self.limit.map_or(now, |limit| if limit.now == now { limit.before } else { limit.now });
        self.limit = Some(Limit { now, before });
        Ok(earlier)
    }

    /// Applies a step to this lock.
    ///
    /// # Errors
    /// - [`ErrorKind::Denied`]: a claim of another family holds the name ([`Kind::family`]).
    /// - [`ErrorKind::Misused`]: the semaphore has another limit, the claim takes more permits than the limit, or the
    ///   pass is not allowed ([`Step::Pass`]).
    ///
    /// After an error, the state is unchanged, except that expired holds and places can be removed.
    pub fn apply(&mut self, step: &Step, now: Moment) -> Result<Answer> {
        self.apply_above(step, now, Fence::new(0))
    }

    /// Applies a step to this lock. The fences of a new grant are greater than `above`. For example, `above` can be the
    /// time of the wall clock in microseconds.
    ///
    /// # Errors
    /// As [`LockState::apply`].
    pub fn apply_above(&mut self, step: &Step, now: Moment, above: Fence) -> Result<Answer> {
        self.forget_expired(now);
        match step {
            Step::Claim(claim) => self.claim(claim, None, now, above).map(Answer::Claimed),
            Step::Pass { from, to } => {
                check_pass(from.kind, to.kind)?;
                self.claim(to, Some(from.id), now, above).map(Answer::Claimed)
            }
            Step::Release(claim) => Ok(Answer::Released(self.release(claim, now))),
        }
    }

    /// Whether other claims may be granted now because of a step that this state has just applied with this answer.
    /// The backend then notifies their clients. For a fair mutex, see [`LockState::next_in_queue`].
    pub fn wakes_others(&self, step: &Step, answer: &Answer) -> bool {
        match (answer, step) {
            (Answer::Released(Released::Freed { .. } | Released::LeftQueue), _) => true,
            (Answer::Released(Released::NotHeld) | Answer::Claimed(Verdict::Busy { .. }), _) => false,
            // A downgrade: other readers can get the lock now.
            (Answer::Claimed(Verdict::Granted { .. }), Step::Pass { from, to }) => from.kind != to.kind,
            // While a starving claim has a place, claims for fewer permits are refused although these permits are free.
            (Answer::Claimed(Verdict::Granted { .. }), Step::Claim(claim)) => claim.offers && self.free_permits() > 0,
            (Answer::Claimed(Verdict::Granted { .. }), Step::Release(_)) => false,
        }
    }

    /// Renews the hold of a claim, if the claim holds the lock. A hold is never shortened. If the claim has a place, keeps
    /// the place, and says whether the lock is free and the claim is the first one in the queue of a fair mutex.
    pub fn renew(&mut self, claim: &Claim, now: Moment) -> Renewal {
        self.forget_expired(now);
        if let Some(hold) = self.holds.iter_mut().find(|hold| hold.id == claim.id) {
            hold.until = hold.until.max(now + claim.ttl);
            return Renewal::Extended { valid_for: claim.ttl };
        }
        if let Some(place) = self.places.iter_mut().find(|place| place.id == claim.id) {
            place.until = now + PLACE;
            let is_next = self.holds.is_empty() && self.next_in_queue(now) == Some(claim.id);
            return Renewal::Waiting { is_next };
        }
        Renewal::Gone
    }

    /// Frees the lock from all claims that hold it, whatever claims these are. An offer is not a hold of a client, so
    /// this call does not end an offer.
    pub fn evict(&mut self, now: Moment) -> Released {
        self.forget_expired(now);
        let before = self.holds.len();
        self.holds.retain(|hold| hold.id == ClaimId::OFFERED);
        if self.holds.len() == before {
            return Released::NotHeld;
        }
        Released::Freed { others: None }
    }

    /// Whether this claim holds the lock.
    pub fn is_held_by(&self, id: ClaimId, now: Moment) -> bool {
        self.holds.iter().any(|hold| hold.id == id && now < hold.until)
    }

    /// Whether a claim holds the lock or has a place, or the lock is a semaphore, whose limit must stay.
    pub fn is_in_use(&self, now: Moment) -> bool {
        let is_held = self.holds.iter().any(|hold| now < hold.until);
        is_held || self.places.iter().any(|place| now < place.until) || self.limit.is_some()
    }

    /// The row of this lock for operators. None if no claim of a client holds the lock.
    pub fn row(&self, key: &Key, now: Moment) -> Option<Row> {
        let is_held = |hold: &&Hold| now < hold.until && hold.id != ClaimId::OFFERED;
        let holder = |hold: &Hold| {
            let (ttl, kind) = (Some(hold.until.since(now)), Some(self.with_present_limit(hold.kind)));
            Holder { ttl, kind, ..Holder::new(hold.id.to_string()) }.fenced(hold.last_fence)
        };
        let holders: Vec<_> = self.holds.iter().filter(is_held).map(holder).collect();
        let kind = holders.first()?.kind;
        let is_waiting = |place: &&Place| now < place.until;
        let queue = self.places.iter().filter(is_waiting).map(|place| place.id.to_string()).collect();
        Some(Row { kind, holders, queue, ..Row::free(key) })
    }

    /// This kind with the semaphore's present limit. A hold has the limit of its claim, which can have changed since
    /// then. More permits than the limit can be held after a change.
    fn with_present_limit(&self, kind: Kind) -> Kind {
        match (kind, self.limit().and_then(NonZeroU32::new)) {
            (Kind::Permits { take, .. }, Some(now)) => Kind::Permits { take, of: now.max(take) },
            (kind, _) => kind,
        }
    }

    /// Removes the holds and the places that have expired.
    fn forget_expired(&mut self, now: Moment) {
        self.holds.retain(|hold| now < hold.until);
        self.places.retain(|place| now < place.until);
        if self.holds.is_empty() {
            self.starving = false; // The note belongs to the holds.
        }
    }

    /// Grants the lock to a claim, or refuses it. `from`: the claim whose hold is replaced by a grant.
    fn claim(&mut self, claim: &Claim, from: Option<ClaimId>, now: Moment, above: Fence) -> Result<Verdict> {
        if let Some(at) = self.holds.iter().position(|hold| hold.id == claim.id) {
            // The claim can be a late one. The client may know a later end from a renewal.
            self.holds[at].until = self.holds[at].until.max(now + claim.ttl);
            let fences = Fences::ending(self.raise(at, claim), claim.fences);
            return Ok(Verdict::Granted { fences, valid_for: claim.ttl, followers: Vec::new() });
        }
        self.check_family(claim.kind.family())?;
        if let Kind::Permits { take, of } = claim.kind {
            self.check_limit(take.get(), of.get())?;
        }
        let may_replace = |hold: &&Hold| Some(hold.id) == from || claim.offers && hold.id == ClaimId::OFFERED;
        let replaced = self.holds.iter().find(may_replace).map(|hold| hold.id);
        // A pass whose `from` holds the lock is not a new claim: it does not have to wait for claims that have a place.
        let is_passed = from.is_some() && replaced == from;
        let others = self.holds.iter().filter(|hold| Some(hold.id) != replaced);
        let is_free = match claim.kind {
            Kind::Mutex | Kind::Fair | Kind::Write => others.count() == 0,
            Kind::Read => others.into_iter().all(|hold| matches!(hold.kind, Kind::Read)),
            Kind::Permits { take, .. } => {
                let held: u64 = others.map(|hold| u64::from(hold.kind.permits())).sum();
                held + u64::from(take.get()) <= u64::from(self.limit().unwrap_or_default())
            }
        };
        if !is_free || !is_passed && self.has_place_before(claim) {
            return Ok(self.refuse(claim, now));
        }
        self.holds.retain(|hold| Some(hold.id) != replaced);
        self.places.retain(|place| place.id != claim.id && place.kind.family() == claim.kind.family());
        self.starving &= replaced.is_some() || !self.holds.is_empty();
        let above = above.max(claim.above.unwrap_or(above));
        self.fence = self.fence.max(above.get()) + u64::from(claim.fences.get());
        let last_fence = Fence::new(self.fence);
        self.holds.push(Hold { id: claim.id, kind: claim.kind, until: now + claim.ttl, last_fence });
        let fences = Fences::ending(last_fence, claim.fences);
        Ok(Verdict::Granted { fences, valid_for: claim.ttl, followers: self.followers(claim) })
    }

    /// The claims of the same client at the head of the queue of a fair mutex: see [`Verdict::Granted`].
    fn followers(&self, claim: &Claim) -> Vec<u64> {
        if !matches!(claim.kind, Kind::Fair) {
            return Vec::new();
        }
        let follows = |place: &&Place| place.id.client == claim.id.client && matches!(place.kind, Kind::Fair);
        let followers = self.places.iter().take_while(follows).take(MAX_FOLLOWERS);
        followers.map(|place| place.id.number).collect()
    }

    /// Gives the hold at this position new fences, if the claim asks for it ([`Claim::above`]). Returns the last fence of
    /// the hold.
    fn raise(&mut self, at: usize, claim: &Claim) -> Fence {
        let (last, count) = (self.holds[at].last_fence, u64::from(claim.fences.get()));
        let Some(above) = claim.above.filter(|above| last.get() < above.get() + count) else { return last };
        // The fences of the old block are not used, so the new block can overlap them.
        let others = if last.get() == self.fence { self.fence.saturating_sub(count) } else { self.fence };
        self.fence = others.max(above.get()) + count;
        self.holds[at].last_fence = Fence::new(self.fence);
        self.holds[at].last_fence
    }

    /// Number of permits that no claim holds. Zero if the name is not a semaphore.
    fn free_permits(&self) -> u64 {
        let held: u64 = self.holds.iter().map(|hold| u64::from(hold.kind.permits())).sum();
        u64::from(self.limit().unwrap_or_default()).saturating_sub(held)
    }

    /// Refuses a claim. Keeps a place for the claim, or a note that a client starves, if the claim asks for it.
    fn refuse(&mut self, claim: &Claim, now: Moment) -> Verdict {
        // A claim of these kinds gets a note. The next release then makes an offer.
        if claim.offers && matches!(claim.kind, Kind::Mutex | Kind::Read | Kind::Write) {
            self.starving |= !self.holds.is_empty();
        }
        let has_place = match claim.kind {
            Kind::Mutex | Kind::Read => false,
            Kind::Fair | Kind::Write => claim.joins,
            Kind::Permits { .. } => claim.joins && claim.offers,
        };
        let at = self.places.iter().position(|place| place.id == claim.id);
        let until = now + PLACE;
        let at = match at {
            Some(at) => {
                self.places[at].until = until;
                Some(at)
            }
            None if has_place => {
                self.places.push(Place { id: claim.id, kind: claim.kind, until });
                Some(self.places.len() - 1)
            }
            None => None,
        };
        let is_fair = matches!(claim.kind, Kind::Fair);
        let ahead = at.filter(|_| is_fair).and_then(|at| u32::try_from(at).ok());
        // The moment at which the holds have expired that are in the way of the claim, or else the places.
        let holds = self.holds.iter().map(|hold| hold.until);
        let holds = if matches!(claim.kind, Kind::Permits { .. }) { holds.min() } else { holds.max() };
        let places = self.places[..at.unwrap_or(self.places.len())].iter().map(|place| place.until);
        let retry_at = holds.or(places.min()).unwrap_or(until);
        Verdict::Busy { retry_after: retry_at.since(now), ahead }
    }

    /// Whether a claim must wait because another claim has a place before it.
    fn has_place_before(&self, claim: &Claim) -> bool {
        let ahead = self.places.iter().take_while(|place| place.id != claim.id);
        match claim.kind {
            Kind::Mutex => false,
            Kind::Fair => ahead.into_iter().any(|place| matches!(place.kind, Kind::Fair)),
            Kind::Read => !claim.offers && ahead.into_iter().any(|place| matches!(place.kind, Kind::Write)),
            // Between writers there is no order.
            Kind::Write => false,
            Kind::Permits { .. } => ahead.into_iter().any(|place| matches!(place.kind, Kind::Permits { .. })),
        }
    }

    /// Ends the hold or the place of a claim.
    fn release(&mut self, claim: &Claim, now: Moment) -> Released {
        let Some(at) = self.holds.iter().position(|hold| hold.id == claim.id) else {
            // The client of `claim` no longer waits. A release with `offers` removes the note that a client starves.
            self.starving &= !claim.offers;
            let before = self.places.len();
            self.places.retain(|place| place.id != claim.id);
            return if self.places.len() < before { Released::LeftQueue } else { Released::NotHeld };
        };
        let kind = self.holds.remove(at).kind;
        if std::mem::take(&mut self.starving) {
            match kind {
                Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write if self.holds.is_empty() => {
                    self.holds.push(self.offer(kind, now));
                }
                // Other readers still hold the lock. The last of them makes the offer.
                Kind::Read => self.starving = true,
                Kind::Mutex | Kind::Fair | Kind::Write | Kind::Permits { .. } => {}
            }
        }
        Released::Freed { others: None }
    }

    /// The hold that reserves the lock for starving clients for a short time.
    fn offer(&self, kind: Kind, now: Moment) -> Hold {
        // No reader without `offers` can join an offer, so the offer is exclusive.
        let kind = if matches!(kind.family(), Family::ReadWrite) { Kind::Write } else { Kind::Mutex };
        Hold { id: ClaimId::OFFERED, kind, until: now + OFFER, last_fence: Fence::new(self.fence) }
    }

    /// Checks that no claim of another family holds the name.
    fn check_family(&self, family: Family) -> Result<()> {
        match self.holds.iter().map(|hold| hold.kind.family()).find(|held| *held != family) {
            Some(held) => Err(Error::new(
                ErrorKind::Denied,
                format!("the name is in use as {held}, so it cannot be used as {family}"),
            )),
            None => Ok(()),
        }
    }

    /// Checks the limit that a claim of permits names. The first claim of a name sets the limit.
    fn check_limit(&mut self, take: u32, of: u32) -> Result<()> {
        if take > of {
            return Err(Error::misused(format!("the semaphore has {of} permits, so a claim cannot take {take}")));
        }
        let Limit { now, before } = *self.limit.get_or_insert(Limit { now: of, before: of });
        if of != now && of != before {
            return Err(Error::misused(format!(
                "the semaphore has {now} permits in the store, and this client says that it has {of}; give the number of \
                 the store, or change it with `set_limit` (`bandog limit NAME N`)"
            )));
        }
        if take > now {
            return Err(Error::misused(format!("the semaphore has {now} permits, so a claim cannot take {take}")));
        }
        Ok(())
    }
}

/// Checks that a hold of one kind can be passed to a claim of another kind: see [`Step::Pass`].
///
/// # Errors
/// [`ErrorKind::Misused`] if it cannot.
pub fn check_pass(from: Kind, to: Kind) -> Result<()> {
    match (from, to) {
        (Kind::Mutex, Kind::Mutex) | (Kind::Read, Kind::Read) | (Kind::Write, Kind::Write | Kind::Read) => Ok(()),
        (Kind::Permits { take, of }, Kind::Permits { take: next, of: same }) if take == next && of == same => Ok(()),
        (Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write | Kind::Permits { .. }, _) => {
            Err(Error::misused(format!("a hold of the kind {from} cannot be passed to a claim of the kind {to}")))
        }
    }
}

#[cfg(test)]
mod tests;
