//! The laws of objects, messages and work queues on the memory backend.

use std::sync::Arc;

use async_trait::async_trait;
use bandog_conformance::{messages::MessageWorld, objects::ObjectWorld, queues::QueueWorld};
use bandog_core::{
    Clock, Memory, Pattern,
    messages::Messages,
    queues::Queues,
    structures::{Cursor, Structures},
};

struct World(Memory);

#[async_trait]
impl ObjectWorld for World {
    async fn start() -> Self {
        Self(Memory::new(Clock::tokio()))
    }

    fn structures(&self) -> Arc<dyn Structures> {
        Arc::new(self.0.clone())
    }

    async fn left(&self) -> Vec<String> {
        let (rows, _) = self.0.objects(&Pattern::all(), &Cursor::default(), 1000).await.expect("a page");
        rows.into_iter().map(|row| row.key.to_string()).collect()
    }
}

#[async_trait]
impl MessageWorld for World {
    async fn start() -> Self {
        Self(Memory::new(Clock::tokio()))
    }

    fn messages(&self) -> Arc<dyn Messages> {
        Arc::new(self.0.clone())
    }
}

#[async_trait]
impl QueueWorld for World {
    async fn start() -> Self {
        Self(Memory::new(Clock::tokio()))
    }

    fn queues(&self) -> Arc<dyn Queues> {
        Arc::new(self.0.clone())
    }
}

bandog_conformance::object_conformance!(paused World);
bandog_conformance::message_conformance!(paused World);
bandog_conformance::queue_conformance!(paused World);
