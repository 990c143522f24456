//! The laws of work queues.

use std::sync::Arc;

use async_trait::async_trait;
use bandog_conformance::{World, queue_conformance, queues::QueueWorld};
use bandog_core::{Backend, queues::Queues};

use crate::OnMariaDb;

queue_conformance!(QueuesOnMariaDb);

struct QueuesOnMariaDb(OnMariaDb);

#[async_trait]
impl QueueWorld for QueuesOnMariaDb {
    async fn start() -> Self {
        Self(OnMariaDb::start().await)
    }

    fn queues(&self) -> Arc<dyn Queues> {
        Backend::queues(&self.0.backend()).unwrap()
    }
}
