//! A backend that counts what it is asked.

use std::{
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

/// A backend that counts what it is asked and what it answers.
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
    listens: AtomicUsize,
    announced: AtomicUsize,
    swaps: AtomicUsize,
    reads: AtomicUsize,
    records_read: AtomicUsize,
    bells: Arc<AtomicUsize>,
}

impl<B: Backend> Counting<B> {
    /// Counts from zero what this backend is asked.
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
            listens: zero(),
            announced: zero(),
            swaps: zero(),
            reads: zero(),
            records_read: zero(),
            bells: Arc::default(),
        }))
    }

    pub(super) fn inner(&self) -> &B {
        &self.0.backend
    }

    /// Calls of any kind but looks and the registry's.
    pub fn calls(&self) -> usize {
        self.0.calls.load(Relaxed)
    }

    /// Claims asked for, passes not among them.
    pub fn claims(&self) -> usize {
        self.0.claims.load(Relaxed)
    }

    /// Passes asked for.
    pub fn passes(&self) -> usize {
        self.0.passes.load(Relaxed)
    }

    /// Releases asked for.
    pub fn releases(&self) -> usize {
        self.0.releases.load(Relaxed)
    }

    /// Claims and passes that were granted.
    pub fn grants(&self) -> usize {
        self.0.grants.load(Relaxed)
    }

    /// Claims and passes that were told of another holder.
    pub fn refusals(&self) -> usize {
        self.0.refusals.load(Relaxed)
    }

    /// Renewals asked for, one for each claim.
    pub fn renewals(&self) -> usize {
        self.0.renewals.load(Relaxed)
    }

    /// Renewals that succeeded.
    pub fn renewed(&self) -> usize {
        self.0.renewed.load(Relaxed)
    }

    /// How often somebody began to listen.
    pub fn listens(&self) -> usize {
        self.0.listens.load(Relaxed)
    }

    /// How often a client was written down in the registry.
    pub fn announced(&self) -> usize {
        self.0.announced.load(Relaxed)
    }

    /// Swaps asked for, one for each record.
    pub fn swaps(&self) -> usize {
        self.0.swaps.load(Relaxed)
    }

    /// Calls that read records, holdings or the store's time.
    pub fn reads(&self) -> usize {
        self.0.reads.load(Relaxed)
    }

    /// Records that were asked for.
    pub fn records_read(&self) -> usize {
        self.0.records_read.load(Relaxed)
    }

    /// Subscriptions that are heard now.
    pub fn bells(&self) -> usize {
        self.0.bells.load(Relaxed)
    }

    pub(super) fn ask_swaps(&self, swaps: usize) {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.swaps.fetch_add(swaps, Relaxed);
    }

    pub(super) fn ask_reading(&self, records: usize) {
        self.0.records_read.fetch_add(records, Relaxed);
        self.0.calls.fetch_add(1, Relaxed);
        self.0.reads.fetch_add(1, Relaxed);
    }

    /// Counts somebody who begins to listen, and the bell as long as it is heard.
    pub(super) async fn listened(&self, listening: impl Future<Output = Result<Subscription>>) -> Result<Subscription> {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.listens.fetch_add(1, Relaxed);
        let bell = listening.await?;
        if bell.is_silent() {
            return Ok(bell);
        }
        let bells = Arc::clone(&self.0.bells);
        bells.fetch_add(1, Relaxed);
        Ok(Subscription::new(move || {
            drop(bell);
            bells.fetch_sub(1, Relaxed);
        }))
    }

    fn ask(&self, step: &Step) {
        match step {
            Step::Claim(_) => &self.0.claims,
            Step::Pass { .. } => &self.0.passes,
            Step::Release(_) => &self.0.releases,
        }
        .fetch_add(1, Relaxed);
    }

    fn answer(&self, answer: &Result<Answer>) {
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
        steps.iter().for_each(|step| self.ask(step));
        let answers = self.inner().apply(steps).await;
        answers.iter().for_each(|answer| self.answer(answer));
        answers
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.renewals.fetch_add(claims.len(), Relaxed);
        let answers = self.inner().renew(claims).await;
        let good = answers.iter().filter(|answer| matches!(answer, Ok(Renewal::Extended { .. }))).count();
        self.0.renewed.fetch_add(good, Relaxed);
        answers
    }

    async fn subscribe(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.listened(self.inner().subscribe(key, notifier)).await
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.0.announced.fetch_add(1, Relaxed);
        self.inner().announce(member, ttl).await
    }

    async fn withdraw(&self, client: ClientId) -> Result<()> {
        self.inner().withdraw(client).await
    }

    fn profile(&self) -> Profile {
        self.inner().profile()
    }
}

super::looks_through!(Counting);
