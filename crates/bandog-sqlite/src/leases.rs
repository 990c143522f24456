//! The verbs, as the engine asks for them.

use std::time::Duration;

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, ClientId, Key, Leases, Member, Notifier, Profile, Renewal, Result, Step, Subscription,
};

use crate::{
    Sqlite,
    work::{Announce, Apply, Listen, Ping, Renew, Withdraw},
};

#[async_trait]
impl Leases for Sqlite {
    async fn ping(&self) -> Result<()> {
        self.ask(Ping(self.purpose())).await.map_err(|error| error.during("connect"))
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let answers = match self.ask(Apply(steps.to_vec())).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); steps.len()],
        };
        let told =
            |(answer, step): (Result<Answer>, &Step)| answer.map_err(|error| error.during(step.verb()).at(step.key()));
        answers.into_iter().zip(steps).map(told).collect()
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let answers = match self.ask(Renew(claims.to_vec())).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); claims.len()],
        };
        let told =
            |(answer, claim): (Result<Renewal>, &Claim)| answer.map_err(|error| error.during("renew").at(&claim.key));
        answers.into_iter().zip(claims).map(told).collect()
    }

    async fn subscribe(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let number = self.shared().ears.add(key, notifier);
        let (handle, wanted) = (self.clone(), key.clone());
        let bell = Subscription::new(move || handle.shared().ears.remove(&wanted, number));
        match self.ask(Listen(vec![key.clone()])).await {
            Ok(true) => Ok(bell),
            Ok(false) => Ok(Subscription::silent()),
            Err(error) => Err(error.during("subscribe").at(key)),
        }
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.ask(Announce(member.clone(), ttl)).await.flatten().map_err(|error| error.during("announce"))
    }

    async fn withdraw(&self, client: ClientId) -> Result<()> {
        self.ask(Withdraw(client)).await.map_err(|error| error.during("withdraw"))
    }

    fn profile(&self) -> Profile {
        let shared = self.shared();
        Profile {
            store: format!("sqlite:{}", shared.options.path.display()),
            timeout: shared.options.timeout,
            fence_survives_failover: true,
            expiry: "the machine's boot clock",
            epoch: shared.epoch.subscribe(),
        }
    }
}
