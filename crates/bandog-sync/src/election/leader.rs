//! The leader of an election: as the record has it, and as the guard of the process that is the leader.

use std::{fmt, str::FromStr, time::Duration};

use bandog_core::{Backend, ClaimId, Error, ErrorKind, Fence, Holding, Key, Record, Result, Swap, Version};
use tokio::sync::oneshot;

use crate::{Client, Expiring, Guard, Lost, engine::Msg};

/// The leader of an election, as observers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    fence: Fence,
    claim: ClaimId,
    text: String,
}

impl Leader {
    pub(super) fn new(guard: &Guard, text: String) -> Self {
        Self { fence: guard.fence(), claim: guard.holding().id, text }
    }

    /// The text of the candidate: its own ([`super::Election::candidate`]), or `program@host`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The fencing token of the leader. Each later leader has a greater fence.
    pub fn fence(&self) -> Fence {
        self.fence
    }
}

/// Writes the text of the record: the fence, the claim, and after a line break the candidate's text.
impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}\n{}", self.fence, self.claim, self.text)
    }
}

/// Parses the format of `Display`.
impl FromStr for Leader {
    type Err = Error;

    fn from_str(value: &str) -> Result<Self> {
        let parse = || {
            let (head, text) = value.split_once('\n')?;
            let (fence, claim) = head.split_once(' ')?;
            Some(Self { fence: Fence::new(fence.parse().ok()?), claim: claim.parse().ok()?, text: text.to_owned() })
        };
        parse().ok_or_else(|| Error::new(ErrorKind::Corrupt, "the record of an election has an unknown format"))
    }
}

/// Reads the record, and checks whether its leader still holds the mutex `key`. `expected` is the leader that the
/// record probably has. If the guess is right, one request is enough.
pub(super) async fn read(
    client: &Client,
    record: &Key,
    key: &Key,
    mut expected: Option<Leader>,
) -> Result<Option<Leader>> {
    loop {
        let holding = expected.as_ref().map(|leader| Holding { key: key.clone(), id: leader.claim });
        let (present, held) = client.read_record(record, holding.as_slice()).await?;
        let Some(Record { value, .. }) = present else { return Ok(None) };
        let leader: Leader = value.parse().map_err(|error: Error| error.during("read").at(record))?;
        if expected.as_ref().is_some_and(|expected| expected.claim == leader.claim) {
            return Ok(Some(leader).filter(|_| held.first() == Some(&true)));
        }
        expected = Some(leader);
    }
}

/// The guard of a leader. The leadership lasts until this guard is dropped or resigned, or until it is lost.
///
/// A leadership can be lost as every lock, for example because the process was stopped for some time. So the leader
/// should watch [`Leadership::lost`], and send [`Leadership::fence`] with each write.
///
/// The drop of this guard resigns in the background. [`Leadership::resign`] does the same and reports the result.
#[derive(Debug)]
#[must_use = "a leadership ends as soon as its guard is dropped"]
pub struct Leadership {
    /// This field must be dropped before the guard, so that observers do not see a leader that has released the mutex.
    entry: RecordEntry,
    guard: Guard,
}

impl Leadership {
    pub(super) fn new(entry: RecordEntry, guard: Guard) -> Self {
        Self { entry, guard }
    }

    /// The fencing token of this leadership: a number that is greater than the number of every earlier leader.
    pub fn fence(&self) -> Fence {
        self.guard.fence()
    }

    /// The claim of this leadership. With it, a [`Swap`] can have the condition that this candidate is still the
    /// leader. See [`Guard::holding`].
    pub fn holding(&self) -> Holding {
        self.guard.holding()
    }

    /// Whether the leadership is lost, so that there might be another leader now. See [`Guard::is_lost`].
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Time until the leadership is lost if no further renewal succeeds. Zero if it is lost.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Returns a future that resolves when the leadership is lost. It resolves before another candidate can become the
    /// leader, with the exceptions of [`Guard::lost`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn lost(&self) -> Lost {
        self.guard.lost()
    }

    /// Returns a future that resolves when only `grace` is left before the leadership is lost. See [`Guard::expiring`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn expiring(&self, grace: Duration) -> Expiring {
        self.guard.expiring(grace)
    }

    /// Ends the leadership and reports the result. Observers are notified immediately.
    ///
    /// # Errors
    /// - `ErrorKind::Lost`: the leadership was lost before. There may have been another leader since then.
    /// - `ErrorKind::Unavailable`: the store did not answer within one request timeout. Another candidate becomes the
    ///   leader after the ttl at the latest.
    /// - `ErrorKind::Closed`: the client was closed with [`Client::close`].
    ///
    /// # Cancel safety
    /// If this future is dropped, the leadership ends nevertheless. This is true even before the first poll.
    pub async fn resign(self) -> Result<()> {
        let Self { mut entry, guard } = self;
        let deleted = entry.delete();
        guard.release().await?;
        // If the record was not deleted, observers see at their next poll that its leader does not hold the mutex.
        if let Some(deleted) = deleted {
            let _ = deleted.await;
        }
        Ok(())
    }

    /// Marks the leadership as lost, for tests of how a program reacts to a loss. See [`Guard::lose`].
    #[cfg(feature = "test-util")]
    pub fn lose(&self) {
        self.guard.lose();
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// The record that a leader has written, or may have written. The drop of this value deletes the record in the background.
#[derive(Debug)]
pub(super) struct RecordEntry {
    client: Client,
    record: Key,
    written: Written,
}

#[derive(Debug)]
enum Written {
    /// The text that a write without an answer may have written. No two leaders have the same text.
    Maybe(String),
    /// The version that the leader has written.
    Version(Version),
    /// The record is already deleted.
    Deleted,
}

impl RecordEntry {
    /// The entry of a leader that is about to write this text.
    pub(super) fn of(client: Client, record: Key, text: String) -> Self {
        Self { client, record, written: Written::Maybe(text) }
    }

    /// Records the version that the leader has written.
    pub(super) fn written(&mut self, version: Version) {
        self.written = Written::Version(version);
    }

    /// Sends a request that deletes the record, unless a later leader has replaced it. This needs no condition on the
    /// mutex, because no two writes of a record have the same version. Returns a receiver that is answered when the
    /// request has ended.
    fn delete(&mut self) -> Option<oneshot::Receiver<()>> {
        let written = std::mem::replace(&mut self.written, Written::Deleted);
        if matches!(written, Written::Deleted) {
            return None;
        }
        let key = self.client.handle().key(self.record.as_str()).ok()?;
        let (ended, answer) = oneshot::channel();
        // If the request fails, the record stays, but its leader does not hold the mutex any more. If the engine has
        // ended, the message is not received.
        let delete = Msg::Query(Box::new(move |backend| {
            Box::pin(async move {
                if let Some(version) = version(&*backend, &key, written).await {
                    let delete = Swap { to: None, notifies: true, ..Swap::new(key, Some(version), "") };
                    let _ = backend.swap(&[delete]).await;
                }
                let _ = ended.send(());
            })
        }));
        let _ = self.client.handle().send(delete);
        Some(answer)
    }
}

/// The version of the record that the leader has written, if it is known or still there.
async fn version(backend: &dyn Backend, key: &Key, written: Written) -> Option<Version> {
    match written {
        Written::Version(version) => Some(version),
        Written::Maybe(text) => {
            let mut records = backend.read(std::slice::from_ref(key), &[]).await.ok()?.records;
            let record = records.pop()?.ok()??;
            (record.value == text).then_some(record.version)
        }
        Written::Deleted => None,
    }
}

impl Drop for RecordEntry {
    fn drop(&mut self) {
        drop(self.delete());
    }
}
