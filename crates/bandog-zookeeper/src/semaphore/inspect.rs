//! Semaphores as operators see them.

use std::num::NonZeroU32;

use bandog_core::{Holder, Key, Kind, Result, Row};
use futures_util::future::join_all;
use zookeeper_client::{Error as ZkError, Stat};

use crate::{
    host::Shared,
    inspect::was_a_folder_of_nodes,
    nodes::{self, LEASES, NodeText, QUEUE},
    queue::last_fence,
    session::Session,
};

/// Maximum number of nodes that are read at the same time.
const NODES: usize = 512;

/// A semaphore: its permits, its queue and its limit.
pub(crate) struct Semaphore {
    permits: Vec<Seen>,
    queue: Vec<Seen>,
    limit: Option<u32>,
}

/// A node of a semaphore.
struct Seen {
    name: String,
    path: String,
    text: Option<NodeText>,
    stat: Stat,
}

impl Seen {
    /// The claim of ours, or the name of the node of another library.
    fn owner(&self) -> &str {
        self.text.as_ref().map_or(&self.name, |text| &text.owner)
    }
}

impl Semaphore {
    /// The permits that are held. The first waiter of Curator has the node of a permit, too, while it waits.
    fn held(&self) -> &[Seen] {
        let limit = self.limit.map_or(usize::MAX, |limit| limit as usize);
        let waits = self.permits.len() > limit
            && self.permits.last().is_some_and(|last| last.text.is_none())
            && self.queue.first().is_some_and(|first| first.text.is_none());
        &self.permits[..self.permits.len() - usize::from(waits)]
    }

    /// The row. None if no permit is held.
    pub(crate) fn row(&self, key: &Key, session: &Session) -> Option<Row> {
        let held = self.held();
        let mut holders: Vec<Holder> = Vec::new();
        for seen in held {
            if holders.last().is_some_and(|holder| holder.owner.as_deref() == Some(seen.owner())) {
                continue; // A further permit of the same claim.
            }
            let take = held.iter().filter(|other| other.owner() == seen.owner()).count();
            let take = u32::try_from(take).ok().and_then(NonZeroU32::new)?;
            let of = self.limit.and_then(NonZeroU32::new).unwrap_or(take).max(take);
            let holder = Holder {
                kind: Some(Kind::Permits { take, of }),
                ttl: seen.text.as_ref().map(|text| text.ttl.min(session.valid_for)),
                ..Holder::new(seen.owner())
            };
            let number = seen.text.as_ref().and_then(|_| u64::try_from(seen.stat.czxid).ok());
            holders.push(match number {
                Some(number) => holder.fenced(last_fence(number)),
                None => holder,
            });
        }
        let kind = holders.first()?.kind;
        // A node that does not wait belongs to a claim that is just being served.
        let waiting = self.queue.iter().filter(|seen| seen.text.as_ref().is_none_or(|text| text.waits));
        let queue = waiting.map(|seen| seen.owner().to_owned()).collect();
        Some(Row { kind, holders, queue, ..Row::free(key) })
    }
}

impl Shared {
    /// Reads a semaphore. None if the lock with these nodes is not a semaphore.
    pub(crate) async fn inspect_semaphore(
        &self,
        session: &Session,
        key: &Key,
        children: &[String],
    ) -> Result<Option<Semaphore>, ZkError> {
        if nodes::family(children).is_some() || !children.iter().any(|child| child == LEASES) {
            return Ok(None);
        }
        let folder = self.folder(key);
        let (leases, queue) = (format!("{folder}/{LEASES}"), format!("{folder}/{QUEUE}"));
        let limit = async {
            match session.client.get_data(&self.limit_path(key)).await {
                Ok((data, _)) => Ok(data.try_into().ok().map(u32::from_be_bytes)),
                Err(ZkError::NoNode) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let (permits, queue, limit) =
            futures_util::join!(self.read_nodes(session, &leases), self.read_nodes(session, &queue), limit);
        let (mut permits, mut queue) = (permits?, queue?);
        permits.retain(|seen| seen.text.is_some() || nodes::is_a_lease(&seen.name) || seen.stat.ephemeral_owner != 0);
        permits.sort_by(|a, b| nodes::lease_order(&a.name).cmp(nodes::lease_order(&b.name)));
        queue.sort_by(|a, b| nodes::queue_order(&a.name).cmp(nodes::queue_order(&b.name)));
        Ok(Some(Semaphore { permits, queue, limit: limit? }))
    }

    async fn read_nodes(&self, session: &Session, folder: &str) -> Result<Vec<Seen>, ZkError> {
        let children = match session.client.list_children(folder).await {
            Ok(children) => children,
            Err(ZkError::NoNode) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::with_capacity(children.len());
        for some in children.chunks(NODES) {
            let read = some.iter().map(async |name| {
                let path = format!("{folder}/{name}");
                match session.client.get_data(&path).await {
                    Ok((data, stat)) => Ok(Some(Seen { name: name.clone(), path, text: NodeText::read(&data), stat })),
                    // The node of another user.
                    Err(ZkError::NoAuth) => {
                        let stat = session.client.check_stat(&path).await?;
                        Ok(stat.map(|stat| Seen { name: name.clone(), path, text: None, stat }))
                    }
                    Err(ZkError::NoNode) => Ok(None),
                    Err(error) => Err(error),
                }
            });
            for seen in join_all(read).await {
                all.extend(seen?);
            }
        }
        Ok(all)
    }

    /// Deletes the permits that are held, if they belong to clients. Returns false if none of them existed any more.
    pub(crate) async fn evict_permits(
        &self,
        session: &Session,
        semaphore: &Semaphore,
    ) -> Result<Result<bool>, ZkError> {
        let held = semaphore.held();
        if let Some(stays) = held.iter().find(|seen| seen.stat.ephemeral_owner == 0) {
            return Ok(Err(self.is_of_no_client(&stays.path)));
        }
        let paths: Vec<_> = held.iter().map(|seen| seen.path.clone()).collect();
        let mut existed = false;
        for some in paths.chunks(NODES) {
            existed |= self.delete_all(session, some).await?;
        }
        Ok(Ok(existed))
    }

    /// Deletes the folders and the limit of a semaphore. Returns false if it is in use.
    pub(crate) async fn forget_semaphore(&self, session: &Session, key: &Key) -> Result<bool, ZkError> {
        let folder = self.folder(key);
        for inner in [LEASES, QUEUE] {
            let path = format!("{folder}/{inner}");
            let Some(stat) = session.client.check_stat(&path).await? else { continue };
            if stat.num_children > 0 {
                return Ok(false);
            }
            if !was_a_folder_of_nodes(&stat) {
                continue; // The node of another program.
            }
            match session.client.delete(&path, Some(stat.version)).await {
                Ok(()) | Err(ZkError::NoNode | ZkError::BadVersion) => {}
                Err(ZkError::NotEmpty) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.delete_limit(session, key).await?;
        Ok(true)
    }
}
