//! The folder of a lock: nodes are created, listed and deleted.

use bandog_core::{Error, ErrorKind, Family, Key, Result};
use zookeeper_client::{Acls, CreateMode, Error as ZkError, Stat};

use crate::{
    encoding::encode,
    fault,
    host::Shared,
    nodes::{self, NodeText, Word},
    session::Session,
    table::{Line, Node},
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
    /// The path of the node whose deletion must be awaited: of the node directly before it, or for a reader of the first
    /// writer.
    pub(crate) predecessor: String,
    /// The path of the first node.
    pub(crate) first: String,
    /// The number of nodes before it.
    pub(crate) count: usize,
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
    pub(crate) fn new_node(&self, session: &Session, line: Line) -> Node {
        Node {
            line,
            protection: nodes::protection(),
            path: None,
            fence: None,
            waits: false,
            session: session.number,
            until: self.unsure_until(),
            is_watched: false,
            is_seen: false,
            listed: None,
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
        let (folder, word) = (self.folder(&node.line.key), node.line.word);
        let prefix = nodes::path_prefix(&folder, &node.protection, word);
        let data = data.bytes();
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let mut attempts = 0;
        loop {
            attempts += 1;
            let creation = session.client.create(&prefix, &data, &options);
            let deletion = before_list.map(|path| session.client.delete(path, None));
            let list = session.client.get_children(&folder);
            let created = creation.await;
            let deleted = match deletion {
                Some(deletion) => Some(deletion.await),
                None => None,
            };
            match created {
                Ok((stat, sequence)) => {
                    let path = format!("{prefix}{sequence}");
                    node.path = Some(path.clone());
                    let listed = list.await.map(|(all, folder_stat)| {
                        let is_next = word == Word::Lock || folder_stat.pzxid == stat.czxid;
                        (
                            Listing::of(&folder, word.family(), all).position(&path, word),
                            is_next.then(|| fence_of(word, &stat)),
                        )
                    });
                    return Ok(Enqueued { deleted, listed });
                }
                Err(ZkError::NoNode) if attempts < ATTEMPTS => session.make_folder(&folder).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// The error of a position that a node cannot keep. None for the other positions.
    pub(crate) fn refusal(&self, position: &Position, word: Word) -> Option<Error> {
        match position {
            Position::First | Position::Behind(_) | Position::Missing => None,
            Position::NoNumber => Some(Error::unavailable(format!(
                "{}: the numbers of the nodes in the lock's folder are used up; delete the folder when it is empty",
                self.store
            ))),
            Position::Taken(held, _) => {
                let text = format!("the name is in use as {held}, so it cannot be used as {}", word.family());
                Some(Error::new(ErrorKind::Denied, text))
            }
        }
    }

    /// The position of a node whose path is known.
    pub(crate) async fn position_of(&self, session: &Session, line: &Line, path: &str) -> Result<Position, ZkError> {
        let folder = self.folder(&line.key);
        Ok(match session.client.list_children(&folder).await {
            Ok(all) => Listing::of(&folder, line.word.family(), all).position(path, line.word),
            Err(ZkError::NoNode) => Position::Missing,
            Err(error) => return Err(error),
        })
    }

    /// The nodes in the folder of a lock. A folder that does not exist has none.
    pub(crate) async fn list(&self, session: &Session, key: &Key, family: Family) -> Result<Listing, ZkError> {
        let folder = self.folder(key);
        let all = match session.client.list_children(&folder).await {
            Ok(all) => all,
            Err(ZkError::NoNode) => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Listing::of(&folder, family, all))
    }

    /// Searches a node whose creation had no answer. None if it does not exist.
    ///
    /// The server is first brought up to date, because after a reconnection it can be behind the server that created the
    /// node.
    pub(crate) async fn find(&self, session: &Session, node: &Node) -> Result<Option<String>, ZkError> {
        let folder = self.folder(&node.line.key);
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
        let path = match &node.path {
            Some(path) => path.clone(),
            None => match self.find(session, node).await? {
                Some(path) => path,
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
    /// The position, and the fence of the node if it is first. The fence of a reader or a writer is None if another node of
    /// the folder was created or deleted since the creation: then a lock that waited longer may have got a greater fence
    /// meanwhile.
    pub(crate) listed: Result<(Position, Option<u64>), ZkError>,
}

/// The fence of a node. For a mutex, it is the number of the transaction that created the node, as a Java client reads it
/// from its own node. For a reader or a writer, it is the number of the transaction that last wrote the node: its grant.
/// Readers and a writer that has become a reader are not granted in the order of their creation.
pub(crate) fn fence_of(word: Word, stat: &Stat) -> u64 {
    let number = match word {
        Word::Lock => stat.czxid,
        Word::Read | Word::Write => stat.mzxid,
    };
    u64::try_from(number).unwrap_or_default()
}

/// The nodes in the folder of a lock, in the order of one family.
#[derive(Debug)]
pub(crate) struct Listing {
    folder: String,
    children: Vec<String>,
    /// The family of the node with the lowest number, and the name of this node.
    used_by: Option<(Family, String)>,
}

impl Listing {
    fn of(folder: &str, family: Family, mut children: Vec<String>) -> Self {
        nodes::sort(&mut children, family);
        let used_by = nodes::first_of_a_family(&children).map(|(family, name)| (family, name.to_owned()));
        Self { folder: folder.to_owned(), children, used_by }
    }

    /// The position of a node of this family.
    pub(crate) fn position(&self, path: &str, word: Word) -> Position {
        let children = &self.children;
        let own = path.rsplit_once('/').map_or(path, |(_, own)| own);
        let Some(at) = children.iter().position(|child| child == own) else { return Position::Missing };
        if !nodes::has_place(own, word.family()) {
            return Position::NoNumber;
        }
        let path_of = |name: &str| format!("{}/{name}", self.folder);
        if let Some((family, name)) = self.used_by.as_ref().filter(|(family, _)| *family != word.family()) {
            return Position::Taken(*family, path_of(name));
        }
        let predecessor = match word {
            Word::Lock | Word::Write => at.checked_sub(1),
            Word::Read => children[..at].iter().position(|child| Word::Write.is_in(child)),
        };
        let Some(predecessor) = predecessor else { return Position::First };
        Position::Behind(Ahead {
            predecessor: path_of(&children[predecessor]),
            first: path_of(&children[0]),
            count: at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = "_c_a-__READ__";
    const WRITE: &str = "_c_b-__WRIT__";

    /// The number of the node that a node waits for. None if it is first.
    fn awaited(own: &str, word: Word, children: &[&str]) -> Option<String> {
        let children = children.iter().map(ToString::to_string).collect();
        match Listing::of("/f", word.family(), children).position(&format!("/f/{own}"), word) {
            Position::First => None,
            Position::Behind(ahead) => Some(ahead.predecessor[ahead.predecessor.len() - 1..].to_owned()),
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
            Listing::of("/f", word.family(), children).position(&format!("/f/{name}"), word)
        };
        assert_eq!(position(lock, Word::Lock), Position::First);
        assert_eq!(position(read, Word::Read), Position::Taken(Family::Mutex, format!("/f/{lock}")));
        assert_eq!(position(&format!("{lock}x"), Word::Lock), Position::Missing);
    }
}
