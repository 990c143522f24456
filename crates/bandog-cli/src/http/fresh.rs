//! Many who look, and one who asks.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::value::RawValue;
use tokio::{sync::Mutex, time::Instant};

use super::source::{Answer, Trouble};

/// How long an answer serves: less than the page's own pause, so that one who looks alone sees what is.
const FRESH: Duration = Duration::from_secs(1);

/// The last answer to one question. Those who ask while it is fetched get the same, so a store has one question a
/// second, however many look.
#[derive(Debug, Default)]
pub(super) struct Fresh(Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    until: Instant,
    told: Told,
}

/// An answer and when it was given.
pub(super) type Told = Result<(SystemTime, Arc<RawValue>), Trouble>;

impl Fresh {
    /// The last answer, if it is fresh; else what `ask` brings.
    pub(super) async fn get(&self, ask: impl Future<Output = Answer>) -> Told {
        let mut kept = self.0.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| Instant::now() < kept.until) {
            return kept.told.clone();
        }
        let told = ask.await.map(|rows| (SystemTime::now(), rows.into()));
        *kept = Some(Kept { until: Instant::now() + FRESH, told: told.clone() });
        told
    }

    /// Something has changed.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}
