//! A backend that counts its calls.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Key, Leases, Member, Notifier, Profile, Renewal, Result, Step, Subscription,
    Verdict,
};

/// A backend that counts its calls and answers.
#[derive(Debug)]
pub struct Counting<B>(Arc<Counts<B>>);

#[derive(Debug)]
struct Counts<B> {
    backend: B,
    calls: AtomicUsize,
    claims: AtomicUsize,
    passes: AtomicUsize,
    releases: AtomicUsize,
    grants: AtomicUsize,
    refusals: AtomicUsize,
    renewals: AtomicUsize,
    renewed: AtomicUsize,
    subscribes: AtomicUsize,
    registered: AtomicUsize,
    swaps: AtomicUsize,
    reads: AtomicUsize,
    records_read: AtomicUsize,
    subscriptions: Arc<AtomicUsize>,
}

impl<B: Backend> Counting<B> {
    /// Counts the calls of this backend, from zero.
    pub fn new(backend: B) -> Self {
        let zero = AtomicUsize::default;
        Self(Arc::new(Counts {
            backend,
            calls: zero(),
            claims: zero(),
            passes: zero(),
            releases: zero(),
            grants: zero(),
            refusals: zero(),
            renewals: zero(),
            renewed: zero(),
            subscribes: zero(),
            registered: zero(),
            swaps: zero(),
            reads: zero(),
            records_read: zero(),
            subscriptions: Arc::default(),
        }))
    }

    pub(super) fn inner(&self) -> &B {
        &self.0.backend
    }

    /// The number of calls, without those of `Inspect` and of the registry.
    pub fn calls(&self) -> usize {
        self.0.calls.load(Relaxed)
    }

    /// The number of requested claims, without passes. A pass gives the lock of one claim to another claim.
    pub fn claims(&self) -> usize {
        self.0.claims.load(Relaxed)
    }

    /// The number of requested passes.
    pub fn passes(&self) -> usize {
        self.0.passes.load(Relaxed)
    }

    /// The number of requested releases.
    pub fn releases(&self) -> usize {
        self.0.releases.load(Relaxed)
    }

    /// The number of granted claims and passes.
    pub fn grants(&self) -> usize {
        self.0.grants.load(Relaxed)
    }

    /// The number of claims and passes that were refused because of another holder.
    pub fn refusals(&self) -> usize {
        self.0.refusals.load(Relaxed)
    }

    /// The number of requested renewals, including renewals that fail. A call that renews several claims counts once
    /// for each claim.
    pub fn renewals(&self) -> usize {
        self.0.renewals.load(Relaxed)
    }

    /// The number of successful renewals. It is counted like [`Counting::renewals`].
    pub fn renewed(&self) -> usize {
        self.0.renewed.load(Relaxed)
    }

    /// The number of calls that subscribe, including calls that fail. [`Counting::subscriptions`] is the number of
    /// active subscriptions.
    pub fn subscribes(&self) -> usize {
        self.0.subscribes.load(Relaxed)
    }

    /// The number of calls that write a client's row to the registry.
    pub fn registered(&self) -> usize {
        self.0.registered.load(Relaxed)
    }

    /// The number of requested swaps. A call with several swaps counts once for each swap.
    pub fn swaps(&self) -> usize {
        self.0.swaps.load(Relaxed)
    }

    /// The number of calls that read records, holdings or the store's time.
    pub fn reads(&self) -> usize {
        self.0.reads.load(Relaxed)
    }

    /// The number of records that reads have requested.
    pub fn records_read(&self) -> usize {
        self.0.records_read.load(Relaxed)
    }

    /// The number of subscriptions that are active now.
    pub fn subscriptions(&self) -> usize {
        self.0.subscriptions.load(Relaxed)
    }

    pub(super) fn count_swaps(&self, swaps: usize) {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.swaps.fetch_add(swaps, Relaxed);
    }

    pub(super) fn count_read(&self, records: usize) {
        self.0.records_read.fetch_add(records, Relaxed);
        self.0.calls.fetch_add(1, Relaxed);
        self.0.reads.fetch_add(1, Relaxed);
    }

    /// Counts a call that subscribes. The new subscription counts as active until it is dropped.
    pub(super) async fn count_subscription(
        &self,
        subscribe: impl Future<Output = Result<Subscription>>,
    ) -> Result<Subscription> {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.subscribes.fetch_add(1, Relaxed);
        let subscription = subscribe.await?;
        if subscription.is_silent() {
            return Ok(subscription);
        }
        let subscriptions = Arc::clone(&self.0.subscriptions);
        subscriptions.fetch_add(1, Relaxed);
        Ok(Subscription::new(move || {
            drop(subscription);
            subscriptions.fetch_sub(1, Relaxed);
        }))
    }

    fn count_step(&self, step: &Step) {
        match step {
            Step::Claim(_) => &self.0.claims,
            Step::Pass { .. } => &self.0.passes,
            Step::Release(_) => &self.0.releases,
        }
        .fetch_add(1, Relaxed);
    }

    fn count_answer(&self, answer: &Result<Answer>) {
        match answer {
            Ok(Answer::Claimed(Verdict::Granted { .. })) => self.0.grants.fetch_add(1, Relaxed),
            Ok(Answer::Claimed(Verdict::Busy { .. })) => self.0.refusals.fetch_add(1, Relaxed),
            Ok(Answer::Released(_)) | Err(_) => 0,
        };
    }
}

impl<B> Clone for Counting<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[async_trait]
impl<B: Backend> Leases for Counting<B> {
    async fn ping(&self) -> Result<()> {
        self.0.calls.fetch_add(1, Relaxed);
        self.inner().ping().await
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.0.calls.fetch_add(1, Relaxed);
        steps.iter().for_each(|step| self.count_step(step));
        let answers = self.inner().apply(steps).await;
        answers.iter().for_each(|answer| self.count_answer(answer));
        answers
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.renewals.fetch_add(claims.len(), Relaxed);
        let answers = self.inner().renew(claims).await;
        let successful = answers
            .iter()
            .filter(|answer| matches!(answer, Ok(Renewal::Extended { .. } | Renewal::Waiting { .. })))
            .count();
        self.0.renewed.fetch_add(successful, Relaxed);
        answers
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.count_subscription(self.inner().subscribe(claim, notifier)).await
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        self.inner().set_limit(key, permits).await
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.0.registered.fetch_add(1, Relaxed);
        self.inner().register(member, ttl).await
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.inner().deregister(client).await
    }

    fn profile(&self) -> Profile {
        self.inner().profile()
    }
}

super::impl_inspect!(Counting);
