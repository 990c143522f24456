//! A task: it makes one random call after the other.

use std::time::Duration;

use crate::{calls, grid::context::Context, plan::TIMEOUT, settings::Profile};

/// Maximum duration of a call that is sent once.
pub(super) const ONCE: Duration = TIMEOUT;
/// Maximum duration of an exact call.
pub(super) const EXACT: Duration = TIMEOUT.saturating_mul(4);
/// Maximum duration of a call that takes an element, without the time for which it waits.
pub(super) const TAKES: Duration = TIMEOUT.saturating_mul(4);
/// Maximum duration of the end of an element.
pub(super) const SETTLES: Duration = TIMEOUT.saturating_mul(9);
/// Maximum duration of a call that makes several requests.
pub(super) const SEVERAL: Duration = Duration::from_secs(60);

pub(super) type Task = calls::Task<Context>;

impl Task {
    pub(super) async fn run(mut self) {
        while !self.must_stop() {
            self.weather().await;
            match self.random.u8(..100) {
                // Fewer elements are pushed than taken out, so none stays for long.
                0..18 => self.push().await,
                18..42 => self.pop().await,
                42..52 => self.take().await,
                52..68 => self.own_value().await,
                68..76 => self.swap().await,
                76..84 => self.add().await,
                84..87 => self.next_id().await,
                87..91 => self.bloom().await,
                91..94 => self.batch().await,
                _ => self.publish().await,
            }
        }
    }

    /// Makes the calls of the weather, seldom.
    async fn weather(&mut self) {
        let context = self.context.clone();
        match self.random.u8(..100) {
            0..10 if context.has(Profile::Ttls) => self.fleeting().await,
            10..14 if context.has(Profile::Strangers) => self.strange().await,
            14..15 if context.has(Profile::Copies) => self.copies().await,
            _ => {}
        }
    }

    /// A short random time, which is often 0 and seldom longer than a lease.
    pub(super) fn short_time(&mut self) -> Duration {
        Duration::from_millis(match self.random.u8(..200) {
            0 => self.random.u64(..1_600),
            1..20 => self.random.u64(..50),
            _ => 0,
        })
    }
}
