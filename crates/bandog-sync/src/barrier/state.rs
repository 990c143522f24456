//! The rules of a barrier, without I/O: which parties wait, and when the barrier opens.

use std::{fmt, str::FromStr};

use bandog_core::{ClaimId, Error, ErrorKind, Fence, Result};

/// A call that waits at a barrier. The call holds the mutex `NUMBER` of the barrier while it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Party {
    pub(super) number: u32,
    /// The claim that holds the mutex.
    pub(super) claim: ClaimId,
    /// The fence of the guard. Two guards of one client can have the same claim, but never the same fence.
    pub(super) fence: Fence,
}

/// The contents of a barrier's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrivals {
    /// The number of parties that must wait, so that the barrier opens.
    parties: u32,
    /// A random number, which changes each time the barrier opens.
    generation: u64,
    /// The generation before the last call of [`Arrivals::arrive`].
    pub(super) generation_before: u64,
    /// The parties that wait, in the order of their arrival.
    waiting: Vec<Party>,
    /// The parties for which the barrier has opened, but which may not know it yet, because they still hold
    /// their mutexes.
    passed: Vec<Passed>,
}

/// A party for which the barrier has opened.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Passed {
    party: Party,
    is_leader: bool,
}

/// One call of [`super::Barrier::wait`].
#[derive(Debug)]
pub(super) struct Visit {
    /// The party of the call's present mutex.
    party: Party,
    /// The parties of the mutexes that the call has lost.
    former: Vec<Party>,
    /// The generation in which the store may have added a party of this call to the record. `None` if the call has sent
    /// no such request.
    generation: Option<u64>,
    /// Whether the record may still contain a former party.
    former_may_count: bool,
}

/// The position of a call at the barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// The barrier has opened for this call.
    Passed { is_leader: bool },
    /// The call is in the record, and waits.
    Waiting,
    /// The call is not in the record, and must be added.
    Absent,
    /// The call has lost its mutex, and was not counted. It needs another mutex.
    Unseated,
    /// The call has lost its mutex, and may have been counted.
    Unknown,
}

impl Visit {
    pub(super) fn new(party: Party) -> Self {
        Self { party, former: Vec::new(), generation: None, former_may_count: false }
    }

    /// The call has lost its mutex, and has taken another one.
    pub(super) fn change_seat(&mut self, party: Party) {
        self.former.push(std::mem::replace(&mut self.party, party));
        self.former_may_count = self.generation.is_some();
    }

    /// The call sends a record that contains its party.
    pub(super) fn sends(&mut self, arrivals: &Arrivals) {
        self.generation = Some(arrivals.generation_before);
    }

    /// The store has written that record.
    pub(super) fn is_written(&mut self) {
        self.former_may_count = false;
    }

    /// The position of this call. `is_lost` says whether the call has lost its present mutex.
    ///
    /// A party is removed from the record only if it does not hold its mutex any more. So if a call holds its mutex and
    /// its party is not in the record, the party was never counted.
    pub(super) fn position(&self, arrivals: &Arrivals, is_lost: bool) -> Position {
        let is_ours = |passed: &&Passed| passed.party == self.party || self.former.contains(&passed.party);
        if let Some(passed) = arrivals.passed.iter().find(is_ours) {
            return Position::Passed { is_leader: passed.is_leader };
        }
        let has_opened = self.generation.is_some_and(|generation| generation != arrivals.generation);
        if has_opened && (is_lost || self.former_may_count) {
            return Position::Unknown;
        }
        if is_lost {
            return Position::Unseated;
        }
        if arrivals.waiting.contains(&self.party) { Position::Waiting } else { Position::Absent }
    }
}

impl Arrivals {
    /// The contents of a new record.
    pub(super) fn new(parties: u32) -> Self {
        let generation = fastrand::u64(..);
        Self { parties, generation, generation_before: generation, waiting: Vec::new(), passed: Vec::new() }
    }

    /// All parties in the record.
    pub(super) fn parties(&self) -> impl Iterator<Item = &Party> {
        self.waiting.iter().chain(self.passed.iter().map(|passed| &passed.party))
    }

    /// Number of parties that have not arrived yet.
    pub(super) fn missing(&self) -> u32 {
        self.parties.saturating_sub(u32::try_from(self.waiting.len()).unwrap_or(u32::MAX))
    }

    /// Whether it must be known which parties still hold their mutexes, before a party arrives: because the barrier would
    /// open, or because the waiting parties have named another number than `parties`.
    pub(super) fn may_open(&self, parties: u32) -> bool {
        self.parties != parties || self.waiting.len() + 1 >= usize::try_from(parties).unwrap_or(usize::MAX)
    }

    /// Removes the parties that do not hold their mutexes. `held` has one value for each of [`Arrivals::parties`].
    pub(super) fn retain(&mut self, held: &[bool]) {
        let mut held = held.iter().copied();
        self.waiting.retain(|_| held.next().unwrap_or(true));
        self.passed.retain(|_| held.next().unwrap_or(true));
    }

    /// Adds the party of this call. If the number of waiting parties is reached, the barrier opens. Returns the position
    /// of the call. `parties` is the number of parties that the call names.
    ///
    /// # Errors
    /// `ErrorKind::Misused` if the waiting parties have named another number.
    pub(super) fn arrive(&mut self, visit: &Visit, parties: u32) -> Result<Position> {
        let party = &visit.party;
        // A mutex has one holder. So an earlier party with the same number does not hold it any more.
        self.waiting.retain(|other| other.number != party.number && !visit.former.contains(other));
        self.passed.retain(|other| other.party.number != party.number);
        if !self.waiting.is_empty() && self.parties != parties {
            return Err(Error::misused(format!(
                "the barrier has {} parties in the store, but this call names {parties}; all calls must name the same \
                 number",
                self.parties
            )));
        }
        (self.parties, self.generation_before) = (parties, self.generation);
        self.waiting.push(party.clone());
        if self.waiting.len() < usize::try_from(parties).unwrap_or(usize::MAX) {
            return Ok(Position::Waiting);
        }
        let passed = self.waiting.drain(..).map(|other| Passed { is_leader: other == *party, party: other });
        self.passed.extend(passed);
        self.generation = fastrand::u64(..);
        Ok(Position::Passed { is_leader: true })
    }
}

/// Writes the text of the record. The first line has the number of parties and the generation. Each further line is a
/// party: whether it waits, has passed, or has passed as the leader, then its number, claim and fence.
impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.parties, self.generation)?;
        let passed =
            self.passed.iter().map(|passed| (if passed.is_leader { "leader" } else { "passed" }, &passed.party));
        for (state, Party { number, claim, fence }) in self.waiting.iter().map(|party| ("waiting", party)).chain(passed)
        {
            write!(f, "\n{state} {number} {claim} {fence}")?;
        }
        Ok(())
    }
}

/// Parses the format of `Display`.
impl FromStr for Arrivals {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| Error::new(ErrorKind::Corrupt, "the record of a barrier has an unknown format"))
    }
}

fn parse(text: &str) -> Option<Arrivals> {
    let mut lines = text.lines();
    let (parties, generation) = lines.next()?.split_once(' ')?;
    let generation = generation.parse().ok()?;
    let mut arrivals = Arrivals { generation, generation_before: generation, ..Arrivals::new(parties.parse().ok()?) };
    for line in lines {
        let mut words = line.split(' ');
        let state = words.next()?;
        let party = Party {
            number: words.next()?.parse().ok()?,
            claim: words.next()?.parse().ok()?,
            fence: Fence::new(words.next()?.parse().ok()?),
        };
        match state {
            "waiting" => arrivals.waiting.push(party),
            "passed" => arrivals.passed.push(Passed { party, is_leader: false }),
            "leader" => arrivals.passed.push(Passed { party, is_leader: true }),
            _ => return None,
        }
    }
    Some(arrivals)
}

#[cfg(test)]
mod tests;
