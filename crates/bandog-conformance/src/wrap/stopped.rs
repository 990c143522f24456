//! A backend that a test can stop.

use bandog_core::{Backend, Result};
use tokio::sync::watch;

use super::{Call, Hooks, Wrapped};

/// The part of a call that a [`Stopped`] holds while it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Requests. A held request is applied when the backend continues, as after a stop of the server.
    Requests,
    /// Answers. A request is applied immediately, but its answer is held until the backend continues.
    Answers,
    /// Only requests that subscribe. No other call is held.
    Subscriptions,
    /// Only requests that delete the records of open latches. No other call is held.
    Deletions,
}

/// A backend that can be stopped and continued. A held call has no timeout: it waits until the backend continues.
pub type Stopped<B> = Wrapped<Gates, B>;

/// The gates of a [`Stopped`] backend. A gate is the point before a part of a call at which the call can be held.
#[derive(Debug)]
pub struct Gates {
    standstill: watch::Sender<Standstill>,
    /// The number of calls that have been held so far.
    held: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Standstill {
    /// The part of a call that is held. `None` if the backend is not stopped.
    which: Option<Which>,
    /// True if new calls are not held. Then only the calls that were held before stay held.
    passes_new_calls: bool,
}

impl Standstill {
    /// Returns true if this part of a call is held.
    fn holds(&self, which: Which) -> bool {
        self.which == Some(which)
    }
}

impl<B: Backend> Stopped<B> {
    /// Wraps this backend. The new backend is not stopped yet.
    pub fn new(backend: B) -> Self {
        let standstill = watch::Sender::new(Standstill::default());
        Self::wrap(backend, Gates { standstill, held: watch::Sender::new(0) })
    }

    /// From now on, holds this part of every call.
    pub fn stop(&self, which: Which) {
        self.hooks().standstill.send_replace(Standstill { which: Some(which), passes_new_calls: false });
    }

    /// Lets all held calls continue. From now on, no call is held.
    pub fn go_on(&self) {
        self.hooks().standstill.send_replace(Standstill::default());
    }

    /// Holds no new calls. The calls that are held now stay held until [`Stopped::go_on`].
    pub fn keep_back(&self) {
        self.hooks().standstill.send_modify(|standstill| standstill.passes_new_calls = true);
    }

    /// The number of calls that have been held so far. Calls of the registry are not counted.
    pub fn held(&self) -> usize {
        *self.hooks().held.borrow()
    }

    /// Waits until at least this number of calls has been held since the backend was made.
    pub async fn until_held(&self, calls: usize) {
        // `wait_for` fails only if the sender is dropped, and `self` has the sender.
        let _ = self.hooks().held.subscribe().wait_for(|held| *held >= calls).await;
    }
}

impl Hooks for Gates {
    async fn around<T: Send>(&self, call: Call, answer: impl Future<Output = T> + Send) -> Result<T> {
        match call {
            Call::Registration | Call::Deregistration => {
                self.uncounted_gate().await;
                return Ok(answer.await);
            }
            Call::LockSubscription | Call::RecordSubscription => self.gate(Which::Subscriptions).await,
            Call::Deletion => self.gate(Which::Deletions).await,
            Call::Ping
            | Call::Steps
            | Call::Renewals
            | Call::Swaps(_)
            | Call::Reads(_)
            | Call::Objects
            | Call::Other => {}
        }
        self.gate(Which::Requests).await;
        let answer = answer.await;
        self.gate(Which::Answers).await;
        Ok(answer)
    }
}

impl Gates {
    /// If the test holds this part now, waits until the test no longer holds this part. Otherwise returns immediately.
    async fn gate(&self, which: Which) {
        let is_held = {
            let standstill = self.standstill.borrow();
            standstill.holds(which) && !standstill.passes_new_calls
        };
        if is_held {
            self.held.send_modify(|held| *held += 1);
            // `wait_for` fails only if the sender is dropped, and `self` has the sender.
            let _ = self.standstill.subscribe().wait_for(|standstill| !standstill.holds(which)).await;
        }
    }

    /// The gate of a call of the registry. The call is held like any other call, but it is not counted, because no
    /// caller waits for its answer.
    async fn uncounted_gate(&self) {
        let holds_any = |standstill: &Standstill| {
            !standstill.passes_new_calls && (standstill.holds(Which::Requests) || standstill.holds(Which::Answers))
        };
        // `wait_for` fails only if the sender is dropped, and `self` has the sender.
        let _ = self.standstill.subscribe().wait_for(|standstill| !holds_any(standstill)).await;
    }
}
