//! The order of one client's operations on each latch.
//!
//! On a store without scripts, an operation reads the record of the latch and writes it, unless another operation has
//! changed the record in between. So the store applies one of several operations at the same time, and refuses the
//! others. After the first refusal the operations of one client take turns, so that only other clients are rivals.

use std::{
    collections::{BTreeMap, HashMap},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bandog_core::{Clock, Key, Moment};
use futures_util::future::{Either, select};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time,
};

use crate::retry::backoff;

/// Maximum of [`Pace::refusals`]. With longer pauses some operations wait for much longer than others, and with shorter
/// ones many clients of one latch are slower.
const MAX_REFUSALS: u32 = 8;

/// One client's running operations on latches.
#[derive(Debug, Default)]
pub(crate) struct Operations(Mutex<Running>);

#[derive(Debug, Default)]
struct Running {
    /// The operations of which an attempt may still reach the store: `None` for a running operation. For an operation
    /// that has ended without an answer: the time after which the client does not expect this any more.
    numbers: BTreeMap<u64, Option<Moment>>,
    latches: HashMap<Key, Arc<SharedState>>,
}

/// The operations on one latch.
#[derive(Debug)]
struct SharedState {
    state: Mutex<State>,
    turn: Arc<AsyncMutex<Pace>>,
}

#[derive(Debug)]
struct State {
    /// The number of operations.
    operations: usize,
    /// The start of the time without an answer of the store. The pauses of operations do not belong to this time.
    silent_since: Moment,
    /// Whether the operations take turns.
    has_turns: bool,
}

/// The pauses between attempts that were refused although the operation had the turn.
#[derive(Debug, Default)]
struct Pace {
    /// Each refusal adds 1, and each success subtracts 1.
    refusals: u32,
    /// Duration of the last attempt.
    attempt: Duration,
}

/// One running operation. The drop ends it.
#[derive(Debug)]
pub(super) struct Operation {
    operations: Arc<Operations>,
    shared: Arc<SharedState>,
    key: Key,
    number: u64,
    /// The time for which the store remembers the operation.
    remember: Duration,
    clock: Clock,
    start: Moment,
    /// Whether an attempt may still reach the store.
    is_unclear: bool,
}

/// The right to change the latch: of the operations of this client that take turns, one at a time has it.
#[derive(Debug)]
pub(super) struct PaceGuard(OwnedMutexGuard<Pace>);

impl Operations {
    /// Begins an operation. `next_number` returns a higher number at each call. `remember`: the time for which the store
    /// remembers the operation.
    pub(super) fn begin(
        self: &Arc<Self>,
        key: &Key,
        next_number: impl FnOnce() -> u64,
        remember: Duration,
        clock: Clock,
    ) -> Operation {
        let start = clock.now();
        let new = || {
            let state = State { operations: 0, silent_since: start, has_turns: false };
            Arc::new(SharedState { state: Mutex::new(state), turn: Arc::default() })
        };
        let mut running = locked(&self.0);
        // No operation that begins later may have a lower number, see `first_number`.
        let number = next_number();
        running.numbers.insert(number, None);
        let shared = Arc::clone(running.latches.entry(key.clone()).or_insert_with(new));
        locked(&shared.state).operations += 1;
        drop(running);
        let (operations, key) = (Arc::clone(self), key.clone());
        Operation { operations, shared, key, number, remember, clock, start, is_unclear: false }
    }
}

impl Operation {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The lowest number of the client's operations of which an attempt may still reach the store.
    pub(super) fn first_number(&self) -> u64 {
        let (mut running, now) = (locked(&self.operations.0), self.clock.now());
        while let Some(first) = running.numbers.first_entry() {
            if first.get().is_none_or(|until| until > now) {
                return *first.key();
            }
            first.remove();
        }
        self.number
    }

    /// The start of the time in which the store has answered none of the client's operations on the latch.
    pub(super) fn silent_since(&self) -> Moment {
        locked(&self.shared.state).silent_since
    }

    /// Whether an attempt may still reach the store after the end of the operation.
    pub(super) fn set_unclear(&mut self, is_unclear: bool) {
        self.is_unclear = is_unclear;
    }

    /// Records an answer of the store to an attempt.
    pub(super) fn record_answer(&self, is_refused: bool) {
        let now = self.clock.now();
        let mut state = locked(&self.shared.state);
        state.silent_since = now;
        state.has_turns |= is_refused;
    }

    /// The number of the client's operations on the latch.
    pub(super) fn rivals(&self) -> u32 {
        u32::try_from(locked(&self.shared.state).operations).unwrap_or(u32::MAX)
    }

    /// Whether this operation must have the turn for its next attempt.
    pub(super) fn needs_turn(&self) -> bool {
        locked(&self.shared.state).has_turns
    }

    /// Waits for the turn. Returns `None` if the store has answered none of the operations for this time. The time starts
    /// after the start of this operation.
    pub(super) async fn turn(&self, max_silence: Duration) -> Option<PaceGuard> {
        let rest = || (self.start.max(self.silent_since()) + max_silence).since(self.clock.now());
        let mut turn = pin!(Arc::clone(&self.shared.turn).lock_owned());
        while !rest().is_zero() {
            if let Either::Left((pace, _)) = select(turn.as_mut(), pin!(time::sleep(rest()))).await {
                return (!rest().is_zero()).then_some(PaceGuard(pace));
            }
        }
        None
    }

    /// Pauses before the next attempt if operations were refused although they had the turn.
    pub(super) async fn pause(&self, turn: &PaceGuard, max_pause: Duration) {
        let Pace { refusals, attempt } = *turn.0;
        if refusals > 0 {
            let begin = self.clock.now();
            time::sleep(backoff(refusals, attempt).min(max_pause)).await;
            let (mut state, now) = (locked(&self.shared.state), self.clock.now());
            state.silent_since = now.min(state.silent_since + now.since(begin));
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let mut running = locked(&self.operations.0);
        if self.is_unclear {
            running.numbers.insert(self.number, Some(self.clock.now() + self.remember));
        } else {
            running.numbers.remove(&self.number);
        }
        let mut state = locked(&self.shared.state);
        state.operations -= 1;
        if state.operations == 0 {
            running.latches.remove(&self.key);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PaceGuard {
    /// Records an answer of the store to an attempt of this duration.
    pub(super) fn record_answer(&mut self, is_refused: bool, attempt: Duration) {
        self.0.attempt = attempt;
        let refusals = self.0.refusals;
        self.0.refusals = if is_refused { MAX_REFUSALS.min(refusals + 1) } else { refusals.saturating_sub(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(operations: &Arc<Operations>, number: u64) -> Operation {
        operations.begin(&Key::new("start").unwrap(), || number, Duration::from_secs(30), Clock::tokio())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_number_is_that_of_an_operation_which_can_reach_the_store() {
        let operations = Arc::new(Operations::default());
        let (one, mut two, three) = (begin(&operations, 1), begin(&operations, 2), begin(&operations, 3));
        assert_eq!([&one, &two, &three].map(Operation::first_number), [1, 1, 1]);
        drop(one);
        assert_eq!(three.first_number(), 2);
        // An attempt of the second operation can reach the store late, and one of the fourth can do so even later.
        two.set_unclear(true);
        drop(two);
        let mut four = begin(&operations, 4);
        assert_eq!(four.first_number(), 2);
        time::sleep(Duration::from_secs(20)).await;
        four.set_unclear(true);
        drop(four);
        let five = begin(&operations, 5);
        assert_eq!(five.first_number(), 2);
        time::sleep(Duration::from_secs(10)).await;
        assert_eq!(five.first_number(), 3);
        drop(three);
        assert_eq!(five.first_number(), 4);
        time::sleep(Duration::from_secs(20)).await;
        assert_eq!(five.first_number(), 5);
        drop(five);
        let running = locked(&operations.0);
        assert!(running.latches.is_empty() && running.numbers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_the_turn_ends_when_the_store_answers_no_operation() {
        let operations = Arc::new(Operations::default());
        let [one, two, three] = [1, 2, 3].map(|number| begin(&operations, number));
        assert!(!one.needs_turn());
        one.record_answer(true);
        assert!(two.needs_turn());
        let silence = Duration::from_secs(9);
        let turn = one.turn(silence).await.unwrap();
        let waiting = async { (two.turn(silence).await.is_none(), two.clock.now()) };
        let answering = async {
            time::sleep(Duration::from_secs(5)).await;
            one.record_answer(true);
            one.clock.now()
        };
        let ((is_over, over), answered) = tokio::join!(waiting, answering);
        assert!(is_over && over.since(answered) >= silence && over.since(answered) < silence * 2);
        drop(turn);
        assert!(three.turn(silence).await.is_none());
        assert!(begin(&operations, 4).turn(silence).await.is_some());
    }
}
