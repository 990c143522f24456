//! The rules of one lock, for backends that read its state, decide, and write it back.

use std::{fmt, str::FromStr};

use crate::{
    Answer, Claim, ClaimId, Error, ErrorKind, Fence, Fences, Key, Kind, Moment, OFFER, Released, Renewal, Row, Step,
    Verdict,
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
    holder: Option<Holder>,
    fence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    id: ClaimId,
    until: Moment,
    /// A client starves for the lock: its release offers it to such clients.
    starved_for: bool,
}

impl LockState {
    /// Applies a step of this lock.
    pub fn apply(&mut self, step: &Step, now: Moment) -> Answer {
        match step.kind() {
            Kind::Mutex => self.apply_to_mutex(step, now),
        }
    }

    fn apply_to_mutex(&mut self, step: &Step, now: Moment) -> Answer {
        match step {
            Step::Claim(claim) => Answer::Claimed(self.claim(claim, None, now)),
            Step::Pass { from, to } => Answer::Claimed(self.claim(to, Some(from.id), now)),
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
            Some(holder) if holder.id == claim.id => {
                holder.until = now + claim.ttl;
                Renewal::Extended { valid_for: claim.ttl }
            }
            Some(_) | None => Renewal::Gone,
        }
    }

    /// Frees the lock, whichever claim holds it.
    pub fn evict(&mut self, now: Moment) -> Released {
        match self.live(now) {
            Some(holder) if holder.id != ClaimId::OFFERED => {
                self.holder = None;
                Released::Freed { others: None }
            }
            Some(_) | None => Released::NotHeld,
        }
    }

    /// Whether this claim holds the lock.
    pub fn is_held_by(&self, id: ClaimId, now: Moment) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.id == id && now < holder.until)
    }

    /// The row of this lock, if it is held.
    pub fn row(&self, key: &Key, now: Moment) -> Option<Row> {
        let holder = self.holder.as_ref().filter(|holder| now < holder.until && holder.id != ClaimId::OFFERED)?;
        let ttl = Some(holder.until.since(now));
        Some(Row { ttl, ..Row::held(key, holder.id.to_string()).fenced(Fence::new(self.fence)) })
    }

    fn claim(&mut self, claim: &Claim, from: Option<ClaimId>, now: Moment) -> Verdict {
        let from = from.or(claim.offers.then_some(ClaimId::OFFERED));
        let starved_for = self.live(now).is_some_and(|holder| holder.starved_for);
        match self.live(now) {
            Some(holder) if holder.id == claim.id => {}
            Some(holder) if Some(holder.id) != from => {
                holder.starved_for |= claim.offers;
                return Verdict::Busy { retry_after: holder.until.since(now) };
            }
            Some(_) | None => self.fence += u64::from(claim.fences.get()),
        }
        self.holder = Some(Holder { id: claim.id, until: now + claim.ttl, starved_for });
        Verdict::Granted { fences: Fences::ending(Fence::new(self.fence), claim.fences), valid_for: claim.ttl }
    }

    fn release(&mut self, claim: &Claim, now: Moment) -> Released {
        let Some(holder) = self.live(now) else { return Released::NotHeld };
        if holder.id != claim.id {
            holder.starved_for &= !claim.offers;
            return Released::NotHeld;
        }
        let offer = Holder { id: ClaimId::OFFERED, until: now + OFFER, starved_for: false };
        self.holder = holder.starved_for.then_some(offer);
        Released::Freed { others: None }
    }

    /// The holder, if its lease has not expired.
    fn live(&mut self, now: Moment) -> Option<&mut Holder> {
        self.holder.as_mut().filter(|holder| now < holder.until)
    }
}

impl fmt::Display for LockState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some(Holder { id, until, starved_for }) => {
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
            let Some(owner) = words.next() else { return Some(Self { holder: None, fence }) };
            let id = owner.parse().ok()?;
            let until = Moment::from_nanos(words.next()?.parse().ok()?);
            let starved_for = words.next().is_some();
            Some(Self { holder: Some(Holder { id, until, starved_for }), fence })
        };
        // A fence above the maximum of i64 fits no database's integer, and later grants would exceed u64.
        let is_ours = |state: &Self| i64::try_from(state.fence).is_ok() && state.to_string() == text;
        read().filter(is_ours).ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("{text:?} is no state of a lock")))
    }
}
