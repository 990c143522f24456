//! Runs the laws of the conformance suite over the memory backend, under a paused clock.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, conformance, wrap::Forgetful};
use bandog_core::{Clock, Inspect, Key, Memory, Pattern};
use bandog_sync::{Client, ClientOptions};

conformance!(paused InMemory);

struct InMemory {
    store: Forgetful<Memory>,
}

const ONE_PROCESS: Unkept = Unkept::Cannot("the memory backend exists only in its own process");
const NO_WIRE: Unkept = Unkept::Cannot("the memory backend has no connection");

#[async_trait]
impl World for InMemory {
    const NAME: &'static str = "memory";
    type Backend = Forgetful<Memory>;

    async fn start() -> Self {
        Self { store: Forgetful::new(Memory::new(Clock::tokio())) }
    }

    fn backend(&self) -> Self::Backend {
        self.store.clone()
    }

    fn options(&self) -> ClientOptions {
        Client::options().clock(Clock::tokio()).on_current_runtime()
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn slack(&self) -> Duration {
        Duration::from_millis(50)
    }

    fn prompt(&self) -> Duration {
        Duration::from_millis(5)
    }

    async fn left(&self) -> Vec<String> {
        let rows = self.store.list(&Pattern::all()).await.unwrap();
        rows.into_iter().map(|row| row.name).collect()
    }

    async fn forget(&self, key: &str) -> Can {
        Ok(self.store.forget(&Key::new(key)?).await?)
    }

    async fn plant(&self) -> Can<Vec<String>> {
        Err(Unkept::Cannot("only clients of the memory backend can write to it"))
    }

    async fn raw(&self, _: &str) -> Can<String> {
        Err(Unkept::Cannot("the memory backend has no raw records"))
    }

    async fn plant_records(&self) -> Can<Vec<String>> {
        Err(Unkept::Cannot("only clients of the memory backend can write to it"))
    }

    async fn restart(&self) -> Can {
        Err(ONE_PROCESS)
    }

    async fn restart_empty(&self) -> Can {
        Err(ONE_PROCESS)
    }

    async fn cut(&self) -> Can {
        Err(NO_WIRE)
    }

    async fn lose_answers(&self, _: bool) -> Can {
        Err(NO_WIRE)
    }

    async fn stand_still(&self, _: bool) -> Can {
        Err(NO_WIRE)
    }

    async fn connections(&self) -> Can<usize> {
        Err(Unkept::Cannot("the memory backend has no connections"))
    }

    async fn jump(&self) -> Can {
        Err(Unkept::Cannot(
            "a test cannot move the machine's clock; another test of bandog-sync checks that no client reads it",
        ))
    }

    fn address(&self) -> Can<String> {
        Err(ONE_PROCESS)
    }

    fn backend_at(_: &str) -> Can<Self::Backend> {
        Err(ONE_PROCESS)
    }

    async fn layout(&self, _: &str, _: &str, _: u64, _: Duration) -> Can {
        Err(Unkept::Cannot("no other program reads the data of the memory backend"))
    }
}
