//! The trait [`Inspect`]: it shows locks, and takes a lock from its holder.

use std::time::Duration;

use async_trait::async_trait;
use bandog_core::{
    ClientId, Error, ErrorKind, Family, Finding, Holder, IfUnused, Inspect, Key, Kind, Member, NamesPage, Pattern,
    Result, Row, Usage,
};
use futures_util::future::join_all;
use zookeeper_client::{Error as ZkError, Stat};

use crate::{
    encoding::{decode, election_of, mutex_of},
    host::{Shared, ZooKeeper},
    nodes::{self, LEASES, NodeText, QUEUE, Queue, Word},
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
            if let Some(semaphore) = self.0.inspect_semaphore(session, key, &children.names).await? {
                return Ok(semaphore.row(key, session).unwrap_or_else(|| Row::free(key)));
            }
            Ok(self.0.read_queue(session, children).await?.row(key, session))
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
        evicted.await.flatten().map_err(|error| error.during("evict").at(key))
    }

    async fn forget(&self, key: &Key) -> Result<bool> {
        let forgotten = self.0.request(async |session| {
            let is_election = election_of(key.as_str()).is_some();
            let is_unused = is_election || self.0.forget_semaphore(session, key).await?;
            let folder = self.0.queue_folder_of(key, Queue::of_mutex(key));
            let Some(stat) = session.client.check_stat(&folder).await? else { return Ok(true) };
            if !is_unused {
                return Ok(false);
            }
            if stat.num_children > 0 {
                // The folder stays. An election and another lock may share it.
                let names = self.0.names_in(session, &folder).await?;
                let of_queue = if is_election { Children::of_election } else { Children::of_lock };
                return Ok(of_queue(folder, names).names.is_empty());
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

    async fn names_page(&self, pattern: &Pattern, _: Duration, _: Option<&str>) -> Result<NamesPage> {
        self.0.check_has_own_folder().map_err(|error| error.during("forget"))?;
        let read = async |session: &Session| self.0.folder_names(session, pattern).await;
        self.0.request(read).await.map_err(|error| error.during("forget"))
    }

    async fn usage(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        self.0.check_has_own_folder().map_err(|error| error.during("forget"))?;
        let check = async |session: &Session| self.0.usage_of(session, keys, unused_for, then).await;
        self.0.request(check).await.map_err(|error| error.during("forget"))
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.0.findings().await.map_err(|error| error.during("check"))
    }
}

/// The names of a lock's nodes.
struct Children {
    folder: String,
    names: Vec<String>,
    /// The queue, if it is known without the names.
    queue: Option<Queue>,
}

/// The nodes of a lock, in the order of its queue.
struct Queued(Vec<Seen>);

impl Children {
    /// The nodes of an election. Its folder can have the nodes of another lock, too.
    fn of_election(folder: String, mut names: Vec<String>) -> Self {
        names.retain(|name| !nodes::is_of_a_lock(name) && ![LEASES, QUEUE].contains(&name.as_str()));
        Self { folder, names, queue: Some(Queue::Latch) }
    }

    /// The nodes of a lock that is not an election.
    fn of_lock(folder: String, mut names: Vec<String>) -> Self {
        names.retain(|name| !nodes::is_of_an_election(name));
        Self { folder, names, queue: None }
    }

    /// Whether there is a node whose name is that of a lock's node. Folders of other programs have none.
    fn has_nodes_of_locks(&self) -> bool {
        let is_of_a_lock = match self.queue {
            Some(Queue::Latch) => nodes::is_of_an_election,
            _ => nodes::is_of_a_lock,
        };
        self.names.iter().any(|name| is_of_a_lock(name))
    }
}

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
                Word::Lock | Word::Latch | Word::Permits => None,
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

impl Queued {
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
        let names = folders.iter().filter_map(|folder| decode(folder));
        let names = names.filter(|name| pattern.matches(name) || pattern.matches(&mutex_of(name)));
        let keys: Vec<Key> = names.filter_map(|name| Key::new(name).ok()).collect();
        let mut rows = Vec::new();
        for some in keys.chunks(FOLDERS) {
            for listed in join_all(some.iter().map(async |key| self.listed_rows(session, key).await)).await {
                rows.extend(listed?.into_iter().filter(|row| pattern.matches(&row.name)));
            }
        }
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(rows)
    }

    /// The rows of the locks in a folder that are held: of an election, and of another lock. `key` is that of the other lock.
    async fn listed_rows(&self, session: &Session, key: &Key) -> Result<Vec<Row>, ZkError> {
        let folder = self.folder(key);
        let names = self.names_in(session, &folder).await?;
        let mut rows = Vec::new();
        if let Ok(election) = Key::new(mutex_of(key.as_str())) {
            let children = Children::of_election(folder.clone(), names.clone());
            rows.extend(self.listed_row(session, &election, children).await?);
        }
        rows.extend(self.listed_row(session, key, Children::of_lock(folder, names)).await?);
        Ok(rows)
    }

    /// The row of a lock that is held. None for a folder of another program: it has no nodes of locks, and their data are
    /// not read.
    async fn listed_row(&self, session: &Session, key: &Key, children: Children) -> Result<Option<Row>, ZkError> {
        if let Some(semaphore) = self.inspect_semaphore(session, key, &children.names).await? {
            return Ok(semaphore.row(key, session));
        }
        if !children.has_nodes_of_locks() {
            return Ok(None);
        }
        let row = self.read_queue(session, children).await?.row(key, session);
        Ok(Some(row).filter(Row::is_held))
    }

    /// The names of the nodes of a lock. Empty if the folder does not exist.
    async fn children(&self, session: &Session, key: &Key) -> Result<Children, ZkError> {
        if election_of(key.as_str()).is_some() {
            let folder = self.queue_folder_of(key, Queue::Latch);
            let names = self.names_in(session, &folder).await?;
            let candidates = Children::of_election(folder, names);
            if candidates.has_nodes_of_locks() {
                return Ok(candidates);
            }
        }
        // A read-write lock and a semaphore can have such a key, too.
        let folder = self.folder(key);
        let names = self.names_in(session, &folder).await?;
        Ok(Children::of_lock(folder, names))
    }

    /// The names of the nodes in a folder.
    pub(crate) async fn names_in(&self, session: &Session, folder: &str) -> Result<Vec<String>, ZkError> {
        match session.client.list_children(folder).await {
            Ok(names) => Ok(names),
            Err(ZkError::NoNode) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Reads the queue of a lock. Nodes that are deleted meanwhile are left out.
    async fn read_queue(&self, session: &Session, children: Children) -> Result<Queued, ZkError> {
        let Children { folder, names: mut children, queue } = children;
        // The folders of a semaphore that has used the name before.
        children.retain(|child| ![LEASES, QUEUE].contains(&child.as_str()));
        let queue = queue.unwrap_or_else(|| match nodes::family(&children) {
            Some(Family::ReadWrite) => Queue::ReadWrite,
            Some(Family::Mutex | Family::Semaphore) | None => Queue::Lock,
        });
        nodes::sort(&mut children, queue);
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
        Ok(Queued(queue))
    }

    /// Deletes the nodes that hold the lock, if they belong to clients.
    async fn evict(&self, session: &Session, key: &Key) -> Result<Result<Option<Row>>, ZkError> {
        loop {
            let children = self.children(session, key).await?;
            if let Some(semaphore) = self.inspect_semaphore(session, key, &children.names).await? {
                let Some(row) = semaphore.row(key, session) else { return Ok(Ok(None)) };
                match self.evict_permits(session, &semaphore).await? {
                    Ok(true) => return Ok(Ok(Some(row))),
                    Ok(false) => continue,
                    Err(error) => return Ok(Err(error)),
                }
            }
            let queue = self.read_queue(session, children).await?;
            let mut evicted = 0;
            for holder in queue.holders() {
                if holder.stat.ephemeral_owner == 0 {
                    return Ok(Err(self.is_of_no_client(&holder.path)));
                }
                match session.client.delete(&holder.path, Some(holder.stat.version)).await {
                    Ok(()) => evicted += 1,
                    Err(ZkError::NoNode | ZkError::BadVersion) => {} // The lock has another holder now.
                    Err(error) => return Err(error),
                }
            }
            match queue.holders().count() {
                0 => return Ok(Ok(None)),
                _ if evicted > 0 => return Ok(Ok(Some(queue.row(key, session)))),
                _ => {}
            }
        }
    }

    /// The error if a node that does not expire blocks a lock. It is not deleted, because no client holds the lock with it.
    pub(crate) fn is_of_no_client(&self, path: &str) -> Error {
        let message = format!(
            "{}: the node {path} is not ephemeral, so it belongs to no client that holds the lock; if no program needs it, \
             delete it with the tools of ZooKeeper",
            self.store
        );
        Error::new(ErrorKind::Denied, message)
    }
}
