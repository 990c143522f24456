//! Waiting for the results of elements.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bandog_core::{
    Error, ErrorKind, Notifier, Portions, Result, Subscription,
    queues::{Bell, ElementId, ElementRow, Outcome, Phase},
};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use crate::shared::Shared;

/// The interval of polls while the store notifies.
const POLL: Duration = Duration::from_secs(1);
/// The interval of polls if the store does not notify.
const SILENT_POLL: Duration = Duration::from_millis(100);
/// Maximum number of elements of one request.
const MAX_IDS: usize = 1000;

/// How the element has ended. None: it has not ended after this time.
///
/// # Cancel safety
/// Dropping the future changes nothing.
pub(crate) async fn wait(shared: &Arc<Shared>, id: ElementId, at_most: Duration) -> Result<Option<Outcome>> {
    let runtime = Handle::try_current()
        .map_err(|_| Error::misused("work queues need a Tokio runtime; call this in one").at(&shared.key))?;
    let (reply, answer) = oneshot::channel();
    {
        let mut state = shared.results.state();
        state.calls.entry(id).or_default().push(reply);
        state.new.push(id);
        match state.is_asking {
            true => state.changed.notify_one(),
            false => {
                state.is_asking = true;
                drop(runtime.spawn(ask(Asking { shared: shared.clone(), is_done: false })));
            }
        }
    }
    let ended = || Error::unavailable("the runtime that waits for results has ended").at(&shared.key);
    match timeout(at_most, answer).await {
        Ok(answer) => answer.map_err(|_| ended())?,
        // An answer that began after this call.
        Err(_) => {
            let found = shared.queues.find(&shared.key, &[id], 0).await.map_err(|error| error.at(&shared.key))?;
            outcome(shared, id, found.into_iter().next().flatten())
        }
    }
}

/// How an element has ended. None: it has not ended.
///
/// # Errors
/// `Lost`: the store does not know it.
fn outcome(shared: &Shared, id: ElementId, row: Option<ElementRow>) -> Result<Option<Outcome>> {
    row.map(|row| row.outcome).ok_or_else(|| {
        let message = format!("the queue has no element {id}, and keeps no result of it");
        Error::new(ErrorKind::Lost, message).at(&shared.key)
    })
}

/// The task that asks for results.
struct Asking {
    shared: Arc<Shared>,
    /// Whether no call waits. Then another task may ask already.
    is_done: bool,
}

/// If the task ends with its runtime, the calls that wait get an error, and the next one starts a task.
impl Drop for Asking {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut state = self.shared.results.state();
        state.is_asking = false;
        let dropped = std::mem::take(&mut state.calls);
        drop(state);
        drop(dropped);
    }
}

async fn ask(mut asking: Asking) {
    let shared = asking.shared.clone();
    let (changed, rung) = (shared.results.state().changed.clone(), Arc::new(AtomicBool::new(false)));
    let mut subscriptions: Vec<(u64, Subscription)> = Vec::new();
    let (mut failures, mut portions) = (0_u32, Portions::default());
    let (mut asks_all, mut poll_at) = (true, shared.clock().now());
    loop {
        let wanted = shared.results.wanted(asks_all);
        {
            let mut state = shared.results.state();
            if state.calls.is_empty() {
                (state.is_asking, asking.is_done) = (false, true);
                return;
            }
        }
        let (mut has_failed, mut has_more) = (false, false);
        for ids in wanted.chunks(portions.next(MAX_IDS).left().0) {
            match shared.queues.find(&shared.key, ids, 0).await {
                Ok(found) => {
                    portions.answered();
                    for (id, row) in ids.iter().zip(found) {
                        has_more |= row.as_ref().is_some_and(|row| row.phase == Phase::Ended && row.outcome.is_none());
                        match outcome(&shared, *id, row) {
                            Ok(None) => {}
                            ended => shared.results.answer(*id, &ended),
                        }
                    }
                }
                Err(error) if error.is_retryable() => {
                    has_failed = true;
                    if error.maybe_applied() {
                        portions.failed();
                    }
                }
                Err(error) => ids.iter().for_each(|id| shared.results.answer(*id, &Err(error.clone().at(&shared.key)))),
            }
        }
        failures = if has_failed { failures.saturating_add(1) } else { 0 };
        if has_more && !has_failed {
            asks_all = true;
            continue; // The answer had no room for all results.
        }
        if asks_all {
            subscriptions.retain(|(of, _)| wanted.iter().any(|id| id.client == *of));
        }
        for client in wanted.iter().map(|id| id.client) {
            if failures == 0 && !subscriptions.iter().any(|(of, _)| *of == client) {
                let (bell, changed, rung) =
                    (Bell::Results { queue: shared.key.clone(), client }, changed.clone(), rung.clone());
                let ring = move || {
                    rung.store(true, Ordering::Release);
                    changed.notify_one();
                };
                let subscribed = shared.queues.subscribe_bell(&bell, Notifier::new(ring.clone())).await;
                subscriptions.push((client, subscribed.unwrap_or_else(|_| Subscription::silent())));
                ring(); // A result may have come before the subscription.
            }
        }
        let is_silent = subscriptions.iter().any(|(_, subscription)| subscription.is_silent());
        let poll = if is_silent || failures > 0 { SILENT_POLL } else { POLL };
        // New calls do not delay the next poll.
        if asks_all || failures > 0 {
            poll_at = shared.clock().now() + poll;
        }
        let _ = timeout(poll_at.since(shared.clock().now()), changed.notified()).await;
        asks_all = rung.swap(false, Ordering::AcqRel) || shared.clock().now() >= poll_at;
    }
}
