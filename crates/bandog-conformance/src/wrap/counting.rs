//! A backend that counts its calls.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use bandog_core::{Answer, Backend, Claim, Renewal, Result, Step, Subscription, Verdict};

use super::{Call, Hooks, Wrapped};

/// A backend that counts its calls and answers.
pub type Counting<B> = Wrapped<Counts, B>;

/// The counts of a [`Counting`] backend.
#[derive(Debug, Default)]
pub struct Counts {
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
        Self::wrap(backend, Counts::default())
    }

    /// The number of calls that ping, apply steps, renew, subscribe, swap, or read. Other calls do not count.
    pub fn calls(&self) -> usize {
        self.hooks().calls.load(Relaxed)
    }

    /// The number of requested claims, without passes. A pass gives the lock of one claim to another claim.
    pub fn claims(&self) -> usize {
        self.hooks().claims.load(Relaxed)
    }

    /// The number of requested passes.
    pub fn passes(&self) -> usize {
        self.hooks().passes.load(Relaxed)
    }

    /// The number of requested releases.
    pub fn releases(&self) -> usize {
        self.hooks().releases.load(Relaxed)
    }

    /// The number of granted claims and passes.
    pub fn grants(&self) -> usize {
        self.hooks().grants.load(Relaxed)
    }

    /// The number of claims and passes that were refused because of another holder.
    pub fn refusals(&self) -> usize {
        self.hooks().refusals.load(Relaxed)
    }

    /// The number of requested renewals, including renewals that fail. A call that renews several claims counts once
    /// for each claim.
    pub fn renewals(&self) -> usize {
        self.hooks().renewals.load(Relaxed)
    }

    /// The number of successful renewals. It is counted like [`Counting::renewals`].
    pub fn renewed(&self) -> usize {
        self.hooks().renewed.load(Relaxed)
    }

    /// The number of calls that subscribe, including calls that fail. [`Counting::subscriptions`] is the number of
    /// active subscriptions.
    pub fn subscribes(&self) -> usize {
        self.hooks().subscribes.load(Relaxed)
    }

    /// The number of calls that write a client's row to the registry.
    pub fn registered(&self) -> usize {
        self.hooks().registered.load(Relaxed)
    }

    /// The number of requested swaps. A call with several swaps counts once for each swap.
    pub fn swaps(&self) -> usize {
        self.hooks().swaps.load(Relaxed)
    }

    /// The number of calls that read records, holdings or the store's time.
    pub fn reads(&self) -> usize {
        self.hooks().reads.load(Relaxed)
    }

    /// The number of records that reads have requested.
    pub fn records_read(&self) -> usize {
        self.hooks().records_read.load(Relaxed)
    }

    /// The number of subscriptions that are active now.
    pub fn subscriptions(&self) -> usize {
        self.hooks().subscriptions.load(Relaxed)
    }
}

impl Hooks for Counts {
    async fn around<T: Send>(&self, call: Call, answer: impl Future<Output = T> + Send) -> Result<T> {
        self.count_call(call);
        Ok(answer.await)
    }

    async fn apply<B: Backend>(&self, inner: &B, steps: &[Step]) -> Vec<Result<Answer>> {
        steps.iter().for_each(|step| self.count_step(step));
        let answers = inner.apply(steps).await;
        answers.iter().for_each(|answer| self.count_answer(answer));
        answers
    }

    async fn renew<B: Backend>(&self, inner: &B, claims: &[Claim]) -> Vec<Result<Renewal>> {
        add(&self.renewals, claims.len());
        let answers = inner.renew(claims).await;
        let successful = answers
            .iter()
            .filter(|answer| matches!(answer, Ok(Renewal::Extended { .. } | Renewal::Waiting { .. })))
            .count();
        add(&self.renewed, successful);
        answers
    }

    /// The subscription counts as active until it is dropped.
    fn subscription(&self, subscription: Subscription) -> Subscription {
        if subscription.is_silent() {
            return subscription;
        }
        let subscriptions = Arc::clone(&self.subscriptions);
        subscriptions.fetch_add(1, Relaxed);
        Subscription::new(move || {
            drop(subscription);
            subscriptions.fetch_sub(1, Relaxed);
        })
    }
}

impl Counts {
    fn count_call(&self, call: Call) {
        match call {
            Call::Ping | Call::Steps | Call::Renewals => {}
            Call::LockSubscription | Call::RecordSubscription => add(&self.subscribes, 1),
            Call::Swaps(swaps) => add(&self.swaps, swaps),
            Call::Reads(records) => {
                add(&self.reads, 1);
                add(&self.records_read, records);
            }
            Call::Registration => return add(&self.registered, 1),
            Call::Deregistration | Call::Deletion | Call::Objects | Call::Other => return,
        }
        add(&self.calls, 1);
    }

    fn count_step(&self, step: &Step) {
        match step {
            Step::Claim(_) => add(&self.claims, 1),
            Step::Pass { .. } => add(&self.passes, 1),
            Step::Release(_) => add(&self.releases, 1),
        }
    }

    fn count_answer(&self, answer: &Result<Answer>) {
        match answer {
            Ok(Answer::Claimed(Verdict::Granted { .. })) => add(&self.grants, 1),
            Ok(Answer::Claimed(Verdict::Busy { .. })) => add(&self.refusals, 1),
            Ok(Answer::Released(_)) | Err(_) => {}
        }
    }
}

fn add(count: &AtomicUsize, more: usize) {
    count.fetch_add(more, Relaxed);
}
