//! The type of all wrappers. It passes each call on to the backend inside, through the hooks of the wrapper.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Finding, Holding, IfUnused, Inspect, Key, LatchAnswer, LatchOperation, LatchRow,
    Latches, Leases, Line, Member, NamesPage, Notifier, Pattern, Portion, Profile, Reading, Records, Renewal, Result,
    Row, Step, Subscription, Swap, Swaps, Usage,
    messages::Messages,
    queues::{
        Bell, Change, ElementId, ElementRow, Extend, Extended, Phase, Push, Pushed, QueueStatus, Queues, Settle,
        Settled, Take, Taken,
    },
    structures::{
        CacheChanges, Cursor, EntryEvents, EntryKey, MapChanges, ObjectRow, ObjectState, Op, Page, Part, Reply, Source,
        Structures,
    },
};

use super::{Call, Hooks};

/// A backend with another backend inside, whose calls are changed by hooks. All clones share one state.
///
/// Operations on objects of the grid and on work queues have the hook `around_change`; their pages, notifications and messages are those of the
/// backend inside. The methods `fence_sql`, `mark_sql` and `drain` are not passed on: they are the defaults of their traits.
#[derive(Debug)]
pub struct Wrapped<H, B>(Arc<Shared<H, B>>);

#[derive(Debug)]
struct Shared<H, B> {
    hooks: H,
    backend: B,
}

impl<H: Hooks, B: Backend> Wrapped<H, B> {
    /// Wraps this backend.
    pub fn wrap(backend: B, hooks: H) -> Self {
        Self(Arc::new(Shared { hooks, backend }))
    }

    /// The backend inside.
    pub fn inner(&self) -> &B {
        &self.0.backend
    }

    /// The hooks, which also have the state of the wrapper.
    pub fn hooks(&self) -> &H {
        &self.0.hooks
    }

    /// Makes a call that subscribes to this key.
    async fn subscribed(
        &self,
        call: Call,
        key: &Key,
        answer: impl Future<Output = Result<Subscription>> + Send,
    ) -> Result<Subscription> {
        let answer = self.hooks().around(call, answer).await;
        let subscription = answer.map_err(|error| error.during("subscribe").at(key))??;
        Ok(self.hooks().subscription(subscription))
    }

    fn rows(&self, rows: Vec<Row>) -> Vec<Row> {
        rows.into_iter().map(|row| self.hooks().row(row)).collect()
    }
}

impl<H, B> Clone for Wrapped<H, B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[async_trait]
impl<H: Hooks, B: Backend> Leases for Wrapped<H, B> {
    async fn ping(&self) -> Result<()> {
        self.hooks().around(Call::Ping, self.inner().ping()).await?
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let (wire, sent) = (self.clone(), steps.to_vec());
        let call = async move { wire.hooks().apply(wire.inner(), &sent).await };
        let answers = self.hooks().around_change(Call::Steps, call).await;
        answers.unwrap_or_else(|error| {
            let at_each = |step: &Step| Err(error.clone().during(step.verb()).at(step.key()));
            steps.iter().map(at_each).collect()
        })
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let answers = self.hooks().around(Call::Renewals, self.hooks().renew(self.inner(), claims)).await;
        answers.unwrap_or_else(|error| {
            let at_each = |claim: &Claim| Err(error.clone().during("renew").at(&claim.key));
            claims.iter().map(at_each).collect()
        })
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let answer = self.hooks().subscribe(self.inner(), claim, notifier);
        self.subscribed(Call::LockSubscription, &claim.key, answer).await
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        self.hooks().around(Call::Other, self.hooks().set_limit(self.inner(), key, permits)).await?
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.hooks().around(Call::Registration, self.inner().register(member, ttl)).await?
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.hooks().around(Call::Deregistration, self.inner().deregister(client)).await?
    }

    fn profile(&self) -> Profile {
        self.hooks().profile(self.inner().profile())
    }
}

#[async_trait]
impl<H: Hooks, B: Backend> Inspect for Wrapped<H, B> {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        Ok(self.rows(self.inner().list(pattern).await?))
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        Ok(self.hooks().row(self.inner().show(key).await?))
    }

    async fn show_all(&self, keys: &[Key]) -> Result<Vec<Row>> {
        Ok(self.rows(self.inner().show_all(keys).await?))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.inner().members().await
    }

    async fn members_of(&self, clients: &[ClientId]) -> Result<Vec<Member>> {
        self.inner().members_of(clients).await
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.hooks().evict(self.inner(), key).await
    }

    async fn forget(&self, key: &Key) -> Result<bool> {
        self.hooks().forget(self.inner(), key).await
    }

    async fn names_page(&self, pattern: &Pattern, unused_for: Duration, after: Option<&str>) -> Result<NamesPage> {
        self.inner().names_page(pattern, unused_for, after).await
    }

    async fn usage(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        self.hooks().usage(self.inner(), keys, unused_for, then).await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.inner().check().await
    }

    async fn check_for(&self, prefix: &str) -> Result<Vec<Finding>> {
        self.inner().check_for(prefix).await
    }
}

#[async_trait]
impl<H: Hooks, B: Backend> Records for Wrapped<H, B> {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let (wire, sent) = (self.clone(), swaps.to_vec());
        let call = async move { wire.inner().swap(&sent).await };
        let answer = self.hooks().around_change(Call::Swaps(swaps.len()), call).await;
        answer.map_err(|error| error.during("swap"))?
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        self.hooks().around(Call::Reads(keys.len()), self.inner().read(keys, holdings)).await?
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.hooks().around(Call::Other, self.inner().names(pattern)).await?
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.hooks().around(Call::Other, self.inner().history(key)).await?
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.subscribed(Call::RecordSubscription, key, self.inner().subscribe_record(key, notifier)).await
    }
}

impl<H: Hooks, B: Backend> Backend for Wrapped<H, B> {
    fn structures(&self) -> Option<Arc<dyn Structures>> {
        let inner = self.inner().structures()?;
        Some(Arc::new(WrappedObjects { wire: self.clone(), inner }))
    }

    fn messages(&self) -> Option<Arc<dyn Messages>> {
        self.inner().messages()
    }

    fn queues(&self) -> Option<Arc<dyn Queues>> {
        let inner = self.inner().queues()?;
        Some(Arc::new(WrappedQueues { wire: self.clone(), inner }))
    }
}

/// The work queues of the backend inside, behind the hooks.
#[derive(Debug)]
struct WrappedQueues<H, B> {
    wire: Wrapped<H, B>,
    inner: Arc<dyn Queues>,
}

impl<H: Hooks, B: Backend> WrappedQueues<H, B> {
    /// Makes a call that changes a queue.
    async fn changed<T: Send + 'static>(&self, call: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        self.wire.hooks().around_change(Call::Objects, call).await?
    }
}

#[async_trait]
impl<H: Hooks, B: Backend> Queues for WrappedQueues<H, B> {
    async fn push(&self, pushes: &[Push]) -> Vec<Result<Vec<Pushed>>> {
        let (inner, sent) = (Arc::clone(&self.inner), pushes.to_vec());
        let call = async move { inner.push(&sent).await };
        let answers = self.wire.hooks().around_change(Call::Objects, call).await;
        answers.unwrap_or_else(|error| pushes.iter().map(|push| Err(error.clone().at(&push.queue))).collect())
    }

    async fn take(&self, takes: &[Take]) -> Vec<Result<Taken>> {
        let (inner, sent) = (Arc::clone(&self.inner), takes.to_vec());
        let call = async move { inner.take(&sent).await };
        let answers = self.wire.hooks().around_change(Call::Objects, call).await;
        answers.unwrap_or_else(|error| takes.iter().map(|take| Err(error.clone().at(&take.queue))).collect())
    }

    async fn extend(&self, extend: &Extend) -> Result<Vec<Extended>> {
        let (inner, sent) = (Arc::clone(&self.inner), extend.clone());
        self.changed(async move { inner.extend(&sent).await }).await
    }

    async fn settle(&self, queue: &Key, settles: &[Settle]) -> Result<Vec<Settled>> {
        let (inner, queue, sent) = (Arc::clone(&self.inner), queue.clone(), settles.to_vec());
        self.changed(async move { inner.settle(&queue, &sent).await }).await
    }

    async fn find(&self, queue: &Key, ids: &[ElementId], payload: usize) -> Result<Vec<Option<ElementRow>>> {
        self.inner.find(queue, ids, payload).await
    }

    async fn status(&self, queue: &Key) -> Result<QueueStatus> {
        self.inner.status(queue).await
    }

    async fn elements(
        &self,
        queue: &Key,
        phase: Phase,
        from: &Cursor,
        about: usize,
        payload: usize,
    ) -> Result<(Vec<ElementRow>, Option<Cursor>)> {
        self.inner.elements(queue, phase, from, about, payload).await
    }

    async fn change(&self, queue: &Key, change: &Change) -> Result<u64> {
        let (inner, queue, change) = (Arc::clone(&self.inner), queue.clone(), change.clone());
        self.changed(async move { inner.change(&queue, &change).await }).await
    }

    async fn queues(&self, pattern: &Pattern, from: &Cursor, about: usize) -> Result<(Vec<Key>, Option<Cursor>)> {
        self.inner.queues(pattern, from, about).await
    }

    async fn subscribe_bell(&self, bell: &Bell, notifier: Notifier) -> Result<Subscription> {
        self.inner.subscribe_bell(bell, notifier).await
    }
}

/// The objects of the backend inside, behind the hooks.
#[derive(Debug)]
struct WrappedObjects<H, B> {
    wire: Wrapped<H, B>,
    inner: Arc<dyn Structures>,
}

#[async_trait]
impl<H: Hooks, B: Backend> Structures for WrappedObjects<H, B> {
    async fn run(&self, ops: &[Op]) -> Vec<Result<Reply>> {
        let (inner, sent) = (Arc::clone(&self.inner), ops.to_vec());
        let call = async move { inner.run(&sent).await };
        let replies = self.wire.hooks().around_change(Call::Objects, call).await;
        replies.unwrap_or_else(|error| ops.iter().map(|op| Err(error.clone().at(&op.key))).collect())
    }

    async fn page(&self, key: &Key, part: Part, from: &Cursor, about: Portion) -> Result<Page> {
        self.inner.page(key, part, from, about).await
    }

    async fn objects(
        &self,
        pattern: &Pattern,
        from: &Cursor,
        about: usize,
    ) -> Result<(Vec<ObjectRow>, Option<Cursor>)> {
        self.inner.objects(pattern, from, about).await
    }

    async fn describe(&self, key: &Key) -> Result<Vec<ObjectState>> {
        self.inner.describe(key).await
    }

    async fn subscribe_fill(&self, key: &Key, at: &EntryKey, notifier: Notifier) -> Result<Subscription> {
        self.inner.subscribe_fill(key, at, notifier).await
    }

    async fn track_cache(&self, key: &Key, changes: CacheChanges) -> Result<Subscription> {
        self.inner.track_cache(key, changes).await
    }

    async fn track_map(&self, key: &Key, changes: MapChanges) -> Result<Subscription> {
        self.inner.track_map(key, changes).await
    }

    async fn subscribe_entries(&self, key: &Key, events: EntryEvents) -> Result<Subscription> {
        self.inner.subscribe_entries(key, events).await
    }

    async fn subscribe_elements(&self, key: &Key, from: Source, notifier: Notifier) -> Result<Subscription> {
        self.inner.subscribe_elements(key, from, notifier).await
    }
}

#[async_trait]
impl<H: Hooks, B: Backend> Latches for Wrapped<H, B> {
    async fn change_latch(&self, operation: &LatchOperation) -> Result<Option<LatchAnswer>> {
        if self.hooks().is_overtaken() {
            return Ok(None);
        }
        let (wire, sent) = (self.clone(), operation.clone());
        let call = async move { wire.inner().change_latch(&sent).await };
        let answer = self.hooks().around_change(Call::Other, call).await;
        answer.map_err(|error| error.during(operation.action.verb()).at(&operation.key))?
    }

    async fn clear_latches(&self) -> Result<()> {
        self.hooks().around(Call::Deletion, self.inner().clear_latches()).await?
    }

    async fn latch_count(&self, key: &Key) -> Result<u64> {
        self.hooks().around(Call::Reads(1), self.inner().latch_count(key)).await?
    }

    async fn list_latches(&self, pattern: &Pattern) -> Result<Vec<LatchRow>> {
        self.hooks().around(Call::Other, self.inner().list_latches(pattern)).await?
    }

    async fn subscribe_latch(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.subscribed(Call::RecordSubscription, key, self.inner().subscribe_latch(key, notifier)).await
    }
}
