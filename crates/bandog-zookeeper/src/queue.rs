//! The folder of a lock: nodes are created, listed and deleted.

use bandog_core::{Key, Result};
use tokio::time::Instant;
use zookeeper_client::{Acls, CreateMode, Error as ZkError};

use crate::{
    encoding::encode,
    fault,
    host::Shared,
    nodes::{self, NodeText},
    session::Session,
    table::Node,
};

/// Maximum number of attempts to create a node in a folder that others delete.
const ATTEMPTS: usize = 8;

/// The position of a node in the queue of its lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The node holds the lock.
    First,
    /// The node directly before it has this path.
    Behind(String),
    /// The node does not exist.
    Missing,
    /// The number of the node is too great for a place in the queue. See [`nodes::has_place`].
    NoNumber,
}

impl Shared {
    /// The path of a lock's folder.
    pub(crate) fn folder(&self, key: &Key) -> String {
        format!("{}/{}", self.options.chroot, encode(key.as_str()))
    }

    /// The error of a request.
    pub(crate) fn fault(&self, error: ZkError) -> bandog_core::Error {
        fault::of_request(&self.store, error)
    }

    /// A node that does not exist yet. The table must have it before its creation is sent.
    pub(crate) fn new_node(&self, session: &Session, key: &Key) -> Node {
        Node {
            key: key.clone(),
            protection: nodes::protection(),
            path: None,
            created_by: 0,
            session: session.number,
            until: Instant::now() + self.options.timeout * 4,
            is_watched: false,
        }
    }

    /// Creates a node at the end of the queue, and lists the queue. Both requests are sent at once. `before_list` is a
    /// node whose deletion is sent between the two: its claim passes the lock on.
    pub(crate) async fn enqueue(
        &self,
        session: &Session,
        node: &mut Node,
        data: &NodeText,
        before_list: Option<&str>,
    ) -> Result<Enqueued, ZkError> {
        let folder = self.folder(&node.key);
        let prefix = nodes::path_prefix(&folder, &node.protection);
        let data = data.bytes();
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let mut attempts = 0;
        loop {
            attempts += 1;
            let creation = session.client.create(&prefix, &data, &options);
            let deletion = before_list.map(|path| session.client.delete(path, None));
            let list = session.client.list_children(&folder);
            let created = creation.await;
            let deleted = match deletion {
                Some(deletion) => Some(deletion.await),
                None => None,
            };
            match created {
                Ok((stat, sequence)) => {
                    let path = format!("{prefix}{sequence}");
                    node.created_by = u64::try_from(stat.czxid).unwrap_or_default();
                    node.path = Some(path.clone());
                    return Ok(Enqueued { deleted, position: list.await.map(|all| position(&folder, &path, all)) });
                }
                Err(ZkError::NoNode) if attempts < ATTEMPTS => session.make_folder(&folder).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// The error of [`Position::NoNumber`].
    pub(crate) fn no_number(&self) -> bandog_core::Error {
        bandog_core::Error::unavailable(format!(
            "{}: the numbers of the nodes in the lock's folder are used up; delete the folder when it is empty",
            self.store
        ))
    }

    /// The position of a node whose path is known.
    pub(crate) async fn position_of(&self, session: &Session, key: &Key, path: &str) -> Result<Position, ZkError> {
        let folder = self.folder(key);
        match session.client.list_children(&folder).await {
            Ok(all) => Ok(position(&folder, path, all)),
            Err(ZkError::NoNode) => Ok(Position::Missing),
            Err(error) => Err(error),
        }
    }

    /// Searches a node whose creation had no answer. None if it does not exist.
    ///
    /// The server is first brought up to date, because after a reconnection it can be behind the server that created the
    /// node.
    pub(crate) async fn find(&self, session: &Session, node: &Node) -> Result<Option<(String, u64)>, ZkError> {
        let folder = self.folder(&node.key);
        let up_to_date = session.client.sync(&folder);
        let list = session.client.list_children(&folder);
        match up_to_date.await {
            Ok(()) | Err(ZkError::NoNode) => {}
            Err(error) => return Err(error),
        }
        let children = match list.await {
            Ok(children) => children,
            Err(ZkError::NoNode) => return Ok(None),
            Err(error) => return Err(error),
        };
        for child in children.iter().filter(|child| child.starts_with(&node.protection)) {
            let path = format!("{folder}/{child}");
            if let Some(stat) = session.client.check_stat(&path).await? {
                return Ok(Some((path, u64::try_from(stat.czxid).unwrap_or_default())));
            }
        }
        Ok(None)
    }

    /// Deletes a node of this backend. Returns false if it did not exist.
    pub(crate) async fn delete(&self, session: &Session, node: &Node) -> Result<bool, ZkError> {
        let path = match &node.path {
            Some(path) => path.clone(),
            None => match self.find(session, node).await? {
                Some((path, _)) => path,
                None => return Ok(false),
            },
        };
        match session.client.delete(&path, None).await {
            Ok(()) => Ok(true),
            Err(error) if fault::is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The result of [`Shared::enqueue`].
pub(crate) struct Enqueued {
    /// The answer to the deletion, if there was one.
    pub(crate) deleted: Option<Result<(), ZkError>>,
    pub(crate) position: Result<Position, ZkError>,
}

fn position(folder: &str, path: &str, mut children: Vec<String>) -> Position {
    nodes::sort(&mut children);
    let own = path.rsplit_once('/').map_or(path, |(_, own)| own);
    match children.iter().position(|child| child == own) {
        None => Position::Missing,
        Some(_) if !nodes::has_place(own) => Position::NoNumber,
        Some(0) => Position::First,
        Some(at) => Position::Behind(format!("{folder}/{}", children[at - 1])),
    }
}
