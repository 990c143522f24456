//! A task: it makes one random call after the other.

use std::time::Duration;

use crate::{calls, plan::TIMEOUT, settings::Profile, work::context::Context};

/// Maximum duration of a call that is sent once.
pub(super) const ONCE: Duration = TIMEOUT;
/// Maximum duration of a push: its request and the one before it are repeated for two timeouts.
const PUSHES: Duration = TIMEOUT.saturating_mul(7);
/// Maximum duration of a push of large payloads: on a slow wire each push is a request of its own, and waits for those of the
/// other tasks.
const LARGE_PUSHES: Duration = TIMEOUT.saturating_mul(24);
/// Maximum duration of a call that makes several requests.
pub(super) const SEVERAL: Duration = Duration::from_secs(60);

/// Maximum pause between two calls of a task, in milliseconds.
const PAUSE: u64 = 40;

pub(super) type Task = calls::Task<Context>;

impl Task {
    /// Maximum duration of a push.
    pub(super) fn push_limit(&self) -> Duration {
        if self.context.has(Profile::Sizes) { LARGE_PUSHES } else { PUSHES }
    }

    pub(super) async fn run(mut self) {
        while !self.must_stop() {
            match self.random.u8(..100) {
                0..64 => self.push().await,
                64..70 => self.push_all().await,
                70..74 => self.remove().await,
                74..80 => self.retry().await,
                80..82 => self.pause().await,
                82..88 => self.limit().await,
                _ => self.status().await,
            }
            tokio::time::sleep(Duration::from_millis(self.random.u64(..PAUSE))).await;
        }
    }
}
