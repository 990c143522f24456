//! The rules of one lock, for backends that read the state of a lock, change the state, and write it back.

use std::{fmt, str::FromStr};

use crate::{
    Answer, Claim, ClaimId, Error, ErrorKind, Fence, Fences, Holder, Key, Kind, Kinds, Moment, OFFER, Released,
    Renewal, Row, Step, Verdict,
};

/// The last word of a state's text if a client starves for the lock ([`Hold::has_starving_waiter`]).
const STARVING: &str = " starving";

/// The state of one lock: its holder, the time at which the hold expires, and the last fence. The store also keeps the
/// state of a free lock, because the next grant must have a greater fence.
///
/// This type makes the decisions. The backend makes each change atomic, and sends the notifications. A state can be
/// written as a text (`Display`) and parsed from the text (`FromStr`). The text is one line without a tab.
///
/// ```
/// use bandog::{Clock, backend::LockState};
/// let state = LockState::default();
/// assert_eq!(state.to_string().parse::<LockState>()?, state);
/// # Ok::<(), bandog::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockState {
    hold: Option<Hold>,
    /// The last fence that was reserved.
    fence: u64,
}

/// A hold of a claim, or an offer: a reservation for starving clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The claim that holds the lock. For an offer, [`ClaimId::OFFERED`].
    pub id: ClaimId,
    /// The time at which the hold expires.
    pub until: Moment,
    /// Whether a client starves for the lock: the client has waited for a second or more. In this case, the release of
    /// the hold makes an offer, which reserves the lock for starving clients (see [`Claim::offers`]).
    pub has_starving_waiter: bool,
}

impl LockState {
    /// The kinds of locks that this type supports. A backend that uses this type returns this set in
    /// [`crate::Profile::kinds`].
    pub const KINDS: Kinds = Kinds::MUTEX;

    /// The state with this hold and this last fence, for a backend that stores the hold and the fence in columns.
    pub fn new(hold: Option<Hold>, fence: Fence) -> Self {
        Self { hold, fence: fence.get() }
    }

    /// The hold, expired or not.
    pub fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }

    /// The last fence.
    pub fn fence(&self) -> Fence {
        Fence::new(self.fence)
    }

    /// Applies a step to this lock.
    pub fn apply(&mut self, step: &Step, now: Moment) -> Answer {
        self.apply_above(step, now, Fence::new(0))
    }

    /// Applies a step to this lock. The fences of a new grant are greater than `above`. For example, `above` can be the
    /// time of the wall clock in microseconds.
    pub fn apply_above(&mut self, step: &Step, now: Moment, above: Fence) -> Answer {
        match step.kind() {
            Kind::Mutex => self.apply_to_mutex(step, now, above),
        }
    }

    fn apply_to_mutex(&mut self, step: &Step, now: Moment, above: Fence) -> Answer {
        match step {
            Step::Claim(claim) => Answer::Claimed(self.claim(claim, None, now, above)),
            Step::Pass { from, to } => Answer::Claimed(self.claim(to, Some(from.id), now, above)),
            Step::Release(claim) => Answer::Released(self.release(claim, now)),
        }
    }

    /// Renews the hold of a claim, if the claim holds the lock.
    pub fn renew(&mut self, claim: &Claim, now: Moment) -> Renewal {
        match claim.kind {
            Kind::Mutex => self.renew_mutex(claim, now),
        }
    }

    fn renew_mutex(&mut self, claim: &Claim, now: Moment) -> Renewal {
        match self.live(now) {
            Some(hold) if hold.id == claim.id => {
                hold.until = now + claim.ttl;
                Renewal::Extended { valid_for: claim.ttl }
            }
            Some(_) | None => Renewal::Gone,
        }
    }

    /// Frees the lock from the claim that holds it, whatever claim that is. An offer is not a hold of a client, so this
    /// call does not end an offer.
    pub fn evict(&mut self, now: Moment) -> Released {
        match self.live(now) {
            Some(hold) if hold.id != ClaimId::OFFERED => {
                self.hold = None;
                Released::Freed { others: None }
            }
            Some(_) | None => Released::NotHeld,
        }
    }

    /// Whether this claim holds the lock.
    pub fn is_held_by(&self, id: ClaimId, now: Moment) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.id == id && now < hold.until)
    }

    /// The row of this lock for operators. None if no claim of a client holds the lock.
    pub fn row(&self, key: &Key, now: Moment) -> Option<Row> {
        let hold = self.hold.as_ref().filter(|hold| now < hold.until && hold.id != ClaimId::OFFERED)?;
        let ttl = Some(hold.until.since(now));
        let holder = Holder { ttl, ..Holder::new(hold.id.to_string()).fenced(Fence::new(self.fence)) };
        Some(Row::held(key, Some(Kind::Mutex), holder))
    }

    /// Grants the lock if it is free, if `claim` already holds the lock, or if `claim` can replace the present holder.
    /// A claim can replace the holder `from`. A claim with [`Claim::offers`] can replace an offer.
    fn claim(&mut self, claim: &Claim, from: Option<ClaimId>, now: Moment, above: Fence) -> Verdict {
        let replaceable = from.or(claim.offers.then_some(ClaimId::OFFERED));
        let has_starving_waiter = self.live(now).is_some_and(|hold| hold.has_starving_waiter);
        match self.live(now) {
            Some(hold) if hold.id == claim.id => {}
            Some(hold) if Some(hold.id) != replaceable => {
                hold.has_starving_waiter |= claim.offers;
                return Verdict::Busy { retry_after: hold.until.since(now) };
            }
            Some(_) | None => self.fence = self.fence.max(above.get()) + u64::from(claim.fences.get()),
        }
        self.hold = Some(Hold { id: claim.id, until: now + claim.ttl, has_starving_waiter });
        Verdict::Granted { fences: Fences::ending(Fence::new(self.fence), claim.fences), valid_for: claim.ttl }
    }

    /// Frees the lock if `claim` holds it. If a client starves for the lock, an offer takes the place of the hold.
    fn release(&mut self, claim: &Claim, now: Moment) -> Released {
        let Some(hold) = self.live(now) else { return Released::NotHeld };
        if hold.id != claim.id {
            // The client of `claim` no longer waits. A release with `offers` removes the note that a client starves.
            hold.has_starving_waiter &= !claim.offers;
            return Released::NotHeld;
        }
        let offer = Hold { id: ClaimId::OFFERED, until: now + OFFER, has_starving_waiter: false };
        self.hold = hold.has_starving_waiter.then_some(offer);
        Released::Freed { others: None }
    }

    /// The hold or the offer, if it has not expired.
    fn live(&mut self, now: Moment) -> Option<&mut Hold> {
        self.hold.as_mut().filter(|hold| now < hold.until)
    }
}

impl fmt::Display for LockState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hold {
            Some(Hold { id, until, has_starving_waiter }) => {
                write!(
                    f,
                    "{} {id} {}{}",
                    self.fence,
                    until.as_nanos(),
                    if *has_starving_waiter { STARVING } else { "" }
                )
            }
            None => write!(f, "{}", self.fence),
        }
    }
}

impl FromStr for LockState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse_parts = || {
            let mut words = text.split(' ');
            let fence = words.next()?.parse().ok()?;
            let Some(owner) = words.next() else { return Some(Self { hold: None, fence }) };
            let id = owner.parse().ok()?;
            let until = Moment::from_nanos(words.next()?.parse().ok()?);
            let has_starving_waiter = words.next().is_some();
            Some(Self { hold: Some(Hold { id, until, has_starving_waiter }), fence })
        };
        // A fence above the maximum of i64 does not fit into an integer of a database, and the fences of later grants
        // might exceed u64.
        let is_valid = |state: &Self| i64::try_from(state.fence).is_ok() && state.to_string() == text;
        parse_parts()
            .filter(is_valid)
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("{text:?} is not the state of a lock")))
    }
}

#[cfg(test)]
mod tests;
