//! The implementation of [`Leases`]: the operations on locks that the client calls.

use std::{num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, ClientId, Key, Leases, LockState, Member, Notifier, Profile, Renewal, Result, Step, Subscription,
};

use crate::{
    Sqlite,
    subscribers::Topic,
    work::{Apply, Deregister, Ping, Register, Renew, SetLimit, Subscribe},
};

#[async_trait]
impl Leases for Sqlite {
    async fn ping(&self) -> Result<()> {
        self.request(Ping(self.purpose())).await.map_err(|error| error.during("connect"))
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let answers = match self.request(Apply(steps.to_vec())).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); steps.len()],
        };
        let with_context =
            |(answer, step): (Result<Answer>, &Step)| answer.map_err(|error| error.during(step.verb()).at(step.key()));
        answers.into_iter().zip(steps).map(with_context).collect()
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let answers = match self.request(Renew(claims.to_vec())).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); claims.len()],
        };
        let with_context =
            |(answer, claim): (Result<Renewal>, &Claim)| answer.map_err(|error| error.during("renew").at(&claim.key));
        answers.into_iter().zip(claims).map(with_context).collect()
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let topic = Topic::of_claim(claim);
        let number = self.context().lock_subscribers.add(&topic, notifier);
        let (handle, subscribed) = (self.clone(), topic.clone());
        let subscription = Subscription::new(move || handle.context().lock_subscribers.remove(&subscribed, number));
        match self.request(Subscribe(vec![topic])).await {
            Ok(true) => Ok(subscription),
            Ok(false) => Ok(Subscription::silent()),
            Err(error) => Err(error.during("subscribe").at(&claim.key)),
        }
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        let changed = self.request(SetLimit(key.clone(), permits)).await.flatten();
        changed.map_err(|error| error.during("set_limit").at(key))
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.request(Register(member.clone(), ttl)).await.flatten().map_err(|error| error.during("register"))
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.request(Deregister(client)).await.map_err(|error| error.during("deregister"))
    }

    fn profile(&self) -> Profile {
        let context = self.context();
        Profile {
            store: format!("sqlite:{}", context.options.path.display()),
            timeout: context.options.timeout,
            kinds: LockState::KINDS,
            outlive_clients: LockState::KINDS,
            has_records: true,
            fence_survives_failover: true,
            may_undo: Duration::ZERO,
            checks_locks_in: None,
            completes_runs_in: None,
            expiry: "the machine's boot clock",
            max_steps: Profile::MAX_STEPS,
            epoch: context.epoch.subscribe(),
        }
    }
}
