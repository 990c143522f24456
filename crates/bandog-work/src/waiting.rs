//! The pushes of a queue that wait for the next request, and the calls that wait for results.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bandog_core::{
    Moment, Portion, Portions, Result,
    queues::{ElementId, NewElement, Outcome, Pushed},
};
use tokio::sync::oneshot;

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
    pub(crate) calls: Vec<(ElementId, oneshot::Sender<Result<Option<Outcome>>>)>,
    pub(crate) is_asking: bool,
}

impl Results {
    pub(crate) fn state(&self) -> MutexGuard<'_, ResultsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of the calls whose callers are there.
    pub(crate) fn wanted(&self) -> Vec<ElementId> {
        let mut state = self.state();
        state.calls.retain(|(_, reply)| !reply.is_closed());
        let mut ids: Vec<_> = state.calls.iter().map(|(id, _)| *id).collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// Answers the calls for this element.
    pub(crate) fn answer(&self, id: ElementId, outcome: &Result<Option<Outcome>>) {
        let mut state = self.state();
        let (answered, waiting) = std::mem::take(&mut state.calls).into_iter().partition(|(of, _)| *of == id);
        state.calls = waiting;
        drop(state);
        let answered: Vec<(ElementId, oneshot::Sender<Result<Option<Outcome>>>)> = answered;
        for (_, reply) in answered {
            let _ = reply.send(outcome.clone());
        }
    }
}
