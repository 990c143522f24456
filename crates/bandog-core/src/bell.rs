//! How a waiter hears that a key may be free, and anybody that a record may have changed.

use std::{fmt, sync::Arc};

/// The listener's end: what a backend calls when a key may have become free, or a record have changed.
///
/// Ringing is cheap, may happen at any time from any thread, and too often does no harm.
#[derive(Clone)]
pub struct Ringer(Arc<dyn Fn() + Send + Sync>);

impl Ringer {
    /// Rings by calling `ring`, which must neither block nor call back into the backend.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(ring))
    }

    /// Says that there may be something to see.
    pub fn ring(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Ringer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ringer")
    }
}

/// The backend's end: it listens until it is dropped.
pub struct Bell {
    stop: Option<Box<dyn FnOnce() + Send>>,
}

impl Bell {
    /// A bell that listens; `stop` is called once, when it is dropped, and must not block.
    pub fn new(stop: impl FnOnce() + Send + 'static) -> Self {
        Self { stop: Some(Box::new(stop)) }
    }

    /// A bell that never rings: the listener must poll.
    pub fn silent() -> Self {
        Self { stop: None }
    }

    /// Whether it never rings.
    pub fn is_silent(&self) -> bool {
        self.stop.is_none()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop();
        }
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").field("silent", &self.is_silent()).finish()
    }
}
