//! The trait [`Inspect`]: it shows locks, and takes a lock from its holder.

use async_trait::async_trait;
use bandog_core::{ClientId, Family, Finding, Holder, Inspect, Key, Kind, Member, Pattern, Result, Row};
use futures_util::future::join_all;
use zookeeper_client::{Error as ZkError, Stat};

use crate::{
    encoding::decode,
    host::{Shared, ZooKeeper},
    nodes::{self, LEASES, NodeText, QUEUE, Word},
    queue::{last_fence, number_of},
    session::Session,
};

/// Maximum number of folders that are read at the same time.
const FOLDERS: usize = 16;
/// Maximum number of nodes of a folder that are read at the same time.
const NODES: usize = 512;

/// A node of a lock's queue.
struct Seen {
    path: String,
    data: Vec<u8>,
    stat: Stat,
}

#[async_trait]
impl Inspect for ZooKeeper {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.0
            .request(async |session| self.0.list_rows(session, pattern).await)
            .await
            .map_err(|error| error.during("list"))
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        let row = self.0.request(async |session| {
            let children = self.0.children(session, key).await?;
            if let Some(semaphore) = self.0.look_at_semaphore(session, key, &children).await? {
                return Ok(semaphore.row(key, session).unwrap_or_else(|| Row::free(key)));
            }
            Ok(self.0.read_queue(session, key, children).await?.row(key, session))
        });
        row.await.map_err(|error| error.during("show").at(key))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        let members = self.0.request(async |session| self.0.registered(session).await);
        members.await.map_err(|error| error.during("members"))
    }

    async fn members_of(&self, clients: &[ClientId]) -> Result<Vec<Member>> {
        let members = self.0.request(async |session| self.0.rows_of(session, clients).await);
        members.await.map_err(|error| error.during("members"))
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        let evicted = self.0.request(async |session| self.0.evict(session, key).await);
        evicted.await.map_err(|error| error.during("evict").at(key))
    }

    async fn forget(&self, key: &Key) -> Result<bool> {
        let folder = self.0.folder(key);
        let forgotten = self.0.request(async |session| {
            let is_unused = self.0.forget_semaphore(session, key).await?;
            let Some(stat) = session.client.check_stat(&folder).await? else { return Ok(true) };
            if !is_unused || stat.num_children > 0 {
                return Ok(false);
            }
            if !was_a_folder_of_nodes(&stat) {
                return Ok(true); // The store keeps nothing for this name: the node belongs to another program.
            }
            match session.client.delete(&folder, Some(stat.version)).await {
                Ok(()) | Err(ZkError::NoNode | ZkError::BadVersion) => Ok(true),
                Err(ZkError::NotEmpty) => Ok(false),
                Err(error) => Err(error),
            }
        });
        forgotten.await.map_err(|error| error.during("forget").at(key))
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.0.findings().await.map_err(|error| error.during("check"))
    }
}

/// The queue of one lock.
struct Queue(Vec<Seen>);

impl Seen {
    /// Whether the node belongs to a client that has not claimed the lock yet.
    fn waits(&self) -> bool {
        NodeText::read(&self.data).is_some_and(|text| text.waits)
    }

    /// The word in the name of the node. None for the node of another library that has none.
    fn word(&self) -> Option<Word> {
        [Word::Write, Word::Read, Word::Lock].into_iter().find(|word| word.is_in(&name_of(&self.path)))
    }

    fn owner(&self) -> String {
        NodeText::read(&self.data).map_or_else(|| name_of(&self.path), |text| text.owner)
    }

    fn holder(&self, session: &Session) -> Holder {
        let word = self.word().unwrap_or(Word::Lock);
        let Some(text) = NodeText::read(&self.data) else {
            let kind = match word {
                Word::Lock | Word::Permits => None,
                Word::Read => Some(Kind::Read),
                Word::Write => Some(Kind::Write),
            };
            return Holder { kind, ..Holder::new(name_of(&self.path)) };
        };
        let holder =
            Holder { kind: Some(text.kind), ttl: Some(text.ttl.min(session.valid_for)), ..Holder::new(text.owner) };
        holder.fenced(last_fence(number_of(word, &self.stat)))
    }
}

impl Queue {
    /// The nodes that hold the lock: the first one, or all readers before the first writer. A node that only waits does not
    /// hold it.
    fn holders(&self) -> impl Iterator<Item = &Seen> {
        let readers = self.0.iter().take_while(|seen| seen.word() == Some(Word::Read)).count();
        self.0[..readers.max(1).min(self.0.len())].iter().filter(|seen| !seen.waits())
    }

    fn row(&self, key: &Key, session: &Session) -> Row {
        let holders: Vec<_> = self.holders().map(|seen| seen.holder(session)).collect();
        let held: Vec<_> = self.holders().map(|seen| &seen.path).collect();
        let queue = self.0.iter().filter(|seen| !held.contains(&&seen.path)).map(Seen::owner).collect();
        Row { kind: holders.first().and_then(|holder| holder.kind), holders, queue, ..Row::free(key) }
    }
}

/// Whether this can be the folder of a lock without nodes: it has no data, and has had children.
pub(crate) fn was_a_folder_of_nodes(stat: &Stat) -> bool {
    stat.data_length == 0 && stat.ephemeral_owner == 0 && stat.cversion > 0
}

fn name_of(path: &str) -> String {
    path.rsplit_once('/').map_or(path, |(_, name)| name).to_owned()
}

impl Shared {
    /// Runs a request.
    pub(crate) async fn request<T>(&self, request: impl AsyncFnOnce(&Session) -> Result<T, ZkError>) -> Result<T> {
        let deadline = self.deadline();
        let session = self.session(deadline).await?;
        self.answered(deadline, async { request(&session).await.map_err(|error| self.fault(error)) }).await
    }

    async fn list_rows(&self, session: &Session, pattern: &Pattern) -> Result<Vec<Row>, ZkError> {
        let root = if self.options.chroot.is_empty() { "/" } else { &self.options.chroot };
        let folders = match session.client.list_children(root).await {
            Ok(folders) => folders,
            Err(ZkError::NoNode) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let names = folders.iter().filter_map(|folder| decode(folder)).filter(|name| pattern.matches(name));
        let mut keys: Vec<Key> = names.filter_map(|name| Key::new(name).ok()).collect();
        keys.sort();
        let mut rows = Vec::new();
        for some in keys.chunks(FOLDERS) {
            for row in join_all(some.iter().map(async |key| self.listed_row(session, key).await)).await {
                rows.extend(row?);
            }
        }
        Ok(rows)
    }

    /// The row of a lock that is held. None for a folder of another program: it has no nodes of locks, and their data are
    /// not read.
    async fn listed_row(&self, session: &Session, key: &Key) -> Result<Option<Row>, ZkError> {
        let children = self.children(session, key).await?;
        if let Some(semaphore) = self.look_at_semaphore(session, key, &children).await? {
            return Ok(semaphore.row(key, session));
        }
        if !children.iter().any(|child| nodes::is_of_a_lock(child)) {
            return Ok(None);
        }
        let row = self.read_queue(session, key, children).await?.row(key, session);
        Ok(Some(row).filter(Row::is_held))
    }

    /// The names of the nodes of a lock. Empty if the folder does not exist.
    async fn children(&self, session: &Session, key: &Key) -> Result<Vec<String>, ZkError> {
        match session.client.list_children(&self.folder(key)).await {
            Ok(children) => Ok(children),
            Err(ZkError::NoNode) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Reads the queue of a lock. Nodes that are deleted meanwhile are left out.
    async fn read_queue(&self, session: &Session, key: &Key, mut children: Vec<String>) -> Result<Queue, ZkError> {
        let folder = self.folder(key);
        // The folders of a semaphore that has used the name before.
        children.retain(|child| ![LEASES, QUEUE].contains(&child.as_str()));
        let family = nodes::family(&children).unwrap_or(Family::Mutex);
        nodes::sort(&mut children, family);
        let read = async |child: &String| {
            let path = format!("{folder}/{child}");
            match session.client.get_data(&path).await {
                Ok((data, stat)) => Ok(Some(Seen { path, data, stat })),
                // The node of another user. It has its place all the same.
                Err(ZkError::NoAuth) => {
                    let stat = session.client.check_stat(&path).await?;
                    Ok(stat.map(|stat| Seen { path, data: Vec::new(), stat }))
                }
                Err(ZkError::NoNode) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let mut queue = Vec::with_capacity(children.len());
        for some in children.chunks(NODES) {
            for seen in join_all(some.iter().map(read)).await {
                queue.extend(seen?);
            }
        }
        Ok(Queue(queue))
    }

    /// Deletes the nodes that hold the lock, if they belong to clients.
    async fn evict(&self, session: &Session, key: &Key) -> Result<Option<Row>, ZkError> {
        loop {
            let children = self.children(session, key).await?;
            if let Some(semaphore) = self.look_at_semaphore(session, key, &children).await? {
                let Some(row) = semaphore.row(key, session) else { return Ok(None) };
                if self.evict_permits(session, &semaphore).await? {
                    return Ok(Some(row));
                }
                continue;
            }
            let queue = self.read_queue(session, key, children).await?;
            let mut evicted = 0;
            for holder in queue.holders() {
                if holder.stat.ephemeral_owner == 0 {
                    return Err(ZkError::NoAuth); // No client holds the lock: a node that does not expire blocks it.
                }
                match session.client.delete(&holder.path, Some(holder.stat.version)).await {
                    Ok(()) => evicted += 1,
                    Err(ZkError::NoNode | ZkError::BadVersion) => {} // The lock has another holder now.
                    Err(error) => return Err(error),
                }
            }
            match queue.holders().count() {
                0 => return Ok(None),
                _ if evicted > 0 => return Ok(Some(queue.row(key, session))),
                _ => {}
            }
        }
    }
}
