//! Notifications: a backend reports that a lock might be free, or that a record might have changed.

use std::{fmt, sync::Arc};

/// The callback of a subscriber. A backend calls the notifier when a lock might have become free, or when a record
/// might have changed.
///
/// A call of the notifier is cheap, and can happen at any time and on any thread. An unnecessary call does no harm.
#[derive(Clone)]
pub struct Notifier(Arc<dyn Fn() + Send + Sync>);

impl Notifier {
    /// Creates a notifier from a function. The function must not block, and must not call the backend.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(notify))
    }

    /// Reports to the subscriber that there might be a change.
    pub fn notify(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notifier")
    }
}

/// The subscriber's handle of a subscription. The backend calls the notifier until the handle is dropped.
pub struct Subscription {
    /// Ends the notifications. None for a silent subscription.
    stop: Option<Box<dyn FnOnce() + Send>>,
}

impl Subscription {
    /// Creates an active subscription. `stop` is called once, when the subscription is dropped. It must not block.
    pub fn new(stop: impl FnOnce() + Send + 'static) -> Self {
        Self { stop: Some(Box::new(stop)) }
    }

    /// Creates a subscription that never notifies, so the subscriber must poll.
    pub fn silent() -> Self {
        Self { stop: None }
    }

    /// Whether the subscription never notifies.
    pub fn is_silent(&self) -> bool {
        self.stop.is_none()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("silent", &self.is_silent()).finish()
    }
}
