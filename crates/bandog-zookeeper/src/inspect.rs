//! The trait [`Inspect`]: it shows locks, and takes a lock from its holder.

use async_trait::async_trait;
use bandog_core::{ClientId, Fence, Finding, Holder, Inspect, Key, Member, Pattern, Result, Row};
use futures_util::future::join_all;
use zookeeper_client::{Error as ZkError, Stat};

use crate::{
    encoding::decode,
    host::{Shared, ZooKeeper},
    nodes::{self, NodeText},
    session::Session,
};

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
        let row = self.0.request(async |session| Ok(self.0.look(session, key).await?.row(key, session)));
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
        let forgotten = self.0.request(async |session| match session.client.delete(&folder, None).await {
            Ok(()) | Err(ZkError::NoNode) => Ok(true),
            Err(ZkError::NotEmpty) => Ok(false),
            Err(error) => Err(error),
        });
        forgotten.await.map_err(|error| error.during("forget").at(key))
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.0.findings().await.map_err(|error| error.during("check"))
    }
}

/// The queue of one lock.
struct Queue(Vec<Seen>);

impl Queue {
    /// The first node, unless it belongs to a client that has not claimed the lock yet.
    fn holder(&self) -> Option<&Seen> {
        self.0.first().filter(|seen| NodeText::read(&seen.data).is_none_or(|text| !text.waits))
    }

    fn row(&self, key: &Key, session: &Session) -> Row {
        let owner = |seen: &Seen| NodeText::read(&seen.data).map_or_else(|| name_of(&seen.path), |text| text.owner);
        let Some(first) = self.holder() else {
            return Row { queue: self.0.iter().map(owner).collect(), ..Row::free(key) };
        };
        let text = NodeText::read(&first.data);
        let fence = u64::try_from(first.stat.czxid).ok().map(Fence::new);
        let holder = match &text {
            Some(text) => Holder {
                owner: Some(text.owner.clone()),
                kind: Some(text.kind),
                fence,
                last_fence: fence,
                ttl: Some(text.ttl.min(session.valid_for)),
                member: None,
            },
            None => Holder::new(name_of(&first.path)),
        };
        let queue = self.0[1..].iter().map(owner).collect();
        Row { queue, ..Row::held(key, text.map(|text| text.kind), holder) }
    }
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
        let rows = keys.iter().map(async |key| Ok(self.look(session, key).await?.row(key, session)));
        let rows: Result<Vec<Row>, ZkError> = join_all(rows).await.into_iter().collect();
        Ok(rows?.into_iter().filter(Row::is_held).collect())
    }

    /// Reads the queue of a lock. Nodes that are deleted meanwhile are left out.
    async fn look(&self, session: &Session, key: &Key) -> Result<Queue, ZkError> {
        let folder = self.folder(key);
        let mut children = match session.client.list_children(&folder).await {
            Ok(children) => children,
            Err(ZkError::NoNode) => return Ok(Queue(Vec::new())),
            Err(error) => return Err(error),
        };
        nodes::sort(&mut children);
        let read = children.into_iter().map(async |child| {
            let path = format!("{folder}/{child}");
            match session.client.get_data(&path).await {
                Ok((data, stat)) => Ok(Some(Seen { path, data, stat })),
                Err(ZkError::NoNode) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let seen: Result<Vec<_>, ZkError> = join_all(read).await.into_iter().collect();
        Ok(Queue(seen?.into_iter().flatten().collect()))
    }

    /// Deletes the first node, if it belongs to a client.
    async fn evict(&self, session: &Session, key: &Key) -> Result<Option<Row>, ZkError> {
        loop {
            let queue = self.look(session, key).await?;
            let Some(first) = queue.holder() else { return Ok(None) };
            if first.stat.ephemeral_owner == 0 {
                return Err(ZkError::NoAuth); // No client holds the lock: a node that does not expire blocks it.
            }
            match session.client.delete(&first.path, Some(first.stat.version)).await {
                Ok(()) => return Ok(Some(queue.row(key, session))),
                Err(ZkError::NoNode | ZkError::BadVersion) => {} // The lock has another holder now.
                Err(error) => return Err(error),
            }
        }
    }
}
