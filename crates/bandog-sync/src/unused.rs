//! Names that are not used any more.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bandog_core::{Backend, Error, IfUnused, Key, Pattern, Result, Usage};

use crate::{Client, handle::QueryFuture, pause::pause};

/// Minimum time without a grant after which a name is forgotten. It is far longer than the steps by which clocks are set.
const MIN_UNUSED: Duration = Duration::from_secs(3600);
/// Maximum number of names that one request forgets.
const BATCH: usize = 128;

/// A search for unused names, part by part.
#[derive(Debug)]
pub struct Sweep {
    client: Client,
    pattern: Pattern,
    unused_for: Duration,
    then: IfUnused,
    /// The names of the last part that was read, and are not checked yet.
    unchecked: VecDeque<Key>,
    position: Position,
}

/// The next part of a search.
#[derive(Debug)]
enum Position {
    First,
    After(String),
    End,
}

/// A step of a [`Sweep`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// The names that are unused, and were forgotten if this was asked for.
    pub unused: Vec<String>,
    /// The number of names that this step has read. A part with many names is checked in several steps.
    pub seen: u64,
}

impl Client {
    /// Forgets the names that match the pattern and are not used any more: those that are free, and whose last grant is at
    /// least `unused_for` ago, which is an hour or more. Returns the number of forgotten names.
    ///
    /// A store keeps the last fence of each name that was ever locked. This call deletes it, and what else the store keeps
    /// for the name. A name that a client holds, or for which a claim has a place in a queue, stays, and so do the names of
    /// semaphores, because the number of their permits is a setting. Other clients may use all names meanwhile: the store
    /// checks and deletes a name in one step.
    ///
    /// The next fence of a forgotten name is greater than each fence before, unless the store's clock was set back by more
    /// than `unused_for` since the last grant. On Redis, do not forget names that an `RFencedLock` of Redisson uses: its
    /// fences begin again at 1.
    ///
    /// The names are read part by part, with pauses, so a store with millions of names is not slowed down, and the call takes
    /// a long time. If it fails halfway, the names before are forgotten, and another call continues.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # use std::time::Duration;
    /// # use bandog::Pattern;
    /// # let client = bandog::connect("memory:").await?;
    /// let month = Duration::from_secs(30 * 24 * 3600);
    /// let forgotten = client.forget_unused(Pattern::new("order-*"), month).await?;
    /// # assert_eq!(forgotten, 0); Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Client::list`]; `ErrorKind::Misused` if `unused_for` is less than an hour, and `ErrorKind::Unsupported` if the
    /// store cannot forget names.
    ///
    /// # Cancel safety
    /// If the future is dropped, the names that were read before are forgotten.
    pub async fn forget_unused(&self, pattern: Pattern, unused_for: Duration) -> Result<usize> {
        let (mut sweep, mut forgotten) = (self.sweep(pattern, unused_for, IfUnused::Forget)?, 0);
        while let Some(part) = sweep.next().await? {
            forgotten += part.unused.len();
        }
        Ok(forgotten)
    }

    /// Begins a search for unused names, as [`Client::forget_unused`] does it. This does no I/O.
    ///
    /// # Errors
    /// As [`Client::forget_unused`].
    #[doc(hidden)]
    pub fn sweep(&self, pattern: Pattern, unused_for: Duration, then: IfUnused) -> Result<Sweep> {
        if unused_for < MIN_UNUSED {
            return Err(
                Error::misused("a name is forgotten at the earliest an hour after its last grant").during("forget")
            );
        }
        let pattern = pattern.after(self.handle().prefix());
        Ok(Sweep {
            client: self.clone(),
            pattern,
            unused_for,
            then,
            unchecked: VecDeque::new(),
            position: Position::First,
        })
    }
}

impl Sweep {
    /// Reads the next part if all names before are checked. Then checks some names, and forgets the unused ones if this was
    /// asked for. None after the last name.
    ///
    /// # Errors
    /// As [`Client::forget_unused`]. The next call repeats the request that failed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the next call repeats its last request.
    pub async fn next(&mut self) -> Result<Option<Swept>> {
        let mut swept = Swept::default();
        if self.unchecked.is_empty() {
            let after = match &self.position {
                Position::First => None,
                Position::After(after) => Some(after.clone()),
                Position::End => return Ok(None),
            };
            let (pattern, unused_for) = (self.pattern.clone(), self.unused_for);
            let read =
                async move |backend: Arc<dyn Backend>| backend.names_page(&pattern, unused_for, after.as_deref()).await;
            let page = self.spaced(move |backend| Box::pin(async move { read(backend).await })).await?;
            swept.seen = page.seen;
            self.unchecked = page.keys.into();
            self.position = page.next.map_or(Position::End, Position::After);
        }
        if self.unchecked.is_empty() {
            return Ok(Some(swept));
        }
        let batch: Vec<_> = self.unchecked.iter().take(BATCH).cloned().collect();
        let (asked, unused_for, then) = (batch.clone(), self.unused_for, self.then);
        let usages =
            self.spaced(move |backend| Box::pin(async move { backend.usage(&asked, unused_for, then).await })).await?;
        self.unchecked.drain(..batch.len());
        let unused = batch.into_iter().zip(usages).filter(|(_, usage)| *usage == Usage::Unused);
        let handle = self.client.handle();
        swept.unused = unused.map(|(key, _)| handle.without_prefix(key.as_str().to_owned())).collect();
        Ok(Some(swept))
    }

    /// Makes a request. Afterwards it pauses for as long as the store has needed, so that the search takes at most half of the
    /// store's time.
    async fn spaced<T: Send + 'static>(
        &self,
        request: impl FnOnce(Arc<dyn Backend>) -> QueryFuture<T> + Send + 'static,
    ) -> Result<T> {
        let handle = self.client.handle();
        let began = handle.clock.now();
        let answer = self.client.query(request).await?;
        pause(handle, handle.clock.now().since(began)).await?;
        Ok(answer)
    }
}
