//! The handle of a work queue.

use std::{borrow::Borrow, fmt, marker::PhantomData, num::NonZeroU32, sync::Arc, time::Duration};

use bandog_codec::{Codec, Encode, TextJson};
use bandog_core::{
    Error, Key, Pattern, Result,
    queues::{Change, ElementId, ElementRow, Outcome, Phase, QueueStatus, Rate, envelope, rules::MAX_CHANGES},
    structures::Cursor,
};
use bandog_sync::Client;
use futures_util::stream::{BoxStream, Stream, StreamExt, iter, unfold};

use crate::{
    executor::Executor,
    new::{Push, PushAll},
    results,
    shared::{self, MAX_PAYLOAD, Shared},
    workers::Workers,
};

/// Makes the work queues of a client.
pub trait ClientWork {
    /// A work queue. This does no I/O.
    ///
    /// # Errors
    /// - `ErrorKind::Unsupported`: the store has no work queues.
    /// - `ErrorKind::Misused`: the name is not allowed.
    fn work_queue<T>(&self, name: impl AsRef<str>) -> Result<WorkQueue<T>>;

    /// An executor of tasks. This does no I/O.
    ///
    /// # Errors
    /// As [`ClientWork::work_queue`].
    fn executor(&self, name: impl AsRef<str>) -> Result<Executor>;

    /// The names of the work queues that match, in pages, without the prefix of the client. An error ends the stream, and a
    /// name may come twice.
    ///
    /// # Errors
    /// `ErrorKind::Unsupported`: the store has no work queues.
    fn work_queues(&self, pattern: &Pattern) -> Result<BoxStream<'static, Result<String>>>;
}

impl ClientWork for Client {
    fn work_queue<T>(&self, name: impl AsRef<str>) -> Result<WorkQueue<T>> {
        Ok(WorkQueue { shared: Shared::new(self, name.as_ref())?, codec: TextJson, types: PhantomData })
    }

    fn executor(&self, name: impl AsRef<str>) -> Result<Executor> {
        Executor::new(self, name.as_ref())
    }

    fn work_queues(&self, pattern: &Pattern) -> Result<BoxStream<'static, Result<String>>> {
        const NAME: &str = "x";
        let queues = shared::queues(self)?;
        let key = self.key(NAME)?;
        let prefix = key.as_str().strip_suffix(NAME).unwrap_or_default().to_owned();
        let pattern = pattern.after(&prefix);
        let pages = unfold(Some(Cursor::default()), move |from| {
            let (queues, pattern) = (queues.clone(), pattern.clone());
            async move {
                let page = queues.queues(&pattern, &from?, 100).await;
                let next = page.as_ref().ok().and_then(|(_, next)| next.clone());
                Some((page, next))
            }
        });
        let named = move |key: Key| key.as_str().strip_prefix(&prefix).map(str::to_owned).map(Ok);
        let names = pages.flat_map(move |page| match page {
            Ok((keys, _)) => iter(keys.into_iter().filter_map(&named).collect::<Vec<_>>()),
            Err(error) => iter(vec![Err(error)]),
        });
        Ok(names.boxed())
    }
}

/// A queue of elements for workers. Created by [`ClientWork::work_queue`]. Clones are the same queue, and share their
/// requests, so a program makes a handle once.
///
/// Elements with a greater priority are delivered first, those of the same priority in the order in which they became ready.
/// The clock of the store decides when a delay or a lease ends.
pub struct WorkQueue<T, C = TextJson> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) codec: C,
    types: PhantomData<fn() -> T>,
}

impl<T, C: Codec> WorkQueue<T, C> {
    /// The same queue, with another codec. Default: [`TextJson`].
    #[must_use]
    pub fn codec<D: Codec>(self, codec: D) -> WorkQueue<T, D> {
        WorkQueue { shared: self.shared, codec, types: PhantomData }
    }

    /// The name, without the prefix of the client.
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// Workers of this program: they work on this number of elements at the same time, at least 1.
    pub fn workers(&self, slots: u32) -> Workers<T, C> {
        Workers::new(&self.shared, self.codec.clone(), slots)
    }
}

impl<T, C: Encode<T>> WorkQueue<T, C> {
    /// Pushes an element, when this is awaited.
    pub fn push<Q: ?Sized>(&self, value: &Q) -> Push
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Push::new(&self.shared, self.encode(value))
    }

    /// Pushes elements in one step, when this is awaited.
    pub fn push_all<Q>(&self, values: &[Q]) -> PushAll
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        PushAll::new(&self.shared, values.iter().map(|value| self.encode(value)))
    }

    fn encode<Q: ?Sized>(&self, value: &Q) -> Result<Vec<u8>>
    where
        C: Encode<Q>,
    {
        let mut payload = Vec::new();
        let encoded = self.codec.encode(value, &mut payload);
        encoded.map_err(|error| Error::misused(error.to_string()).at(&self.shared.key))?;
        Ok(payload)
    }
}

/// What operators see and do.
///
/// # Errors
/// Of all calls:
/// - `ErrorKind::Unavailable`: the store has not answered in time.
/// - `ErrorKind::Denied`: the user lacks a right.
///
/// # Cancel safety
/// If the future of a change is dropped, the change may be applied.
impl<T, C: Codec> WorkQueue<T, C> {
    /// The settings, the number of elements in each phase, and the workers.
    ///
    /// # Errors
    /// See above.
    pub async fn status(&self) -> Result<QueueStatus> {
        self.named(self.shared.queues.status(&self.shared.key).await)
    }

    /// The element with this id, or its result. None: it is not in the queue, and its result is not kept.
    ///
    /// # Errors
    /// See above.
    pub async fn find(&self, id: ElementId) -> Result<Option<ElementRow>> {
        self.shared.find(id).await
    }

    /// The result of an element that was pushed with [`Push::keep_result`](crate::Push::keep_result). Waits for it for at most this
    /// time. None: the element has not ended.
    ///
    /// # Errors
    /// See above, and `ErrorKind::Lost`: the queue does not know the element: its result is not kept, or not any more.
    pub async fn result(&self, id: ElementId, at_most: Duration) -> Result<Option<Outcome>> {
        results::wait(&self.shared, id, at_most).await
    }

    /// The elements in a phase, in pages: ready and delayed ones in the order of their deliveries. An error ends the stream.
    pub fn elements(&self, phase: Phase) -> impl Stream<Item = Result<ElementRow>> + Send + Unpin + use<T, C> {
        let pages = unfold((self.shared.clone(), Some(Cursor::default())), move |(shared, from)| async move {
            let page =
                shared.queues.elements(&shared.key, phase, &from?, 100, MAX_PAYLOAD + envelope::MAX_ENVELOPE).await;
            let page = page.map_err(|error| error.at(&shared.key));
            let next = page.as_ref().ok().and_then(|(_, next)| next.clone());
            Some((page, (shared, next)))
        });
        Box::pin(pages.flat_map(|page| match page {
            Ok((rows, _)) => iter(rows.into_iter().map(|row| Ok(row.opened(MAX_PAYLOAD))).collect::<Vec<_>>()),
            Err(error) => iter(vec![Err(error)]),
        }))
    }

    /// Dead elements become ready again, with no attempts. Returns their number.
    ///
    /// # Errors
    /// See above.
    pub async fn retry(&self, ids: &[ElementId]) -> Result<u64> {
        if ids.is_empty() { Ok(0) } else { self.change(Change::Retry(ids.to_vec())).await }
    }

    /// All dead elements become ready again, with no attempts. Returns their number.
    ///
    /// # Errors
    /// See above.
    pub async fn retry_all(&self) -> Result<u64> {
        self.change_all(Change::Retry(Vec::new())).await
    }

    /// Removes elements. Those on which a worker works are cancelled: their handlers end at their next await. Returns the
    /// number of elements that were removed or cancelled.
    ///
    /// # Errors
    /// See above.
    pub async fn remove(&self, ids: &[ElementId]) -> Result<u64> {
        if ids.is_empty() { Ok(0) } else { self.change(Change::Remove(ids.to_vec())).await }
    }

    /// Removes all elements in a phase. Returns their number.
    ///
    /// # Errors
    /// See above, and `ErrorKind::Misused`: the phase is that of taken elements or of results.
    pub async fn purge(&self, phase: Phase) -> Result<u64> {
        if matches!(phase, Phase::Taken | Phase::Ended) {
            let message = format!("elements that are {} cannot be purged; remove them by their ids", phase.as_str());
            return Err(Error::misused(message).at(&self.shared.key));
        }
        self.change_all(Change::Purge(phase)).await
    }

    /// Delivers no element until [`WorkQueue::resume`]. Workers finish those that they have.
    ///
    /// # Errors
    /// See above.
    pub async fn pause(&self) -> Result<()> {
        self.change(Change::Pause(true)).await.map(drop)
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// See above.
    pub async fn resume(&self) -> Result<()> {
        self.change(Change::Pause(false)).await.map(drop)
    }

    /// Limits the number of elements on which all programs together work at the same time. None: no limit.
    ///
    /// # Errors
    /// See above.
    pub async fn limit_concurrency(&self, elements: Option<NonZeroU32>) -> Result<()> {
        self.change(Change::Concurrency(elements)).await.map(drop)
    }

    /// Limits the number of deliveries of all programs together: in no period are there more. None: no limit.
    ///
    /// A part of the deliveries, a fiftieth, may come at once; the others are spread over the period.
    ///
    /// # Errors
    /// See above, and `ErrorKind::Misused`: the period is shorter than 1 ms or longer than a year.
    pub async fn limit_rate(&self, rate: Option<Rate>) -> Result<()> {
        let allowed = Duration::from_millis(1)..=Duration::from_secs(365 * 86_400);
        if let Some(Rate { per, .. }) = rate
            && !allowed.contains(&per)
        {
            let message = format!("the period of the rate is {per:?}; it must be from 1 ms to a year");
            return Err(Error::misused(message).at(&self.shared.key));
        }
        self.change(Change::Rate(rate)).await.map(drop)
    }

    async fn change(&self, change: Change) -> Result<u64> {
        self.named(self.shared.queues.change(&self.shared.key, &change).await)
    }

    /// Repeats a change until it changes nothing more.
    async fn change_all(&self, change: Change) -> Result<u64> {
        let mut all = 0;
        loop {
            let changed = self.named(self.shared.queues.change(&self.shared.key, &change).await)?;
            all += changed;
            if changed < MAX_CHANGES as u64 {
                return Ok(all);
            }
        }
    }

    fn named<A>(&self, answer: Result<A>) -> Result<A> {
        answer.map_err(|error| error.at(&self.shared.key))
    }
}

impl<T, C: Clone> Clone for WorkQueue<T, C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), codec: self.codec.clone(), types: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for WorkQueue<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("key", &self.shared.key).field("codec", &self.codec).finish_non_exhaustive()
    }
}
