//! A backend behind a slow connection.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bandog_core::{Backend, Result};
use tokio::time;

use super::{Call, Hooks, Wrapped};

/// A backend whose calls are delayed by random durations, before and after the store applies them.
///
/// The store applies the calls in the order in which they were first polled, as the trait `Leases` requires. The
/// answers come in any order. The same seed gives the same delays.
pub type Delayed<B> = Wrapped<Delays, B>;

/// The delays of a [`Delayed`] backend.
#[derive(Debug)]
pub struct Delays {
    before: Duration,
    after: Duration,
    random: Mutex<fastrand::Rng>,
    /// The call that is being sent to the store holds this mutex. The mutex is fair, so calls keep their order.
    sending: tokio::sync::Mutex<()>,
}

impl<B: Backend> Delayed<B> {
    /// Makes this backend slow. Each call is sent after a delay of up to `before`, and later calls wait during this
    /// delay. Each answer is delayed by up to `after`.
    pub fn new(backend: B, seed: u64, before: Duration, after: Duration) -> Self {
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        Self::wrap(backend, Delays { before, after, random, sending: tokio::sync::Mutex::default() })
    }
}

impl Hooks for Delays {
    async fn around<T: Send>(&self, _: Call, answer: impl Future<Output = T> + Send) -> Result<T> {
        let (before, after) = self.random();
        let sending = self.sending.lock().await;
        pause(before).await;
        let answer = answer.await;
        drop(sending);
        pause(after).await;
        Ok(answer)
    }
}

impl Delays {
    fn random(&self) -> (Duration, Duration) {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        (self.before.mul_f64(random.f64()), self.after.mul_f64(random.f64()))
    }
}

async fn pause(delay: Duration) {
    if !delay.is_zero() {
        time::sleep(delay).await;
    }
}
