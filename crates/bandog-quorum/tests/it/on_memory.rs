//! The laws with three stores in memory.

use std::time::Duration;

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, conformance};
use bandog_core::{Clock, Memory};
use bandog_quorum::{Quorum, QuorumOptions};
use bandog_sync::{Client, ClientOptions};

conformance!(paused OnMemory);

struct OnMemory([Memory; 3]);

#[async_trait]
impl World for OnMemory {
    const NAME: &'static str = "a quorum of three stores in memory";
    type Backend = Quorum<Memory>;

    async fn start() -> Self {
        Self([0; 3].map(|_| Memory::new(Clock::tokio())))
    }

    fn backend(&self) -> Quorum<Memory> {
        // The ttl of some laws is longer than any test.
        Quorum::new(self.0.clone(), QuorumOptions::default().max_ttl(Duration::from_secs(366 * 24 * 3600))).unwrap()
    }

    fn options(&self) -> ClientOptions {
        Client::options().clock(Clock::tokio()).on_current_runtime()
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }

    fn records(&self) -> Can {
        Err(Unkept::Cannot("a quorum has no records"))
    }

    async fn jump(&self) -> Can {
        Err(Unkept::Cannot("no part of a quorum reads a wall clock"))
    }
}
