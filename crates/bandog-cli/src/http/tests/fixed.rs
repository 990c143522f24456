//! Rows that stay as they are.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use hyper::StatusCode;
use serde_json::{Value, json as value};

use crate::http::source::{Act, Answer, Source, Trouble, json};

/// One job and one lock, and what was asked of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Fixed(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_away: AtomicBool,
    hangs: AtomicBool,
    looks: AtomicUsize,
    acts: Mutex<Vec<(String, Act)>>,
}

/// A name that has to be spelt otherwise in a path.
pub(super) const NAME: &str = "orders/sweep früh?";
pub(super) const SPELT: &str = "orders%2Fsweep%20fr%C3%BCh%3F";

impl Fixed {
    pub(super) fn goes_away(&self) {
        self.0.is_away.store(true, SeqCst);
    }

    /// Nothing that is asked from now on is ever answered.
    pub(super) fn hangs(&self) {
        self.0.hangs.store(true, SeqCst);
    }

    /// How often the jobs were asked for.
    pub(super) fn looks(&self) -> usize {
        self.0.looks.load(SeqCst)
    }

    pub(super) fn acts(&self) -> Vec<(String, Act)> {
        self.0.acts.lock().unwrap().clone()
    }

    async fn tell(&self, rows: Value) -> Answer {
        if self.0.hangs.load(SeqCst) {
            return std::future::pending().await;
        }
        if self.0.is_away.load(SeqCst) {
            return Err(Trouble::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the store does not answer"));
        }
        json(&rows)
    }
}

impl Source for Fixed {
    fn store(&self) -> &'static str {
        "redis://cache.example"
    }

    async fn jobs(&self) -> Answer {
        self.0.looks.fetch_add(1, SeqCst);
        self.tell(value!([{ "name": NAME, "trigger": "0 0/5 * * * ?" }])).await
    }

    async fn job(&self, name: &str) -> Answer {
        if name == NAME {
            return self.tell(value!({ "name": name })).await;
        }
        Err(Trouble::new(StatusCode::NOT_FOUND, "job", format!("there is no job {name:?}")))
    }

    async fn history(&self, name: &str) -> Answer {
        self.tell(value!([{ "id": 7, "job": name, "state": "ok" }])).await
    }

    async fn nodes(&self) -> Answer {
        self.tell(value!({ "running": [{ "node": "web-1:17", "zones": "2026a" }], "pauses": {} })).await
    }

    async fn locks(&self) -> Answer {
        self.tell(value!([{ "name": "deploy", "held": true }])).await
    }

    async fn act(&self, name: &str, act: Act) -> Answer {
        self.0.acts.lock().unwrap().push((name.to_owned(), act));
        self.tell(value!({ "id": 8 })).await
    }
}
