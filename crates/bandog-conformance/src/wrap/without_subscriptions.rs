//! A backend whose user is not allowed to subscribe.

use bandog_core::{Backend, Error, ErrorKind, Result};

use super::{Call, Hooks, Wrapped};

/// A backend that refuses every subscription, like a store whose user does not have the right to subscribe.
pub type WithoutSubscriptions<B> = Wrapped<NoSubscriptions, B>;

/// The hooks of a [`WithoutSubscriptions`] backend.
#[derive(Debug)]
pub struct NoSubscriptions;

impl<B: Backend> WithoutSubscriptions<B> {
    /// Wraps this backend, and refuses its subscriptions.
    pub fn new(backend: B) -> Self {
        Self::wrap(backend, NoSubscriptions)
    }
}

impl Hooks for NoSubscriptions {
    async fn around<T: Send>(&self, call: Call, answer: impl Future<Output = T> + Send) -> Result<T> {
        if matches!(call, Call::LockSubscription | Call::RecordSubscription) {
            return Err(Error::new(ErrorKind::Denied, "this user is not allowed to subscribe"));
        }
        Ok(answer.await)
    }
}
