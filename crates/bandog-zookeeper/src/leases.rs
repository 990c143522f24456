//! The trait [`Leases`]: claims, renewals, releases and subscriptions.

use std::{num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, ClientId, Error, Key, Kinds, Leases, Member, Notifier, Profile, Renewal, Result, Step, Subscription,
};
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::{
    host::{Shared, ZooKeeper},
    key_locks::KeyTurn,
    table::Line,
};

#[async_trait]
impl Leases for ZooKeeper {
    async fn ping(&self) -> Result<()> {
        let deadline = self.0.deadline();
        let session = self.0.session(deadline).await?;
        self.0.answered(deadline, async { session.prove().await.map(drop).map_err(|error| self.0.fault(error)) }).await
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        join_all(steps.iter().map(|step| async move {
            self.0.apply_one(step).await.map_err(|error| error.during(step.verb()).at(step.key()))
        }))
        .await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let deadline = self.0.deadline();
        let renewed = async {
            let session = self.0.session(deadline).await?;
            self.0.answered(deadline, self.0.renew(&session, claims)).await
        };
        let answers = match renewed.await {
            Ok(answers) => answers,
            Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
        };
        let named = answers.into_iter().zip(claims);
        named.map(|(answer, claim)| answer.map_err(|error| error.during("renew").at(&claim.key))).collect()
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let line = Line::of(claim);
        // If this future is dropped, the subscription is dropped too, and the keeper removes its node.
        let subscription = self.0.add_subscriber(line.clone(), notifier);
        let deadline = self.0.deadline();
        let waiting = async {
            let _turn = self.0.turn(&line).await;
            let session = self.0.session(deadline).await?;
            self.0.wait_in_queue(&session, claim, &line).await
        };
        self.0.answered(deadline, waiting).await.map_err(|error| error.during("subscribe").at(&claim.key))?;
        Ok(subscription)
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        let changed = async {
            let deadline = self.0.deadline();
            let session = self.0.session(deadline).await?;
            self.0.answered(deadline, self.0.set_limit(&session, key, permits.get())).await
        };
        changed.await.map_err(|error| error.during("set_limit").at(key))
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        let registered = self.0.request(async |session| self.0.register(session, member, ttl).await);
        registered.await.map_err(|error| error.during("register"))
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        let deregistered = self.0.request(async |session| self.0.deregister(session, client).await);
        deregistered.await.map_err(|error| error.during("deregister"))
    }

    /// The last clone closes the session, and with it deletes all nodes of the client. Others wait until the keeper has
    /// deleted the nodes of calls that no longer wait.
    async fn drain(&self, at_most: Duration) {
        let work = async { if self.is_the_last() { self.0.close().await } else { self.0.tidied().await } };
        // Without an answer, the nodes stay until the session expires.
        let _ = timeout(at_most, work).await;
    }

    fn profile(&self) -> Profile {
        Profile {
            store: self.0.store.clone(),
            timeout: self.0.timeout(),
            outlive_clients: Kinds::NONE, // A hold is a node of the client's session.
            kinds: Kinds::MUTEX.and(Kinds::FAIR).and(Kinds::READ_WRITE).and(Kinds::PERMITS),
            has_records: true,
            fence_survives_failover: true,
            may_undo: Duration::ZERO,
            checks_locks_in: None,
            completes_runs_in: None,
            expiry: "the session with ZooKeeper",
            max_steps: Profile::MAX_STEPS,
            epoch: self.0.epoch.subscribe(),
        }
    }
}

impl Shared {
    /// Applies one step. Steps of one name follow each other, also over several calls, except claims with places of their
    /// own: they are sent at once, because the server applies the requests of a session in their order.
    async fn apply_one(&self, step: &Step) -> Result<Answer> {
        let deadline = self.deadline();
        let applied = async {
            let _turn = match step {
                Step::Claim(claim) => self.turn(&Line::of(claim)).await,
                Step::Release(_) | Step::Pass { .. } => (self.key_locks.turn(step.key()).await, None),
            };
            let session = self.session(deadline).await?;
            self.answered(deadline, self.step(&session, step)).await
        };
        // The wait for the turn of a name can take all the time. Then nothing was sent.
        tokio::time::timeout_at(deadline + self.timeout() / 10, applied)
            .await
            .map_err(|_| Error::unavailable(format!("{}: no answer", self.store)))?
    }

    /// Waits for the turn of a call that changes the nodes of this line. Lines with one claim do not affect each other.
    pub(crate) async fn turn(&self, line: &Line) -> (KeyTurn<'_, Key>, Option<KeyTurn<'_, Line>>) {
        if !line.has_one_claim() {
            return (self.key_locks.turn(&line.key).await, None);
        }
        let shared = self.key_locks.shared_turn(&line.key).await;
        (shared, Some(self.line_locks.turn(line).await))
    }
}
