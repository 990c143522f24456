//! The folder of a lock: nodes are created, listed and deleted.

use std::{collections::HashSet, num::NonZeroU32};

use bandog_core::{Error, Family, Fence, Fences, Key, MAX_BLOCK, Result};
use tokio::time::Instant;
use zookeeper_client::{CreateMode, Error as ZkError, Stat};

use crate::{
    batches::{Creation, Folder},
    encoding::{election_of, encode},
    fault,
    host::Shared,
    nodes::{self, LEASES, NodeText, QUEUE, Queue, Word},
    session::Session,
    table::{Line, Node, Permits},
};

/// Maximum number of attempts to create a node in a folder that others delete.
const ATTEMPTS: usize = 8;

/// The position of a node in the queue of its lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The node holds the lock.
    First,
    Behind(Ahead),
    /// The node does not exist.
    Missing,
    /// The number of the node is too great for a place in the queue. See [`nodes::has_place`].
    NoNumber,
    /// Locks of this family use the folder. The path is that of the node that shows it.
    Taken(Family, String),
}

/// The nodes before a node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) awaited: Awaited,
    /// The path of the first node.
    pub(crate) first: String,
    /// The number of nodes before it.
    pub(crate) count: usize,
}

/// The event for which a node waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The deletion of the node with this path: of the node directly before it, or for a reader of the first writer.
    Deletion(String),
    /// Permits. The node is the first one in the queue of a semaphore.
    Permits,
}

impl Shared {
    /// The path of the folder of a lock that is not an election.
    pub(crate) fn folder(&self, key: &Key) -> String {
        format!("{}/{}", self.options.chroot, encode(key.as_str()))
    }

    /// The path of the folder that has the queue of a line.
    pub(crate) fn queue_folder(&self, line: &Line) -> String {
        self.queue_folder_of(&line.key, line.word.queue())
    }

    /// The path of the folder that has this queue of a lock.
    pub(crate) fn queue_folder_of(&self, key: &Key, queue: Queue) -> String {
        match queue {
            Queue::Lock | Queue::ReadWrite => self.folder(key),
            Queue::Latch => {
                let name = election_of(key.as_str()).unwrap_or(key.as_str());
                format!("{}/{}", self.options.chroot, encode(name))
            }
            Queue::Permits => format!("{}/{QUEUE}", self.folder(key)),
        }
    }

    /// The error of a request.
    pub(crate) fn fault(&self, error: ZkError) -> bandog_core::Error {
        fault::of_request(&self.store, error)
    }

    /// A node that does not exist yet. The table must have it before its creation is sent.
    pub(crate) fn new_node(&self, session: &Session, line: Line) -> Node {
        Node {
            line,
            protection: nodes::protection(),
            path: None,
            permits: Permits::None,
            created: None,
            transaction: None,
            joins: false,
            waits: false,
            is_unmarked: false,
            session: session.number,
            until: self.unsure_until(),
            is_watched: false,
            is_seen: false,
            listed: None,
        }
    }

    /// Creates a node at the end of the queue, and lists the queue. `then_delete` is a node that is deleted after the
    /// creation: its claim passes the lock on.
    ///
    /// The nodes of claims with places of their own have the order of the calls of this function. So their requests are
    /// sent at once, and the first of them also sends the creation of the folder. If the folder is missing nevertheless, and
    /// there are several such claims, the claim fails, because its next node may be behind those of later claims.
    pub(crate) async fn enqueue(
        &self,
        session: &Session,
        node: &mut Node,
        data: &NodeText,
        then_delete: Option<&str>,
    ) -> Result<Enqueued, ZkError> {
        let (folder, word) = (self.queue_folder(&node.line), node.line.word);
        let prefix = nodes::path_prefix(&folder, &node.protection, word);
        let creation = Creation { folder, prefix, data: data.bytes(), then_delete: then_delete.map(str::to_owned) };
        let mut attempts = 0;
        let created = loop {
            attempts += 1;
            let is_new = self.folders.is_new(&node.line.key);
            if node.line.has_one_claim() && is_new {
                // The creation of the node has the answer that counts.
                let options = CreateMode::Container.with_acls(self.options.acl.acls());
                drop(session.client.create(&creation.folder, b"", &options));
            }
            // A missing folder would refuse the transaction of a whole batch.
            let is_alone = node.line.has_one_claim() || is_new;
            let began = Instant::now();
            let created = if is_alone {
                session.batches.create_alone(&creation).await
            } else {
                session.batches.create(creation.clone()).await
            };
            match created {
                Ok(created) => {
                    session.has_written(began);
                    break created;
                }
                Err(ZkError::NoNode) if attempts < ATTEMPTS => {
                    session.make_folder(&creation.folder).await?;
                    // No claim of this client is behind this one if there is no other one. The next creation is sent without
                    // a pause, so it stays so.
                    if node.line.has_one_claim() && node.joins && self.table.has_others_beside(&node.line) {
                        return Err(ZkError::NoNode);
                    }
                }
                Err(error) => {
                    // The next creation is sent alone. A name that always fails would refuse each transaction it is in.
                    self.folders.forget(&node.line.key);
                    return Err(error);
                }
            }
        };
        let transaction = u64::try_from(created.transaction).unwrap_or_default();
        (node.path, node.created) = (Some(created.path.clone()), Some(transaction));
        let listed = match created.listed {
            Ok(Folder { children, last_change }) => {
                let is_next = matches!(word, Word::Lock | Word::Latch) || last_change == created.transaction;
                let transaction = is_next.then_some(transaction);
                let listing = self.listing(session, &creation.folder, word.queue(), children).await;
                listing.map(|listing| (listing.position(&created.path, word), transaction))
            }
            Err(error) => Err(error),
        };
        Ok(Enqueued { deleted: created.deleted, listed })
    }

    /// The error of a position that a node cannot keep. None for the other positions.
    pub(crate) fn refusal(&self, position: &Position, word: Word) -> Option<Error> {
        match position {
            Position::First | Position::Behind(_) | Position::Missing => None,
            Position::NoNumber => Some(Error::unavailable(format!(
                "{}: the numbers of the nodes in the lock's folder are used up; delete the folder when it is empty",
                self.store
            ))),
            Position::Taken(held, _) => Some(fault::in_use(*held, word.family())),
        }
    }

    /// The position of a node whose path is known.
    pub(crate) async fn position_of(&self, session: &Session, line: &Line, path: &str) -> Result<Position, ZkError> {
        let folder = self.queue_folder(line);
        Ok(match session.client.list_children(&folder).await {
            Ok(all) => self.listing(session, &folder, line.word.queue(), all).await?.position(path, line.word),
            Err(ZkError::NoNode) => Position::Missing,
            Err(error) => return Err(error),
        })
    }

    /// The nodes in the folder of a lock. A folder that does not exist has none.
    pub(crate) async fn list(&self, session: &Session, key: &Key, queue: Queue) -> Result<Listing, ZkError> {
        let folder = self.queue_folder_of(key, queue);
        let all = match session.client.list_children(&folder).await {
            Ok(all) => all,
            Err(ZkError::NoNode) => Vec::new(),
            Err(error) => return Err(error),
        };
        self.listing(session, &folder, queue, all).await
    }

    /// Sorts the children of a folder. If the folder has permits that are taken, it belongs to a semaphore.
    async fn listing(
        &self,
        session: &Session,
        folder: &str,
        queue: Queue,
        all: Vec<String>,
    ) -> Result<Listing, ZkError> {
        let has_permits = queue.is_alone() && all.iter().any(|child| child == LEASES);
        let mut listing = Listing::of(folder, queue, all);
        if has_permits && let Some(permit) = self.any_permit(session, folder).await? {
            listing.used_by = Some((Family::Semaphore, permit));
        }
        Ok(listing)
    }

    /// Searches a node whose creation had no answer. None if it does not exist.
    ///
    /// The server is first brought up to date, because after a reconnection it can be behind the server that created the
    /// node.
    pub(crate) async fn find(&self, session: &Session, node: &Node) -> Result<Option<String>, ZkError> {
        let folder = self.queue_folder(&node.line);
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
        let found = children.iter().find(|child| child.starts_with(&node.protection));
        Ok(found.map(|child| format!("{folder}/{child}")))
    }

    /// Deletes a node of this backend. Returns false if it did not exist.
    pub(crate) async fn delete(&self, session: &Session, node: &Node) -> Result<bool, ZkError> {
        if node.permits != Permits::None {
            return self.delete_permits(session, node).await;
        }
        let path = match &node.path {
            Some(path) => path.clone(),
            None => match self.find(session, node).await? {
                Some(path) => path,
                None => return Ok(false),
            },
        };
        match session.batches.delete(&path).await {
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
    /// The position, and the number of the node's transaction for its fences. The number of a reader or a writer is None if
    /// another node of the folder was created or deleted since the creation: then a lock that waited longer may have got
    /// greater fences meanwhile.
    pub(crate) listed: Result<(Position, Option<u64>), ZkError>,
}

/// The number of the transaction from which the fences of a node are counted. For a mutex, it is the one that created the
/// node, whose number a Java client reads from its own node. For a reader or a writer, it is the one that last wrote the
/// node: its grant. Readers and a writer that has become a reader are not granted in the order of their creation.
pub(crate) fn number_of(word: Word, stat: &Stat) -> u64 {
    let number = match word {
        Word::Lock | Word::Latch | Word::Permits => stat.czxid,
        Word::Read | Word::Write => stat.mzxid,
    };
    u64::try_from(number).unwrap_or_default()
}

/// Number of fences of one transaction. It is the size of the largest block, and Java services multiply by it.
const FENCES: u64 = MAX_BLOCK.get() as u64;

/// The fences of a grant. Those of the transaction with the next number are greater.
pub(crate) fn fences(number: u64, asked: NonZeroU32) -> Fences {
    Fences::ending(last_fence(number), asked.min(MAX_BLOCK))
}

/// The last fence of a grant.
pub(crate) fn last_fence(number: u64) -> Fence {
    Fence::new(number.saturating_mul(FENCES).saturating_add(FENCES - 1))
}

/// The nodes in the folder of a lock. A folder can have thousands of nodes, and each claim reads them all, so they are not
/// sorted.
#[derive(Debug)]
pub(crate) struct Listing {
    folder: String,
    queue: Queue,
    children: Vec<String>,
    /// The family of the node with the lowest number, and the name of this node.
    used_by: Option<(Family, String)>,
}

impl Listing {
    fn of(folder: &str, queue: Queue, children: Vec<String>) -> Self {
        let first = nodes::first_of_a_family(&children).filter(|_| queue.is_alone());
        let used_by = first.map(|(family, name)| (family, name.to_owned()));
        Self { folder: folder.to_owned(), queue, children, used_by }
    }

    /// The position of a node of this family. Nodes with equal keys have the order of the list, as in Curator.
    pub(crate) fn position(&self, path: &str, word: Word) -> Position {
        let children = &self.children;
        let own = name_in(path);
        let Some(at) = children.iter().position(|child| child == own) else { return Position::Missing };
        if !nodes::has_place(own, word.queue()) {
            return Position::NoNumber;
        }
        let path_of = |name: &str| format!("{}/{name}", self.folder);
        if let Some((family, name)) = self.used_by.as_ref().filter(|(family, _)| *family != word.family()) {
            return Position::Taken(*family, path_of(name));
        }
        let order = |at: usize| (nodes::key(&children[at], self.queue), at);
        let (own, mut count, mut first, mut predecessor) = (order(at), 0, None, None);
        for other in (0..children.len()).map(order).filter(|other| *other < own) {
            count += 1;
            first = Some(first.map_or(other, |first| other.min(first)));
            match word {
                Word::Lock | Word::Latch | Word::Write | Word::Permits => predecessor = predecessor.max(Some(other)),
                Word::Read if Word::Write.is_in(&children[other.1]) => {
                    predecessor = Some(predecessor.map_or(other, |before| other.min(before)));
                }
                Word::Read => {}
            }
        }
        let (Some((_, predecessor)), Some((_, first))) = (predecessor, first) else { return Position::First };
        Position::Behind(Ahead {
            awaited: Awaited::Deletion(path_of(&children[predecessor])),
            first: path_of(&children[first]),
            count,
        })
    }

    /// The nodes for searches of many of them.
    pub(crate) fn into_places(self) -> Places {
        let is_taken = self.used_by.as_ref().is_some_and(|(family, _)| *family != self.queue.family());
        let first = self.children.iter().min_by_key(|child| nodes::key(child, self.queue)).filter(|_| !is_taken);
        Places { first: first.cloned(), names: self.children.into_iter().collect() }
    }
}

/// The nodes in the folder of a lock, for searches of many of them.
pub(crate) struct Places {
    names: HashSet<String>,
    /// The first node, unless the folder belongs to locks of another kind.
    first: Option<String>,
}

impl Places {
    pub(crate) fn has(&self, path: &str) -> bool {
        self.names.contains(name_in(path))
    }

    pub(crate) fn is_first(&self, path: &str) -> bool {
        self.first.as_deref() == Some(name_in(path))
    }
}

fn name_in(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = "_c_a-__READ__";
    const WRITE: &str = "_c_b-__WRIT__";

    /// The number of the node that a node waits for. None if it is first.
    fn awaited(own: &str, word: Word, children: &[&str]) -> Option<String> {
        let children = children.iter().map(ToString::to_string).collect();
        match Listing::of("/f", word.queue(), children).position(&format!("/f/{own}"), word) {
            Position::First => None,
            Position::Behind(Ahead { awaited: Awaited::Deletion(path), .. }) => Some(path[path.len() - 1..].to_owned()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reader_waits_for_the_first_writer_and_a_writer_for_the_node_before_it() {
        let names: Vec<_> = [READ, READ, WRITE, READ, READ, WRITE]
            .iter()
            .enumerate()
            .map(|(at, word)| format!("{word}000000000{at}"))
            .collect();
        let all: Vec<_> = names.iter().map(String::as_str).collect();
        let word = |name: &str| if Word::Write.is_in(name) { Word::Write } else { Word::Read };
        let awaited: Vec<_> = all.iter().map(|own| awaited(own, word(own), &all)).collect();
        assert_eq!(awaited, [None, None, Some("1"), Some("2"), Some("2"), Some("4")].map(|at| at.map(str::to_owned)));
    }

    #[test]
    fn a_folder_belongs_to_the_family_of_its_lowest_number() {
        let (lock, read) = (
            "_c_2b3f71b5-76fc-41fc-83c9-f63573c55b15-lock-0000000003",
            "_c_2b3f71b5-76fc-41fc-83c9-f63573c55b15-__READ__0000000004",
        );
        let position = |name: &str, word: Word| {
            let children = vec![lock.to_owned(), read.to_owned()];
            Listing::of("/f", word.queue(), children).position(&format!("/f/{name}"), word)
        };
        assert_eq!(position(lock, Word::Lock), Position::First);
        assert_eq!(position(read, Word::Read), Position::Taken(Family::Mutex, format!("/f/{lock}")));
        assert_eq!(position(&format!("{lock}x"), Word::Lock), Position::Missing);
    }
}
