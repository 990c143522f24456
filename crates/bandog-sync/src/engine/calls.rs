//! The requests to the backend that are in flight (sent, and not answered yet). The engine polls their futures.

use std::{collections::VecDeque, future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use bandog_core::{
    Answer, Backend, Claim, ClientId, Error, ErrorKind, Key, Member, Moment, Notifier, Renewal, Result, Step,
    Subscription,
};
use futures_util::{
    future::{BoxFuture, Either, select},
    stream::{FuturesUnordered, StreamExt},
};
use tokio::{sync::oneshot, time};

use super::{
    deadlocks::waits::{self, Waits},
    slot::FIRST_ANSWER,
};
use crate::{lane::SlotId, terms::Ticket};

/// Delay before a failed ping is repeated.
const PING_INTERVAL: Duration = Duration::from_millis(50);
/// Time without an answer after which a warning is logged.
const WARN_AFTER: Duration = Duration::from_millis(900);

/// A request that has ended, with its answer.
pub(super) enum Completion {
    /// A batch of steps has ended. `asked_at` is the moment before the request was sent.
    Applied {
        asked_at: Moment,
        steps: Vec<Step>,
        answers: Vec<Result<Answer>>,
    },
    /// A renewal request has ended.
    Renewed {
        asked_at: Moment,
        claims: Vec<Claim>,
        answers: Vec<Result<Renewal>>,
    },
    /// The backend has answered a subscription to releases of a key.
    Subscribed {
        slot: SlotId,
        subscription: Result<Subscription>,
    },
    /// The backend has answered a subscription to a record or a latch.
    RecordSubscribed {
        id: Ticket,
        subscription: Result<Subscription>,
    },
    /// The ping for a health check has ended. `None` means that the ping was cancelled.
    Probed(Option<Result<()>>),
    /// The ping for a caller of `Client::ready` has ended.
    Pinged {
        reply: oneshot::Sender<Result<()>>,
        result: Result<()>,
    },
    Registered(Result<()>),
    /// A search for deadlocks has ended.
    Searched(Result<Waits>),
    /// A request has ended, and the engine does not need its answer.
    QueryEnded,
}

/// Requests in flight, and requests that have ended but are not processed yet.
///
/// Requests reach the store in the order in which they were made, because `FuturesUnordered` polls new futures for the
/// first time in the order in which they were added. The conformance laws (the tests that every backend must pass)
/// check this order for steps.
pub(super) struct Calls {
    backend: Arc<dyn Backend>,
    in_flight: FuturesUnordered<BoxFuture<'static, Completion>>,
    completions: VecDeque<Completion>,
    /// Number of renewal requests in flight.
    renewing: usize,
    /// Number of steps (claims, passes and releases) in flight.
    steps: usize,
}

impl Calls {
    pub(super) fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, in_flight: FuturesUnordered::new(), completions: VecDeque::new(), renewing: 0, steps: 0 }
    }

    /// Sends steps. `asked_at` is the moment before the request is sent. Deadlines count from this moment.
    pub(super) fn apply(&mut self, asked_at: Moment, steps: Vec<Step>) {
        self.steps += steps.len();
        let backend = Arc::clone(&self.backend);
        self.in_flight.push(Box::pin(async move {
            let mut answers = backend.apply(&steps).await;
            answers.resize_with(steps.len(), || Err(too_few()));
            Completion::Applied { asked_at, steps, answers }
        }));
    }

    pub(super) fn renew(&mut self, asked_at: Moment, claims: Vec<Claim>) {
        let backend = Arc::clone(&self.backend);
        self.renewing += 1;
        self.in_flight.push(Box::pin(async move {
            let mut answers = backend.renew(&claims).await;
            answers.resize_with(claims.len(), || Err(too_few()));
            Completion::Renewed { asked_at, claims, answers }
        }));
    }

    pub(super) fn subscribe(&self, claim: Claim, notifier: Notifier) {
        let backend = Arc::clone(&self.backend);
        self.in_flight.push(Box::pin(async move {
            let subscription = backend.subscribe(&claim, notifier).await;
            Completion::Subscribed { slot: SlotId::of_claim(&claim), subscription }
        }));
    }

    pub(super) fn subscribe_record(&self, id: Ticket, key: Key, notifier: Notifier) {
        let backend = Arc::clone(&self.backend);
        self.in_flight.push(Box::pin(async move {
            let subscription = backend.subscribe_record(&key, notifier).await;
            Completion::RecordSubscribed { id, subscription }
        }));
    }

    pub(super) fn subscribe_latch(&self, id: Ticket, key: Key, notifier: Notifier) {
        let backend = Arc::clone(&self.backend);
        self.in_flight.push(Box::pin(async move {
            let subscription = backend.subscribe_latch(&key, notifier).await;
            Completion::RecordSubscribed { id, subscription }
        }));
    }

    pub(super) fn register(&self, member: Member, ttl: Duration) {
        let backend = Arc::clone(&self.backend);
        self.in_flight.push(Box::pin(async move { Completion::Registered(backend.register(&member, ttl).await) }));
    }

    pub(super) fn deregister(&self, client: ClientId) {
        let backend = Arc::clone(&self.backend);
        self.in_flight.push(Box::pin(async move {
            // If the request fails, the registration expires after its ttl.
            let _ = backend.deregister(client).await;
            Completion::QueryEnded
        }));
    }

    /// Pings until the store answers, for at most [`FIRST_ANSWER`]. Logs one warning if there is no answer after
    /// [`WARN_AFTER`].
    pub(super) fn ping(&self, reply: oneshot::Sender<Result<()>>) {
        let backend = Arc::clone(&self.backend);
        self.in_flight.push(Box::pin(async move {
            let repeat = async || {
                time::sleep(PING_INTERVAL).await;
                backend.ping().await
            };
            let (mut warning, mut limit) = (pin!(time::sleep(WARN_AFTER)), pin!(time::sleep(FIRST_ANSWER)));
            let (mut fault, mut has_warned) = (None, false);
            let mut ping: BoxFuture<'_, Result<()>> = backend.ping();
            let result = loop {
                tokio::select! {
                    biased;
                    answer = &mut ping => match answer {
                        Err(error) if error.is_retryable() => (fault, ping) = (Some(error), Box::pin(repeat())),
                        settled => break settled,
                    },
                    () = &mut limit => break Err(fault.unwrap_or_else(no_answer)),
                    () = &mut warning, if !has_warned => {
                        has_warned = true;
                        let (store, error) = (backend.profile().store, fault.clone().unwrap_or_else(no_answer_yet));
                        tracing::warn!(store, %error, "the store has not answered yet; bandog tries for \
                                        {FIRST_ANSWER:?}");
                    }
                }
            };
            drop(ping);
            Completion::Pinged { reply, result }
        }));
    }

    /// Pings once, for a health check. The ping is cancelled when the sender of `cancelled` is dropped.
    pub(super) fn probe(&self, cancelled: oneshot::Receiver<()>) {
        let backend = Arc::clone(&self.backend);
        self.in_flight.push(Box::pin(async move {
            match select(backend.ping(), cancelled).await {
                Either::Left((answer, _)) => Completion::Probed(Some(answer)),
                Either::Right((_, _)) => Completion::Probed(None),
            }
        }));
    }

    /// Reads which calls wait for which, beginning with the blocked calls in our own row.
    pub(super) fn search_deadlocks(&self, own: Member) {
        let backend = Arc::clone(&self.backend);
        self.in_flight.push(Box::pin(async move { Completion::Searched(waits::read(&*backend, own).await) }));
    }

    pub(super) fn query(&self, query: BoxFuture<'static, ()>) {
        self.in_flight.push(Box::pin(async move {
            query.await;
            Completion::QueryEnded
        }));
    }

    /// Polls the requests and collects those that have ended, without waiting.
    pub(super) async fn poll(&mut self) {
        poll_fn(|context| {
            while let Poll::Ready(Some(completion)) = self.in_flight.poll_next_unpin(context) {
                self.record(completion);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Returns when a request has ended. Never returns if no request is in flight.
    pub(super) async fn completed(&mut self) {
        poll_fn(|context| {
            while let Poll::Ready(Some(completion)) = self.in_flight.poll_next_unpin(context) {
                self.record(completion);
            }
            if self.completions.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    pub(super) fn take_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Number of renewal requests in flight.
    pub(super) fn renewing(&self) -> usize {
        self.renewing
    }

    /// Number of steps in flight.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && self.completions.is_empty()
    }

    /// Keeps an ended request until the engine processes it.
    fn record(&mut self, completion: Completion) {
        match &completion {
            Completion::Applied { steps, .. } => self.steps -= steps.len(),
            Completion::Renewed { .. } => self.renewing -= 1,
            Completion::Subscribed { .. }
            | Completion::RecordSubscribed { .. }
            | Completion::Pinged { .. }
            | Completion::Probed(_)
            | Completion::Registered(_)
            | Completion::Searched(_)
            | Completion::QueryEnded => {}
        }
        self.completions.push_back(completion);
    }
}

/// Applies a step that is none of a call of this client.
pub(crate) fn apply_one(backend: Arc<dyn Backend>, step: Step) -> BoxFuture<'static, Result<Answer>> {
    Box::pin(async move { backend.apply(&[step]).await.pop().unwrap_or_else(|| Err(too_few())) })
}

/// Renews a claim that is none of this client.
pub(crate) fn renew_one(backend: Arc<dyn Backend>, claim: Claim) -> BoxFuture<'static, Result<Renewal>> {
    Box::pin(async move { backend.renew(&[claim]).await.pop().unwrap_or_else(|| Err(too_few())) })
}

fn no_answer() -> Error {
    Error::unavailable("the store has not answered within 5 s").during("connect")
}

fn no_answer_yet() -> Error {
    Error::unavailable("there is no answer and no error yet")
}

fn too_few() -> Error {
    Error::new(ErrorKind::Corrupt, "the backend returned fewer answers than requests").ambiguous()
}
