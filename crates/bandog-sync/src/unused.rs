//! Names that are not used any more.

use std::{mem, sync::Arc, time::Duration};

use bandog_core::{Backend, Error, IfUnused, Key, Pattern, Result, Usage};

use crate::{Client, pause::pause};

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
    position: Position,
}

/// The next part of a search.
#[derive(Debug)]
enum Position {
    First,
    After(String),
    End,
}

/// A part of the names that a [`Sweep`] has read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// The names that are unused, and were forgotten if this was asked for.
    pub unused: Vec<String>,
    /// The number of names that were read.
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
    pub async fn forget_unused(&self, pattern: Pattern, unused_for: Duration) -> Result<u64> {
        let (mut sweep, mut forgotten) = (self.sweep(pattern, unused_for, IfUnused::Forget)?, 0);
        while let Some(part) = sweep.next().await? {
            forgotten += part.unused.len() as u64;
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
        Ok(Sweep { client: self.clone(), pattern, unused_for, then, position: Position::First })
    }
}

impl Sweep {
    /// Reads the next part, and forgets its unused names if this was asked for. None after the last part.
    ///
    /// # Errors
    /// As [`Client::forget_unused`]. The next call reads the same part again.
    pub async fn next(&mut self) -> Result<Option<Swept>> {
        let after = match &self.position {
            Position::First => None,
            Position::After(after) => Some(after.clone()),
            Position::End => return Ok(None),
        };
        let (pattern, unused_for, then) = (self.pattern.clone(), self.unused_for, self.then);
        let read =
            async move |backend: Arc<dyn Backend>| backend.names_page(&pattern, unused_for, after.as_deref()).await;
        let page = self.client.query(move |backend| Box::pin(async move { read(backend).await })).await?;
        let mut swept = Swept { unused: Vec::new(), seen: page.seen };
        let mut keys = page.keys;
        while !keys.is_empty() {
            let rest = keys.split_off(keys.len().min(BATCH));
            let batch = mem::replace(&mut keys, rest);
            swept.unused.extend(self.unused_of(batch, then).await?);
        }
        self.position = page.next.map_or(Position::End, Position::After);
        Ok(Some(swept))
    }

    /// The names of these that are unused. Afterwards it pauses for as long as the store has needed, so that the search takes
    /// at most half of the store's time.
    async fn unused_of(&self, keys: Vec<Key>, then: IfUnused) -> Result<Vec<String>> {
        let (handle, unused_for, asked) = (self.client.handle(), self.unused_for, keys.clone());
        let began = handle.clock.now();
        let usages =
            self.client.query(move |backend| Box::pin(async move { backend.usage(&asked, unused_for, then).await }));
        let usages = usages.await?;
        pause(handle, handle.clock.now().since(began)).await?;
        let unused = keys.into_iter().zip(usages).filter(|(_, usage)| *usage == Usage::Unused);
        Ok(unused.map(|(key, _)| handle.without_prefix(key.as_str().to_owned())).collect())
    }
}
