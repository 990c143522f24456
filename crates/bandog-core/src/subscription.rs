//! How a backend reports that a key may be free, or that a record may have changed.

use std::{fmt, sync::Arc};

/// The subscriber's end. A backend calls it when a key may have become free, or when a record may have changed.
///
/// A notification is cheap and may come at any time, from any thread. An unnecessary one does no harm.
#[derive(Clone)]
pub struct Notifier(Arc<dyn Fn() + Send + Sync>);

impl Notifier {
    /// Notifies by calling `notify`, which must neither block nor call back into the backend.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(notify))
    }

    /// Reports that there may be a change.
    pub fn notify(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notifier")
    }
}

/// The backend's end. The backend calls the notifier until this is dropped.
pub struct Subscription {
    stop: Option<Box<dyn FnOnce() + Send>>,
}

impl Subscription {
    /// An active subscription. `stop` is called once, when the subscription is dropped, and must not block.
    pub fn new(stop: impl FnOnce() + Send + 'static) -> Self {
        Self { stop: Some(Box::new(stop)) }
    }

    /// A subscription that never notifies: the subscriber must poll.
    pub fn silent() -> Self {
        Self { stop: None }
    }

    /// Whether it never notifies.
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
