//! The text of a [`LockState`].
//!
//! The text of a mutex without a queue is `fence`, or `fence id until`, or `fence id until starving`. Every version of
//! bandog reads this text. The text of any other state is `fence *` and then, separated by spaces, in this order:
//! - `limit now before`, if the name was used as a semaphore;
//! - `starving`, if a client starves;
//! - `hold id kind until last_fence` for each hold;
//! - `place id kind until` for each place.

use std::{fmt, str::FromStr};

use super::{Hold, Limit, LockState, Place};
use crate::{Error, ErrorKind, Fence, Kind, Moment, Result};

/// The last word of the text of a mutex if a client starves for it.
const STARVING: &str = "starving";
/// The second word of a text that is not the text of a mutex without a queue.
const ANY: &str = "*";

impl LockState {
    /// The hold, if the state is a held mutex without a queue.
    fn plain_hold(&self) -> Option<&Hold> {
        match &*self.holds {
            [hold] if matches!(hold.kind, Kind::Mutex) && hold.last_fence.get() == self.fence => Some(hold),
            _ => None,
        }
    }
}

impl fmt::Display for LockState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fence)?;
        if self.places.is_empty() && self.limit.is_none() {
            if let Some(hold) = self.plain_hold() {
                write!(f, " {} {}", hold.id, hold.until.as_nanos())?;
                return if self.starving { write!(f, " {STARVING}") } else { Ok(()) };
            }
            if self.holds.is_empty() && !self.starving {
                return Ok(());
            }
        }
        write!(f, " {ANY}")?;
        if let Some(Limit { now, before }) = self.limit {
            write!(f, " limit {now} {before}")?;
        }
        if self.starving {
            write!(f, " {STARVING}")?;
        }
        for Hold { id, kind, until, last_fence } in &self.holds {
            write!(f, " hold {id} {kind} {} {last_fence}", until.as_nanos())?;
        }
        for Place { id, kind, until } in &self.places {
            write!(f, " place {id} {kind} {}", until.as_nanos())?;
        }
        Ok(())
    }
}

impl FromStr for LockState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // A fence above the maximum of i64 does not fit into an integer of a database, and the fences of later grants
        // might exceed u64.
        let is_valid = |state: &Self| {
            let mut fences = state.holds.iter().map(|hold| hold.last_fence.get()).chain([state.fence]);
            fences.all(|fence| i64::try_from(fence).is_ok()) && state.to_string() == text
        };
        parse(text)
            .filter(is_valid)
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("{text:?} is not the state of a lock")))
    }
}

fn parse(text: &str) -> Option<LockState> {
    let mut words = text.split(' ');
    let mut state = LockState { fence: words.next()?.parse().ok()?, ..LockState::default() };
    let Some(word) = words.next() else { return Some(state) };
    if word != ANY {
        let (id, until, last_fence) = (word.parse().ok()?, moment(words.next()?)?, Fence::new(state.fence));
        state.holds.push(Hold { id, kind: Kind::Mutex, until, last_fence });
        state.starving = words.next().is_some();
        return Some(state);
    }
    while let Some(word) = words.next() {
        let mut word_after = || words.next();
        match word {
            "limit" => {
                let (now, before) = (word_after()?.parse().ok()?, word_after()?.parse().ok()?);
                state.limit = Some(Limit { now, before });
            }
            STARVING => state.starving = true,
            "hold" => {
                let (id, kind) = (word_after()?.parse().ok()?, word_after()?.parse().ok()?);
                let (until, last_fence) = (moment(word_after()?)?, Fence::new(word_after()?.parse().ok()?));
                state.holds.push(Hold { id, kind, until, last_fence });
            }
            "place" => {
                let (id, kind) = (word_after()?.parse().ok()?, word_after()?.parse().ok()?);
                state.places.push(Place { id, kind, until: moment(word_after()?)? });
            }
            _ => return None,
        }
    }
    Some(state)
}

fn moment(nanos: &str) -> Option<Moment> {
    nanos.parse().ok().map(Moment::from_nanos)
}
