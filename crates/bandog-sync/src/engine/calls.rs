//! Calls of the backend that are on their way, polled by the engine itself.

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

use super::msg::Ticket;

/// How long a client waits for the store's first answer.
pub(super) const FIRST_ANSWER: Duration = Duration::from_secs(5);
const PING_AGAIN: Duration = Duration::from_millis(50);
/// A store that has not answered by then is logged.
const LATE: Duration = Duration::from_millis(900);

/// A call's answer.
pub(super) enum Done {
    Applied {
        asked_at: Moment,
        steps: Vec<Step>,
        answers: Vec<Result<Answer>>,
    },
    Renewed {
        asked_at: Moment,
        claims: Vec<Claim>,
        answers: Vec<Result<Renewal>>,
    },
    Subscribed {
        key: Key,
        subscription: Result<Subscription>,
    },
    RecordSubscribed {
        id: Ticket,
        subscription: Result<Subscription>,
    },
    /// None: it was cancelled.
    Probed(Option<Result<()>>),
    Pinged {
        reply: oneshot::Sender<Result<()>>,
        result: Result<()>,
    },
    Announced(Result<()>),
    Looked,
}

/// Calls in flight. They are first polled in the order in which they were made, which is their order on the wire:
/// `FuturesUnordered` polls new futures first in, first out (the laws' order of steps would fail if it did not).
pub(super) struct Calls {
    backend: Arc<dyn Backend>,
    flying: FuturesUnordered<BoxFuture<'static, Done>>,
    landed: VecDeque<Done>,
    renewing: usize,
    steps: usize,
}

impl Calls {
    pub(super) fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, flying: FuturesUnordered::new(), landed: VecDeque::new(), renewing: 0, steps: 0 }
    }

    /// `asked_at` is read before the call is made: deadlines count from it.
    pub(super) fn apply(&mut self, asked_at: Moment, steps: Vec<Step>) {
        self.steps += steps.len();
        let backend = Arc::clone(&self.backend);
        self.flying.push(Box::pin(async move {
            let mut answers = backend.apply(&steps).await;
            answers.resize_with(steps.len(), || Err(too_few()));
            Done::Applied { asked_at, steps, answers }
        }));
    }

    pub(super) fn renew(&mut self, asked_at: Moment, claims: Vec<Claim>) {
        let backend = Arc::clone(&self.backend);
        self.renewing += 1;
        self.flying.push(Box::pin(async move {
            let mut answers = backend.renew(&claims).await;
            answers.resize_with(claims.len(), || Err(too_few()));
            Done::Renewed { asked_at, claims, answers }
        }));
    }

    pub(super) fn subscribe(&self, key: Key, notifier: Notifier) {
        let backend = Arc::clone(&self.backend);
        self.flying.push(Box::pin(async move {
            let subscription = backend.subscribe(&key, notifier).await;
            Done::Subscribed { key, subscription }
        }));
    }

    pub(super) fn subscribe_record(&self, id: Ticket, key: Key, notifier: Notifier) {
        let backend = Arc::clone(&self.backend);
        self.flying.push(Box::pin(async move {
            let subscription = backend.subscribe_record(&key, notifier).await;
            Done::RecordSubscribed { id, subscription }
        }));
    }

    pub(super) fn announce(&self, member: Member, ttl: Duration) {
        let backend = Arc::clone(&self.backend);
        self.flying.push(Box::pin(async move { Done::Announced(backend.announce(&member, ttl).await) }));
    }

    pub(super) fn withdraw(&self, client: ClientId) {
        let backend = Arc::clone(&self.backend);
        self.flying.push(Box::pin(async move {
            // The row ends with its ttl anyway.
            let _ = backend.withdraw(client).await;
            Done::Looked
        }));
    }

    /// Pings until the store answers, for [`FIRST_ANSWER`] at most, and logs once that it has not answered yet.
    pub(super) fn ping(&self, reply: oneshot::Sender<Result<()>>) {
        let backend = Arc::clone(&self.backend);
        self.flying.push(Box::pin(async move {
            let again = async || {
                time::sleep(PING_AGAIN).await;
                backend.ping().await
            };
            let (mut warning, mut limit) = (pin!(time::sleep(LATE)), pin!(time::sleep(FIRST_ANSWER)));
            let (mut fault, mut has_warned) = (None, false);
            let mut ping: BoxFuture<'_, Result<()>> = backend.ping();
            let result = loop {
                tokio::select! {
                    biased;
                    answer = &mut ping => match answer {
                        Err(error) if error.is_retryable() => (fault, ping) = (Some(error), Box::pin(again())),
                        settled => break settled,
                    },
                    () = &mut limit => break Err(fault.unwrap_or_else(no_answer)),
                    () = &mut warning, if !has_warned => {
                        has_warned = true;
                        let (store, error) = (backend.profile().store, fault.clone().unwrap_or_else(no_answer_yet));
                        tracing::warn!(store, %error, "the store has not answered yet; bandog tries for {FIRST_ANSWER:?}");
                    }
                }
            };
            drop(ping);
            Done::Pinged { reply, result }
        }));
    }

    /// Asks once, unless it is cancelled.
    pub(super) fn probe(&self, cancelled: oneshot::Receiver<()>) {
        let backend = Arc::clone(&self.backend);
        self.flying.push(Box::pin(async move {
            match select(backend.ping(), cancelled).await {
                Either::Left((answer, _)) => Done::Probed(Some(answer)),
                Either::Right((_, _)) => Done::Probed(None),
            }
        }));
    }

    pub(super) fn look(&self, looking: BoxFuture<'static, ()>) {
        self.flying.push(Box::pin(async move {
            looking.await;
            Done::Looked
        }));
    }

    /// Polls what is new and takes in what has been answered, without waiting.
    pub(super) async fn poll(&mut self) {
        poll_fn(|context| {
            while let Poll::Ready(Some(done)) = self.flying.poll_next_unpin(context) {
                self.land(done);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Returns when there is an answer to take; never if nothing is in flight.
    pub(super) async fn answered(&mut self) {
        poll_fn(|context| {
            while let Poll::Ready(Some(done)) = self.flying.poll_next_unpin(context) {
                self.land(done);
            }
            if self.landed.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    pub(super) fn take(&mut self) -> Option<Done> {
        self.landed.pop_front()
    }

    pub(super) fn renewing(&self) -> usize {
        self.renewing
    }

    /// Steps on their way.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flying.is_empty() && self.landed.is_empty()
    }

    fn land(&mut self, done: Done) {
        match &done {
            Done::Applied { steps, .. } => self.steps -= steps.len(),
            Done::Renewed { .. } => self.renewing -= 1,
            Done::Subscribed { .. }
            | Done::RecordSubscribed { .. }
            | Done::Pinged { .. }
            | Done::Probed(_)
            | Done::Announced(_)
            | Done::Looked => {}
        }
        self.landed.push_back(done);
    }
}

fn no_answer() -> Error {
    Error::unavailable("the store has not answered within 5 s").during("connect")
}

fn no_answer_yet() -> Error {
    Error::unavailable("there is no answer and no error yet")
}

fn too_few() -> Error {
    Error::new(ErrorKind::Corrupt, "the backend gave fewer answers than it was asked for").ambiguous()
}
