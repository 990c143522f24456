//! The implementation of [`Leases`].

use std::{num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, ClientId, Error, Fence, Holding, Key, Kinds, Leases, LockState, Member, Notifier, Profile, Renewal,
    Result, SqlStatement, Step, Subscription,
};

use crate::{
    channel::Channel,
    context::Context,
    fault::Fault,
    fence,
    job::Query,
    notifications,
    options::Layout,
    registry::{Deregister, Register},
    session::Link,
    sql::Sql,
    states,
    want::Want,
};

/// The time for which a server can lose what it has answered: in a failover to a replica without the last commits, or in a
/// crash without `synchronous_commit`.
const MAY_UNDO: Duration = Duration::from_secs(10);
#[async_trait]
impl Leases for Sql {
    async fn ping(&self) -> Result<()> {
        // The connection for steps is opened, because the first lock needs it.
        self.query_in_order(Ping).await.map_err(|error| error.during("connect"))
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let answers = match self.held() {
            None => self.apply_leases(steps).await,
            Some(held) => self.apply_held(held, steps).await,
        };
        // The connection for renewals is opened before the first renewal is due, and after that for steps: there may be only
        // one.
        self.open_renewals();
        let with_context =
            |(answer, step): (Result<Answer>, &Step)| answer.map_err(|error| error.during(step.verb()).at(step.key()));
        answers.into_iter().zip(steps).map(with_context).collect()
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let answers = match self.held() {
            None => self.renew_leases(claims).await,
            Some(held) => self.renew_held(held, claims).await,
        };
        let with_context =
            |(answer, claim): (Result<Renewal>, &Claim)| answer.map_err(|error| error.during("renew").at(&claim.key));
        answers.into_iter().zip(claims).map(with_context).collect()
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let channel = Channel::of_claim(claim);
        let failed = |error: Error| error.during("subscribe").at(&claim.key);
        let subscription = notifications::subscribe(self.context(), channel, Some(claim), notifier).await;
        let subscription = subscription.map_err(failed)?;
        if channel == Channel::of_lock(&claim.key) {
            self.query(Want(claim.key.clone())).await.map_err(failed)?;
        }
        Ok(subscription)
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        let query = states::SetLimit { key: key.clone(), permits };
        self.query_in_order(query).await.flatten().map_err(|error| error.during("set_limit").at(key))
    }

    async fn fence_sql(&self, holding: &Holding, fence: Fence) -> Result<SqlStatement> {
        fence::check(self.context(), holding, fence).map_err(|error| error.during("fence").at(&holding.key))
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.query(Register(member.clone(), ttl)).await.map_err(|error| error.during("register"))
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.query(Deregister(client)).await.map_err(|error| error.during("deregister"))
    }

    fn profile(&self) -> Profile {
        let Context { options, epoch, statements, .. } = &**self.context();
        let dialect = options.dialect.for_users();
        Profile {
            store: options.store(),
            timeout: options.timeout,
            kinds: match options.layout {
                Layout::Leases => LockState::KINDS,
                Layout::ShedLock(_) | Layout::RowLock(_) | Layout::Advisory => Kinds::MUTEX,
            },
            outlive_clients: match options.layout {
                Layout::Leases => LockState::KINDS,
                Layout::ShedLock(_) => Kinds::MUTEX,
                Layout::RowLock(_) | Layout::Advisory => Kinds::NONE, // A hold needs a session of the database.
            },
            has_records: true,
            fence_survives_failover: true,
            may_undo: MAY_UNDO,
            checks_locks_in: statements.can_keep_fences().then_some(dialect),
            completes_runs_in: Some(dialect),
            expiry: "the clock of the database server",
            max_steps: Profile::MAX_STEPS,
            epoch: epoch.subscribe(),
        }
    }
}

/// Checks that the server answers.
struct Ping;

#[async_trait]
impl Query for Ping {
    type Output = ();

    async fn run(&self, link: &Link, _: &Context) -> Result<(), Fault> {
        link.query(&link.statements.time, &[]).await.map(drop)
    }
}
