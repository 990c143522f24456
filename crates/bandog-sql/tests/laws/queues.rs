//! The laws of work queues.

use std::sync::Arc;

use async_trait::async_trait;
use bandog_conformance::{World, queue_conformance, queues::QueueWorld};
use bandog_core::{Backend, queues::Queues};

use crate::OnPostgres;

queue_conformance!(QueuesOnPostgres);

struct QueuesOnPostgres(OnPostgres);

#[async_trait]
impl QueueWorld for QueuesOnPostgres {
    async fn start() -> Self {
        Self(OnPostgres::start().await)
    }

    fn queues(&self) -> Arc<dyn Queues> {
        Backend::queues(&self.0.backend()).unwrap()
    }
}
