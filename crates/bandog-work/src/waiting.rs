//! The pushes of a queue that wait for the next request, and the calls that wait for results.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bandog_core::{
    Moment, Portion, Portions, Result,
    queues::{ElementId, NewElement, Outcome, Pushed},
};
use tokio::sync::{Notify, oneshot};

/// Maximum number of elements of one request that has several calls. Their bytes are at most a portion.
const MAX_GROUP: usize = 1000;

/// The pushes of a queue that wait for the next request. One task sends them; it ends when nothing waits.
#[derive(Debug, Default)]
pub(crate) struct Sender(Mutex<State>);

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) bytes: usize,
    pub(crate) is_sending: bool,
    pub(crate) portions: Portions,
}

/// The elements of one call.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) elements: Vec<NewElement>,
    pub(crate) bytes: usize,
    /// When it began to wait.
    pub(crate) since: Moment,
    pub(crate) reply: oneshot::Sender<Result<Vec<Pushed>>>,
}

impl Waiting {
    fn has_once(&self) -> bool {
        self.elements.iter().any(|element| element.once.is_some())
    }
}

impl Sender {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next calls for one request.
    pub(crate) fn next(&self) -> Vec<Waiting> {
        let mut state = self.state();
        let (most, bytes) = state.portions.next(MAX_GROUP).left();
        let (mut elements, mut portion) = (0, Portion::new(usize::MAX, bytes));
        // Those with ids of `once` may wait for a transaction of another program.
        let once = state.waiting.first().is_some_and(Waiting::has_once);
        let fits = |waiting: &&Waiting| {
            elements += waiting.elements.len();
            elements <= most && waiting.has_once() == once && portion.takes(waiting.bytes)
        };
        let number = state.waiting.iter().take_while(fits).count().max(1).min(state.waiting.len());
        let rest = state.waiting.split_off(number);
        let next = std::mem::replace(&mut state.waiting, rest);
        state.bytes -= next.iter().map(|waiting| waiting.bytes).sum::<usize>();
        state.is_sending = !next.is_empty();
        next
    }
}

impl State {
    /// The calls that wait for too long.
    pub(crate) fn take_late(&mut self, is_late: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let late: Vec<_> = self.waiting.extract_if(.., |waiting| is_late(waiting)).collect();
        self.bytes -= late.iter().map(|waiting| waiting.bytes).sum::<usize>();
        late
    }
}

/// The calls that wait for results. One task asks for them; it ends when no call waits.
#[derive(Debug, Default)]
pub(crate) struct Results(Mutex<ResultsState>);

#[derive(Debug, Default)]
pub(crate) struct ResultsState {
    pub(crate) calls: HashMap<ElementId, Vec<Reply>>,
    /// The elements that the store was not asked for yet.
    pub(crate) new: Vec<ElementId>,
    pub(crate) is_asking: bool,
    /// Notified when a call has come, or when a result may be there.
    pub(crate) changed: Arc<Notify>,
}

/// Where a call waits for a result.
type Reply = oneshot::Sender<Result<Option<Outcome>>>;

impl Results {
    pub(crate) fn state(&self) -> MutexGuard<'_, ResultsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of the calls whose callers are there: those that have come since the last call of this, or all.
    pub(crate) fn wanted(&self, all: bool) -> Vec<ElementId> {
        let mut state = self.state();
        state.calls.retain(|_, replies| {
            replies.retain(|reply| !reply.is_closed());
            !replies.is_empty()
        });
        let mut ids = std::mem::take(&mut state.new);
        if all {
            ids = state.calls.keys().copied().collect();
        }
        ids.retain(|id| state.calls.contains_key(id));
        ids.sort();
        ids.dedup();
        ids
    }

    /// Answers the calls for this element.
    pub(crate) fn answer(&self, id: ElementId, outcome: &Result<Option<Outcome>>) {
        let replies = self.state().calls.remove(&id).unwrap_or_default();
        for reply in replies {
            let _ = reply.send(outcome.clone());
        }
    }
}
