//! Pushes of the same time go to the store together.

use std::{mem::take, sync::Arc, time::Duration};

use bandog_core::{
    Error, ErrorKind, Moment, Result,
    queues::{ElementId, NewElement, Push, Pushed, envelope},
};
use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    ids, meters,
    shared::{MAX_PAYLOAD, Shared},
    waiting::Waiting,
};

/// Maximum number of elements of one call.
pub(crate) const MAX_ELEMENTS: usize = 10_000;
/// Maximum number of bytes of one call.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of bytes that wait.
const MAX_WAITING: usize = 64 << 20;

/// Checks elements whose ids are not given yet.
///
/// # Errors
/// `Misused`: one is too large, or there are too many.
fn check(elements: &[NewElement]) -> Result<usize> {
    let bytes = elements.iter().map(|element| element.payload.len()).sum();
    let payload_len = |element: &NewElement| envelope::open(&element.payload).map_or(0, |(_, payload)| payload.len());
    if let Some(large) = elements.iter().map(payload_len).find(|length| *length > MAX_PAYLOAD) {
        return Err(Error::misused(format!(
            "the element has {large} bytes, and a work queue takes at most {MAX_PAYLOAD}; keep large data elsewhere, and push \
             its name"
        )));
    }
    if elements.len() > MAX_ELEMENTS || bytes > MAX_BYTES {
        return Err(Error::misused(format!(
            "one call pushes {} elements with {bytes} bytes; the most are {MAX_ELEMENTS} elements and {MAX_BYTES} bytes",
            elements.len()
        )));
    }
    Ok(bytes)
}

/// Pushes elements in one step. Their ids are given here; [`NewElement::before`] counts from them: 0 is the first one.
pub(crate) async fn push(shared: &Arc<Shared>, mut elements: Vec<NewElement>) -> Result<Vec<Pushed>> {
    let bytes = check(&elements).map_err(|error| error.at(&shared.key))?;
    if elements.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = Handle::try_current()
        .map_err(|_| Error::misused("work queues need a Tokio runtime; call this in one").at(&shared.key))?;
    let (reply, answer) = oneshot::channel();
    {
        let mut state = shared.sender.state();
        if state.bytes > 0 && state.bytes + bytes > MAX_WAITING {
            let message = format!("{} bytes wait to be pushed; the store does not keep up", state.bytes);
            return Err(Error::new(ErrorKind::Overloaded, message).at(&shared.key));
        }
        give_ids(&mut elements);
        state.bytes += bytes;
        state.waiting.push(Waiting { elements, bytes, since: shared.clock().now(), reply });
        if !state.is_sending {
            state.is_sending = true;
            drop(runtime.spawn(send(Sending { shared: shared.clone(), is_done: false })));
        }
    }
    let ended = || Error::unavailable("the runtime that pushed this has ended").ambiguous().at(&shared.key);
    answer.await.map_err(|_| ended())?
}

/// Checks elements, and gives them their ids.
pub(crate) fn named(shared: &Shared, mut elements: Vec<NewElement>) -> Result<Vec<NewElement>> {
    check(&elements).map_err(|error| error.at(&shared.key))?;
    give_ids(&mut elements);
    Ok(elements)
}

/// Pushes an element that has its id.
pub(crate) async fn push_named(shared: &Shared, element: NewElement) -> Result<()> {
    let push = Push { queue: shared.key.clone(), elements: vec![element] };
    let pushed = repeat(shared, &push, shared.clock().now(), false).await?;
    meters::pushed(shared.name(), &pushed);
    Ok(())
}

/// Gives rising ids. Within a queue, the elements of later calls have greater ones.
fn give_ids(elements: &mut [NewElement]) {
    let ids: Vec<ElementId> = elements.iter().map(|_| ids::next_element()).collect();
    for (element, id) in elements.iter_mut().zip(&ids) {
        element.id = *id;
        let before = element.before.and_then(|before| usize::try_from(before.number).ok());
        element.before = before.and_then(|before| ids.get(before)).copied();
    }
}

/// The task that sends. If it ends with its runtime, the calls that wait are answered, and the next one starts a task.
struct Sending {
    shared: Arc<Shared>,
    /// Whether nothing waits. Then another task may send already.
    is_done: bool,
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut state = self.shared.sender.state();
        state.is_sending = false;
        let dropped = take(&mut state.waiting);
        let bytes = dropped.iter().map(|call| call.bytes).sum();
        state.bytes = state.bytes.saturating_sub(bytes);
        drop(state);
        drop(dropped);
    }
}

/// Bytes that wait, until this is dropped.
struct Counted {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Counted {
    fn new(shared: &Arc<Shared>, bytes: usize) -> Self {
        shared.sender.state().bytes += bytes;
        Self { shared: shared.clone(), bytes }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut state = self.shared.sender.state();
        state.bytes = state.bytes.saturating_sub(self.bytes);
    }
}

async fn send(mut sending: Sending) {
    let shared = sending.shared.clone();
    loop {
        // The tasks that are ready add their elements.
        tokio::task::yield_now().await;
        let mut calls = shared.sender.next();
        if calls.is_empty() {
            sending.is_done = true;
            return;
        }
        let numbers: Vec<usize> = calls.iter().map(|call| call.elements.len()).collect();
        let elements = calls.iter_mut().flat_map(|call| take(&mut call.elements)).collect();
        let mut push = Push { queue: shared.key.clone(), elements };
        let first = shared.clock().now();
        match repeat(&shared, &push, first, true).await {
            // Each is repeated alone, for the rest of the time, so that it delays no other, and is the only one that fails.
            Err(error)
                if (error.is_about_locked_rows() || !error.is_retryable() && calls.len() > 1)
                    && !error.maybe_applied() =>
            {
                for (call, number) in calls.into_iter().zip(numbers) {
                    let rest = push.elements.split_off(number);
                    let elements = std::mem::replace(&mut push.elements, rest);
                    let push = Push { queue: shared.key.clone(), elements };
                    let counted = Counted::new(&shared, call.bytes);
                    drop(tokio::spawn(async move {
                        let shared = &counted.shared;
                        let pushed = repeat(shared, &push, first, false).await;
                        pushed.iter().for_each(|pushed| meters::pushed(shared.name(), pushed));
                        let _ = call.reply.send(pushed);
                    }));
                }
            }
            Ok(pushed) => {
                shared.sender.state().portions.answered();
                meters::pushed(shared.name(), &pushed);
                let mut pushed = pushed.into_iter();
                for (call, number) in calls.into_iter().zip(numbers) {
                    let _ = call.reply.send(Ok(pushed.by_ref().take(number).collect()));
                }
            }
            Err(error) => {
                // The store has not answered while these waited.
                let (now, limit) = (shared.clock().now(), shared.timeout() * 2);
                let is_late = |waiting: &Waiting| error.is_retryable() && now.since(waiting.since) >= limit;
                let late = {
                    let mut state = shared.sender.state();
                    if error.is_retryable() && error.maybe_applied() {
                        // It may have been too large for the time. The store knows a push by its first id, so the same calls
                        // are repeated together, and only the next ones are fewer.
                        state.portions.failed();
                    }
                    state.take_late(is_late)
                };
                let unsent = || Error::unavailable("the store does not answer; this was not sent").at(&shared.key);
                late.into_iter().for_each(|call| _ = call.reply.send(Err(unsent())));
                calls.into_iter().for_each(|call| _ = call.reply.send(Err(error.clone())));
            }
        }
    }
}

/// Pushes until the store has answered, for three timeouts from `first`, and at least once. `is_shared`: it ends at once if a
/// transaction of another program has locked rows.
async fn repeat(shared: &Shared, push: &Push, first: Moment, is_shared: bool) -> Result<Vec<Pushed>> {
    let (clock, mut maybe_applied) = (shared.clock(), false);
    loop {
        let begin = clock.now();
        let missing = || Err(Error::new(ErrorKind::Corrupt, "the backend did not answer the push").ambiguous());
        match shared.queues.push(std::slice::from_ref(push)).await.pop().unwrap_or_else(missing) {
            Err(error) if is_shared && error.is_about_locked_rows() && !maybe_applied => return Err(error),
            Err(error) if error.is_retryable() && begin.since(first) < shared.timeout() * 2 => {
                maybe_applied |= error.maybe_applied();
                tokio::time::sleep(Duration::from_millis(20 + fastrand::u64(0..60))).await;
            }
            Err(error) if maybe_applied => return Err(error.ambiguous().at(&shared.key)),
            answer => return answer.map_err(|error| error.at(&shared.key)),
        }
    }
}
