//! Records: nodes that are replaced as a whole, if they have the expected version.
//!
//! The time of the store is the time of a transaction: the clock of the leader, in milliseconds. So two swaps can have the
//! same time. The versions of a record rise all the same. The folder of all records keeps the greatest version that was
//! deleted, and a new record gets a greater one.

mod stored;
mod subscription;

use std::{collections::HashMap, time::SystemTime};

use async_trait::async_trait;
use bandog_core::{
    Backend, Error, ErrorKind, Holding, Key, Latches, Line, Notifier, Pattern, Reading, Record, Records, Result,
    Subscription, Swap, Swapped, Swaps, Version,
};
use futures_util::future::join_all;
use tokio::time::Instant;
use zookeeper_client::{CreateMode, Error as ZkError, MultiReadResult, MultiWriteError};

pub(crate) use self::stored::MAX_BYTES;
use self::stored::Stored;
use crate::{
    encoding::{OWN, decode, encode},
    host::{Shared, ZooKeeper},
    nodes::{self, NodeText, Queue},
    session::Session,
};

/// Maximum number of nodes in one request.
const CHUNK: usize = 512;
/// Maximum number of attempts of one swap while other clients change the same nodes.
const ATTEMPTS: usize = 16;

#[async_trait]
impl Records for ZooKeeper {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let deadline = self.0.deadline();
        // The records of different names are swapped at the same time.
        let each = join_all(swaps.iter().map(async |swap| {
            let _turn = self.0.record_locks.turn(&swap.key).await;
            self.0.swap_until(deadline, swap).await.map_err(|error| error.during("swap").at(&swap.key))
        }));
        let (now, each) = futures_util::join!(self.0.time(deadline), each);
        Ok(Swaps { now: now.map_err(|error| error.during("swap"))?, each })
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        self.0.read_all(keys, holdings).await.map_err(|error| error.during("read"))
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let folder = self.0.own_folder("records");
        let deadline = self.0.deadline();
        let names = async {
            let session = self.0.session(deadline).await?;
            self.0
                .answered(deadline, async {
                    session.prove().await.map_err(|error| self.0.fault(error))?;
                    match session.client.list_children(&folder).await {
                        Ok(names) => Ok(names),
                        Err(ZkError::NoNode) => Ok(Vec::new()),
                        Err(error) => Err(self.0.fault(error)),
                    }
                })
                .await
        };
        let nodes = names.await.map_err(|error| error.during("names"))?;
        let names = nodes.iter().filter_map(|node| decode(node)).filter(|name| pattern.matches(name));
        let mut keys: Vec<Key> = names.filter_map(|name| Key::new(name).ok()).collect();
        keys.sort();
        Ok(keys)
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        let deadline = self.0.deadline();
        let stored = async {
            let session = self.0.session(deadline).await?;
            self.0
                .answered(deadline, async {
                    session.prove().await.map_err(|error| self.0.fault(error))?;
                    self.0.stored(&session, key).await
                })
                .await
        };
        let stored = stored.await.map_err(|error| error.during("history").at(key))?;
        let lines = stored.into_iter().flat_map(|(stored, _)| stored.lines);
        Ok(lines.map(|(slot, value)| Line { slot, value }).collect())
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        subscription::begin(&self.0, key, notifier).await.map_err(|error| error.during("subscribe").at(key))
    }
}

impl Latches for ZooKeeper {}

impl Backend for ZooKeeper {}

/// The conditions of a swap that are met, or the answer that says which one is not.
enum Checked {
    Met(Conditions),
    Not(Swapped),
}

/// The nodes that a swap has read. The transaction of the swap fails if one of these nodes has changed.
struct Conditions {
    now: SystemTime,
    /// The record that is replaced, and the version of its node.
    present: Option<(Stored, i32)>,
    /// The node of the claim that must hold its lock, and the version of its data.
    held: Option<(String, i32)>,
    /// The greatest version of all deleted records, and the version of the folder that has it. Read if the swap creates or
    /// deletes a record.
    deleted: Option<(Option<Version>, i32)>,
}

impl Shared {
    /// A folder of this crate.
    pub(crate) fn own_folder(&self, name: &str) -> String {
        format!("{}/{OWN}/{name}", self.options.chroot)
    }

    fn record_path(&self, key: &Key) -> String {
        format!("{}/{}", self.own_folder("records"), encode(key.as_str()))
    }

    /// The node that is written to notify the subscribers of a record.
    fn notice_path(&self, key: &Key) -> String {
        format!("{}/{}", self.own_folder("notices"), encode(key.as_str()))
    }

    /// The time of the store.
    async fn time(&self, deadline: Instant) -> Result<SystemTime> {
        let session = self.session(deadline).await?;
        self.answered(deadline, async { session.prove().await.map_err(|error| self.fault(error)) }).await
    }

    async fn swap_until(&self, deadline: Instant, swap: &Swap) -> Result<Swapped> {
        swap.check()?;
        let session = self.session(deadline).await?;
        self.answered(deadline, async {
            for _ in 0..ATTEMPTS {
                if let Some(swapped) = self.try_swap(&session, swap).await? {
                    return Ok(swapped);
                }
            }
            Err(Error::unavailable(format!("{}: other clients change the record all the time", self.store)))
        })
        .await
    }

    /// Attempts a swap. None if another client has changed one of the nodes meanwhile.
    async fn try_swap(&self, session: &Session, swap: &Swap) -> Result<Option<Swapped>> {
        let conditions = match self.check(session, swap).await? {
            Checked::Met(conditions) => conditions,
            Checked::Not(swapped) => return Ok(Some(swapped)),
        };
        if conditions.present.is_none() && swap.to.is_none() {
            return Ok(Some(Swapped::Done(None)));
        }
        let next = next_of(swap, &conditions)?;
        let version = next.as_ref().map(|next| next.version);
        let data = next.map(|next| next.bytes());
        // The last attempt follows if the folder of the notices was missing.
        for has_notice in [true, false, false] {
            match self.commit(session, swap, &conditions, data.as_deref(), has_notice).await {
                Ok(()) => return Ok(Some(Swapped::Done(version))),
                Err(MultiWriteError::OperationFailed { index, source: ZkError::NoNode })
                    if has_notice && index == usize::from(conditions.held.is_some()) => {}
                // The folder of the notices is missing: ZooKeeper has deleted it when it was empty.
                Err(MultiWriteError::OperationFailed { index, source: ZkError::NoNode })
                    if swap.notifies && index == usize::from(conditions.held.is_some()) =>
                {
                    let made = session.make_folder(&self.own_folder("notices")).await;
                    made.map_err(|error| self.fault(error))?;
                }
                Err(MultiWriteError::OperationFailed {
                    source: ZkError::NoNode | ZkError::NodeExists | ZkError::BadVersion | ZkError::RuntimeInconsistent,
                    ..
                }) => return Ok(None),
                Err(error) => return Err(self.fault(error.into())),
            }
        }
        Ok(None)
    }

    /// Checks the conditions of a swap.
    async fn check(&self, session: &Session, swap: &Swap) -> Result<Checked> {
        // After its own write, a session reads what was committed before.
        let now = session.prove().await.map_err(|error| self.fault(error))?;
        let present = self.stored(session, &swap.key).await?;
        if present.as_ref().map(|(stored, _)| stored.version) != swap.from {
            return Ok(Checked::Not(Swapped::Differs(present.map(|(stored, _)| record(stored)))));
        }
        let remaining = swap.not_before.and_then(|time| time.duration_since(now).ok());
        if let Some(remaining) = remaining.filter(|time| !time.is_zero()) {
            return Ok(Checked::Not(Swapped::Early(remaining)));
        }
        let held = match &swap.held {
            None => None,
            Some(holding) => match self.holder(session, holding).await? {
                Some(held) => Some(held),
                None => return Ok(Checked::Not(Swapped::NotHeld)),
            },
        };
        let deleted = if present.is_none() != swap.to.is_none() { Some(self.deleted(session).await?) } else { None };
        Ok(Checked::Met(Conditions { now, present, held, deleted }))
    }

    /// The greatest version of all deleted records, and the version of the folder that has it.
    async fn deleted(&self, session: &Session) -> Result<(Option<Version>, i32)> {
        let folder = self.own_folder("records");
        for _ in 0..ATTEMPTS {
            match session.client.get_data(&folder).await {
                Ok((data, stat)) => {
                    let number = std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok());
                    return Ok((number.and_then(Version::new), stat.version));
                }
                // The folder stays when it is empty: its data must not be lost.
                Err(ZkError::NoNode) => {
                    let notices = self.own_folder("notices");
                    let (records, notices) =
                        futures_util::join!(session.make_lasting_folder(&folder), session.make_folder(&notices));
                    records.and(notices).map_err(|error| self.fault(error))?;
                }
                Err(error) => return Err(self.fault(error)),
            }
        }
        Err(Error::unavailable(format!("{}: another client deletes the folder of the records", self.store)))
    }

    /// Writes or deletes a record in one transaction. It fails if one of the conditions is no longer met.
    async fn commit(
        &self,
        session: &Session,
        swap: &Swap,
        conditions: &Conditions,
        data: Option<&[u8]>,
        has_notice: bool,
    ) -> Result<(), MultiWriteError> {
        let options = CreateMode::Persistent.with_acls(self.options.acl.acls());
        let (path, folder, notice) =
            (self.record_path(&swap.key), self.own_folder("records"), self.notice_path(&swap.key));
        let mut transaction = session.client.new_multi_writer();
        if let Some((node, version)) = &conditions.held {
            transaction.add_check_version(node, *version)?;
        }
        // A deletion notifies, too. So a deleted record leaves no notice.
        match (has_notice, data) {
            (true, Some(_)) if swap.notifies => transaction.add_set_data(&notice, b"", None)?,
            (false, Some(_)) if swap.notifies => transaction.add_create(&notice, b"", &options)?,
            (true, None) => transaction.add_delete(&notice, None)?,
            (false, None) if swap.notifies => {
                transaction.add_create(&notice, b"", &options)?;
                transaction.add_delete(&notice, None)?;
            }
            (_, Some(_)) | (false, None) => {}
        }
        match (&conditions.present, data) {
            (Some((_, version)), Some(data)) => transaction.add_set_data(&path, data, Some(*version))?,
            (Some((_, version)), None) => transaction.add_delete(&path, Some(*version))?,
            (None, Some(data)) => transaction.add_create(&path, data, &options)?,
            (None, None) => {}
        }
        if let Some((greatest, version)) = conditions.deleted {
            match &conditions.present {
                None => transaction.add_check_version(&folder, version)?,
                Some((stored, _)) => {
                    let greatest = greatest.map_or(stored.version, |greatest| greatest.max(stored.version));
                    transaction.add_set_data(&folder, greatest.to_string().as_bytes(), Some(version))?;
                }
            }
        }
        transaction.commit().await.map(drop)
    }

    /// Reads a record. None if it does not exist.
    async fn stored(&self, session: &Session, key: &Key) -> Result<Option<(Stored, i32)>> {
        match session.client.get_data(&self.record_path(key)).await {
            Ok((data, stat)) => match Stored::read(&data) {
                Some(stored) => Ok(Some((stored, stat.version))),
                None => Err(corrupt(key)),
            },
            Err(ZkError::NoNode) => Ok(None),
            Err(error) => Err(self.fault(error)),
        }
    }

    fn folder_of_mutex(&self, key: &Key) -> String {
        self.queue_folder_of(key, Queue::of_mutex(key))
    }

    /// The node with which a claim holds its lock, and the version of its data. None if the claim does not hold the lock.
    async fn holder(&self, session: &Session, holding: &Holding) -> Result<Option<(String, i32)>> {
        let folder = self.folder_of_mutex(&holding.key);
        let children = match session.client.list_children(&folder).await {
            Ok(children) => children,
            Err(ZkError::NoNode) => return Ok(None),
            Err(error) => return Err(self.fault(error)),
        };
        self.held_by(session, &folder, children, holding).await
    }

    async fn held_by(
        &self,
        session: &Session,
        folder: &str,
        mut children: Vec<String>,
        holding: &Holding,
    ) -> Result<Option<(String, i32)>> {
        let queue = Queue::of_mutex(&holding.key);
        nodes::sort(&mut children, queue);
        let Some(first) = children.first() else { return Ok(None) };
        let path = format!("{folder}/{first}");
        let (data, stat) = match session.client.get_data(&path).await {
            Ok(found) => found,
            Err(ZkError::NoNode) => return Ok(None),
            Err(error) => return Err(self.fault(error)),
        };
        let text = NodeText::read(&data).filter(|text| !text.waits);
        let is_holder = match queue {
            // The data name the claim that has created the node. Another claim of the client can lead with it.
            Queue::Latch => match self.table.claim(holding.id) {
                Some(node) => !node.waits && node.path.as_deref() == Some(path.as_str()),
                None => text.is_some_and(|text| text.owner.starts_with(&format!("{}:", holding.id.client))),
            },
            _ => text.is_some_and(|text| text.owner == holding.id.to_string()),
        };
        Ok(is_holder.then_some((path, stat.version)))
    }

    async fn read_all(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let deadline = self.deadline();
        let session = self.session(deadline).await?;
        self.answered(deadline, async {
            let now = session.prove().await.map_err(|error| self.fault(error))?;
            let (mut records, mut folders) = (Vec::with_capacity(keys.len()), HashMap::new());
            let all: Vec<_> = keys.iter().map(Wanted::Record).chain(holdings.iter().map(Wanted::Holding)).collect();
            for chunk in all.chunks(CHUNK) {
                self.read_chunk(&session, chunk, &mut records, &mut folders).await?;
            }
            let held = join_all(holdings.iter().map(async |holding| {
                let folder = self.folder_of_mutex(&holding.key);
                let children = folders.get(&folder).cloned().unwrap_or_default();
                Ok(self.held_by(&session, &folder, children, holding).await?.is_some())
            }));
            Ok(Reading { now, records, held: held.await })
        })
        .await
    }

    /// Reads records, and the folders of locks, in one atomic step.
    async fn read_chunk(
        &self,
        session: &Session,
        chunk: &[Wanted<'_>],
        records: &mut Vec<Result<Option<Record>>>,
        folders: &mut HashMap<String, Vec<String>>,
    ) -> Result<()> {
        let mut request = session.client.new_multi_reader();
        for wanted in chunk {
            match wanted {
                Wanted::Record(key) => request.add_get_data(&self.record_path(key)),
                Wanted::Holding(holding) => request.add_get_children(&self.folder_of_mutex(&holding.key)),
            }
            .map_err(|error| self.fault(error))?;
        }
        let results = request.commit().await.map_err(|error| self.fault(error))?;
        for (wanted, result) in chunk.iter().zip(results) {
            match (wanted, result) {
                (Wanted::Record(key), MultiReadResult::Data { data, .. }) => {
                    let stored = Stored::read(&data).ok_or_else(|| corrupt(key));
                    records.push(stored.map(|stored| Some(record(stored))));
                }
                (Wanted::Record(_), MultiReadResult::Error { err: ZkError::NoNode }) => records.push(Ok(None)),
                (Wanted::Holding(holding), MultiReadResult::Children { children }) => {
                    folders.insert(self.folder_of_mutex(&holding.key), children);
                }
                (Wanted::Holding(_), MultiReadResult::Error { err: ZkError::NoNode }) => {}
                (_, MultiReadResult::Error { err }) => return Err(self.fault(err)),
                _ => return Err(Error::unavailable(format!("{}: an unexpected answer", self.store))),
            }
        }
        Ok(())
    }
}

/// The data that one part of a request reads.
enum Wanted<'a> {
    Record(&'a Key),
    Holding(&'a Holding),
}

/// The record after a swap. None if the swap deletes it.
fn next_of(swap: &Swap, conditions: &Conditions) -> Result<Option<Stored>> {
    let Some(value) = &swap.to else { return Ok(None) };
    let last = match (&conditions.present, conditions.deleted) {
        (Some((stored, _)), _) => Some(stored.version),
        (None, Some((deleted, _))) => deleted,
        (None, None) => None,
    };
    let mut lines = conditions.present.as_ref().map(|(stored, _)| stored.lines.clone()).unwrap_or_default();
    lines.extend(swap.lines.iter().map(|line| (line.slot.clone(), line.value.clone())));
    let next = Stored { version: Version::after(last, conditions.now), value: value.clone(), lines };
    let size = next.bytes().len();
    if size > MAX_BYTES {
        return Err(Error::misused(format!(
            "the record has {size} bytes with its history; at most {MAX_BYTES} are allowed"
        )));
    }
    Ok(Some(next))
}

fn record(stored: Stored) -> Record {
    Record { version: stored.version, value: stored.value }
}

fn corrupt(key: &Key) -> Error {
    Error::new(ErrorKind::Corrupt, "the node of the record was not written by bandog").at(key)
}
