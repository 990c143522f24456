//! Calls that wait without notifications, because the store refuses subscriptions or never notifies.

use async_trait::async_trait;
use bandog_conformance::wrap::Counting;
use bandog_core::{
    Answer, Claim, Error, ErrorKind, Inspect, Key, Leases, Memory, Notifier, Pattern, Profile, Renewal, Result, Row,
    Step, Subscription,
};
use tokio::time;

use crate::kit::{client, memory, ms, soon, waiting};

/// A backend without notifications.
#[derive(Debug, Clone)]
pub(crate) struct Unnotified {
    pub(crate) store: Memory,
    pub(crate) cause: Cause,
}

/// Why no notification comes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause {
    /// The store does not allow this client to subscribe.
    Denied,
    /// The backend cannot subscribe.
    Silent,
    /// The subscription succeeds, but the store does not allow the other clients to publish.
    Unpublished,
}

#[async_trait]
impl Leases for Unnotified {
    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.store.apply(steps).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.store.renew(claims).await
    }

    async fn subscribe(&self, claim: &Claim, _: Notifier) -> Result<Subscription> {
        match self.cause {
            Cause::Denied => {
                Err(Error::new(ErrorKind::Denied, "this user may not subscribe").during("subscribe").at(&claim.key))
            }
            Cause::Silent => Ok(Subscription::silent()),
            Cause::Unpublished => Ok(Subscription::new(|| ())),
        }
    }

    fn profile(&self) -> Profile {
        self.store.profile()
    }
}

#[async_trait]
impl Inspect for Unnotified {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.store.list(pattern).await
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.store.show(key).await
    }
}

/// A call that waits without notifications polls at least once a second. The client does not try to subscribe again.
// Promise: L11
#[tokio::test(start_paused = true)]
async fn a_waiter_without_notifications_polls() {
    for cause in [Cause::Denied, Cause::Silent, Cause::Unpublished] {
        let store = memory();
        let counts = Counting::new(Unnotified { store: store.clone(), cause });
        let (ours, theirs) = (client(counts.clone()), client(store));
        let guard = theirs.mutex("orders").lock().await.unwrap();
        let waiter = waiting(&ours, "orders").await;
        time::sleep(ms(60_000)).await;
        assert_eq!(counts.subscribes(), 1, "{cause:?}");
        assert!((58..=122).contains(&counts.claims()), "{} claims in a minute", counts.claims());
        let start = time::Instant::now();
        guard.release().await.unwrap();
        drop(soon(waiter).await.unwrap().unwrap());
        assert!(start.elapsed() <= ms(1001), "{:?}", start.elapsed());
    }
}

impl bandog_core::Records for Unnotified {}

impl bandog_core::Latches for Unnotified {}

impl bandog_core::Backend for Unnotified {}
