//! Stores that nobody may listen to, or that never ring.

use async_trait::async_trait;
use bandog_conformance::wrap::Counting;
use bandog_core::{
    Answer, Claim, Error, ErrorKind, Inspect, Key, Leases, Memory, Notifier, Pattern, Profile, Renewal, Result, Row,
    Step, Subscription,
};
use tokio::time;

use crate::kit::{client, memory, ms, soon, waiting};

/// A backend that wakes nobody.
#[derive(Debug, Clone)]
pub(crate) struct Deaf {
    pub(crate) store: Memory,
    pub(crate) why: Why,
}

/// Why nobody is woken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Why {
    /// This client may not subscribe.
    Denied,
    /// The backend cannot subscribe.
    Silent,
    /// The subscription is there, and those who release may not publish.
    Unpublished,
}

#[async_trait]
impl Leases for Deaf {
    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.store.apply(steps).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.store.renew(claims).await
    }

    async fn subscribe(&self, key: &Key, _: Notifier) -> Result<Subscription> {
        match self.why {
            Why::Denied => Err(Error::new(ErrorKind::Denied, "nobody may listen").during("subscribe").at(key)),
            Why::Silent => Ok(Subscription::silent()),
            Why::Unpublished => Ok(Subscription::new(|| ())),
        }
    }

    fn profile(&self) -> Profile {
        self.store.profile()
    }
}

#[async_trait]
impl Inspect for Deaf {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.store.list(pattern).await
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.store.show(key).await
    }
}

/// Who cannot hear looks again within a second, and does not ask for a bell again and again.
#[tokio::test(start_paused = true)]
async fn who_cannot_hear_looks_again() {
    for why in [Why::Denied, Why::Silent, Why::Unpublished] {
        let store = memory();
        let counts = Counting::new(Deaf { store: store.clone(), why });
        let (ours, theirs) = (client(counts.clone()), client(store));
        let guard = theirs.mutex("orders").lock().await.unwrap();
        let waiter = waiting(&ours, "orders").await;
        time::sleep(ms(60_000)).await;
        assert_eq!(counts.listens(), 1, "{why:?}");
        assert!((58..=122).contains(&counts.claims()), "{} claims in a minute", counts.claims());
        let start = time::Instant::now();
        guard.release().await.unwrap();
        drop(soon(waiter).await.unwrap().unwrap());
        assert!(start.elapsed() <= ms(1001), "{:?}", start.elapsed());
    }
}

impl bandog_core::Records for Deaf {}
