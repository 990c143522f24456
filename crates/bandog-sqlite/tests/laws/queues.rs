//! The laws of work queues with SQLite. Each law has its own database file.

use std::sync::Arc;

use async_trait::async_trait;
use bandog_conformance::queues::QueueWorld;
use bandog_core::queues::Queues;
use tempfile::TempDir;

use crate::at;

struct OnSqlite(TempDir);

#[async_trait]
impl QueueWorld for OnSqlite {
    async fn start() -> Self {
        Self(tempfile::Builder::new().prefix("bandog-queues-").tempdir().unwrap())
    }

    fn queues(&self) -> Arc<dyn Queues> {
        Arc::new(at(self.0.path().join("locks.db")))
    }
}

bandog_conformance::queue_conformance!(OnSqlite);
