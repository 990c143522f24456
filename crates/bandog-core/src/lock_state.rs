//! The rules of one lock, for backends that read its state, decide, and write it back.

use std::{fmt, str::FromStr};

use crate::{
    Answer, Claim, ClaimId, Error, ErrorKind, Fence, Fences, Holder, Key, Kind, Kinds, Moment, OFFER, Released,
    Renewal, Row, Step, Verdict,
};

/// The last word of the text if a client starves for the lock.
const STARVED_FOR: &str = " starving";

/// The state of one lock: its holder, the time at which the hold expires, and the last fence. The store keeps the state
/// of a free lock, because the fence must rise with the next grant.
///
/// This type decides; the backend makes the change atomic and sends the notifications. The text of a state is one line
/// without a tab.
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
    fence: u64,
}

/// The hold of a [`LockState`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The claim that holds the lock, or [`ClaimId::OFFERED`].
    pub id: ClaimId,
    /// The moment at which the hold expires.
    pub until: Moment,
    /// Whether a client starves for the lock: its release offers it to such clients.
    pub starved_for: bool,
}

impl LockState {
    /// The kinds of locks that this type decides about. A backend that decides with it has them in its
    /// [`crate::Profile::kinds`].
    pub const KINDS: Kinds = Kinds::MUTEX;

    /// The state with this hold and this last fence, for a backend that stores them in columns.
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

    /// Applies a step of this lock.
    pub fn apply(&mut self, step: &Step, now: Moment) -> Answer {
        self.apply_above(step, now, Fence::new(0))
    }

    /// Applies a step of this lock. The fences of a new grant are above this one, for example the wall clock.
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

    /// Frees the lock, whichever claim holds it.
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

    /// The row of this lock, if it is held.
    pub fn row(&self, key: &Key, now: Moment) -> Option<Row> {
        let hold = self.hold.as_ref().filter(|hold| now < hold.until && hold.id != ClaimId::OFFERED)?;
        let ttl = Some(hold.until.since(now));
        let holder = Holder { ttl, ..Holder::new(hold.id.to_string()).fenced(Fence::new(self.fence)) };
        Some(Row::held(key, Some(Kind::Mutex), holder))
    }

    fn claim(&mut self, claim: &Claim, from: Option<ClaimId>, now: Moment, above: Fence) -> Verdict {
        let from = from.or(claim.offers.then_some(ClaimId::OFFERED));
        let starved_for = self.live(now).is_some_and(|hold| hold.starved_for);
        match self.live(now) {
            Some(hold) if hold.id == claim.id => {}
            Some(hold) if Some(hold.id) != from => {
                hold.starved_for |= claim.offers;
                return Verdict::Busy { retry_after: hold.until.since(now) };
            }
            Some(_) | None => self.fence = self.fence.max(above.get()) + u64::from(claim.fences.get()),
        }
        self.hold = Some(Hold { id: claim.id, until: now + claim.ttl, starved_for });
        Verdict::Granted { fences: Fences::ending(Fence::new(self.fence), claim.fences), valid_for: claim.ttl }
    }

    fn release(&mut self, claim: &Claim, now: Moment) -> Released {
        let Some(hold) = self.live(now) else { return Released::NotHeld };
        if hold.id != claim.id {
            hold.starved_for &= !claim.offers;
            return Released::NotHeld;
        }
        let offer = Hold { id: ClaimId::OFFERED, until: now + OFFER, starved_for: false };
        self.hold = hold.starved_for.then_some(offer);
        Released::Freed { others: None }
    }

    /// The hold, if it has not expired.
    fn live(&mut self, now: Moment) -> Option<&mut Hold> {
        self.hold.as_mut().filter(|hold| now < hold.until)
    }
}

impl fmt::Display for LockState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hold {
            Some(Hold { id, until, starved_for }) => {
                write!(f, "{} {id} {}{}", self.fence, until.as_nanos(), if *starved_for { STARVED_FOR } else { "" })
            }
            None => write!(f, "{}", self.fence),
        }
    }
}

impl FromStr for LockState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let read = || {
            let mut words = text.split(' ');
            let fence = words.next()?.parse().ok()?;
            let Some(owner) = words.next() else { return Some(Self { hold: None, fence }) };
            let id = owner.parse().ok()?;
            let until = Moment::from_nanos(words.next()?.parse().ok()?);
            let starved_for = words.next().is_some();
            Some(Self { hold: Some(Hold { id, until, starved_for }), fence })
        };
        // A fence above the maximum of i64 fits no database's integer, and later grants would exceed u64.
        let is_ours = |state: &Self| i64::try_from(state.fence).is_ok() && state.to_string() == text;
        read().filter(is_ours).ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("{text:?} is no state of a lock")))
    }
}

#[cfg(test)]
mod tests;
