//! Creations and deletions of nodes, which are sent together: one transaction for all that begin at the same time, and one
//! request that lists the folders.
//!
//! If ZooKeeper refuses one part of a transaction, nothing of it is applied. Then each part is sent alone.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{FutureExt, future::join_all};
use tokio::{runtime::Handle, sync::oneshot, task::yield_now};
use zookeeper_client::{
    Client, CreateMode, CreateOptions, Error as ZkError, MultiReadResult, MultiWriteError, MultiWriteResult,
};

use crate::options::NodeAcl;

/// Maximum size of a transaction in bytes, as far as one of its parts alone is not larger. ZooKeeper refuses requests of
/// more than 1 MiB.
const MAX_BYTES: usize = 64 * 1024;

/// Maximum number of bytes that ZooKeeper adds to the path and the data of a part: numbers and lengths of the protocol,
/// and the ACL.
const BYTES_OF_A_PART: usize = 200;

type Result<T, E = ZkError> = std::result::Result<T, E>;

/// A node at the end of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Creation {
    /// The folder, which is listed after the creation.
    pub(crate) folder: String,
    /// The path of the node without its number.
    pub(crate) prefix: String,
    pub(crate) data: Vec<u8>,
    /// A node that is deleted after the creation, before the list.
    pub(crate) then_delete: Option<String>,
}

/// The answer to a creation.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) path: String,
    /// The number of the transaction that created the node.
    pub(crate) transaction: i64,
    /// The answer to the deletion, if there was one.
    pub(crate) deleted: Option<Result<()>>,
    pub(crate) listed: Result<Folder>,
}

/// A folder after a creation.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) children: Vec<String>,
    /// The number of the last transaction that created or deleted a child, read after the children.
    pub(crate) last_change: i64,
}

/// Collects the parts of the next transaction.
#[derive(Debug)]
pub(crate) struct Batches {
    server: Server,
    runtime: Handle,
    waiting: Mutex<Vec<Part>>,
}

/// How parts are sent.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) acl: NodeAcl,
    /// A node of this session. A transaction that creates nodes writes it, and the answer has the number of the
    /// transaction. The answers to the creations have none in ZooKeeper 3.8.0 (ZOOKEEPER-4026).
    pub(crate) proof: String,
    /// Held while parts are sent. See [`Server::turn`].
    pub(crate) sending: Arc<Mutex<()>>,
}

#[derive(Debug)]
enum Part {
    Create(Box<Creation>, oneshot::Sender<Result<Created>>),
    Delete(String, oneshot::Sender<Result<()>>),
}

/// A call that sends the parts that wait, when it is dropped.
struct Sending<'a>(&'a Batches);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.send();
    }
}

/// The end of a call. After it, the part of a dropped call is not sent any more: a later call for the same node could have
/// been sent before it.
struct Leaving<'a>(&'a Server);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        drop(self.0.turn());
    }
}

impl Batches {
    /// The proof must exist. Requests are sent by the present runtime.
    pub(crate) fn new(server: Server) -> Self {
        Self { server, runtime: Handle::current(), waiting: Mutex::default() }
    }

    /// Creates a node in a folder that probably exists, together with the other parts of this moment, and lists the folder.
    ///
    /// # Cancel safety
    /// If the future is dropped, the node may be created.
    pub(crate) async fn create(&self, creation: Creation) -> Result<Created> {
        self.part(|answer| Part::Create(Box::new(creation), answer)).await
    }

    /// As [`Batches::create`], but the requests are sent with the first poll.
    pub(crate) async fn create_alone(&self, creation: &Creation) -> Result<Created> {
        self.server.create(creation).await
    }

    /// Deletes a node, together with the other parts of this moment.
    ///
    /// # Cancel safety
    /// If the future is dropped, the node may be deleted.
    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        self.part(|answer| Part::Delete(path.to_owned(), answer)).await
    }

    async fn part<T>(&self, part: impl FnOnce(oneshot::Sender<Result<T>>) -> Part) -> Result<T> {
        // Dropped last, when the channel is closed.
        let _leaving = Leaving(&self.server);
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(part(sender));
        {
            // The other calls of this moment add their parts meanwhile. Each call can send the batch, so that none waits for
            // a call that is not polled. If this future is dropped, the batch is sent, too.
            let _sending = Sending(self);
            yield_now().await;
        }
        // There is no answer if the runtime is shutting down.
        answer.await.unwrap_or(Err(ZkError::ConnectionLoss))
    }

    /// Sends all parts that wait.
    fn send(&self) {
        let parts = mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for part in parts {
            if bytes + part.bytes() > MAX_BYTES && !batch.is_empty() {
                self.send_batch(mem::take(&mut batch));
                bytes = 0;
            }
            bytes += part.bytes();
            batch.push(part);
        }
        self.send_batch(batch);
    }

    fn send_batch(&self, parts: Vec<Part>) {
        let server = self.server.clone();
        let mut sent = async move { server.apply(parts).await }.boxed();
        // The first poll sends the requests. Requests of later calls follow them.
        if (&mut sent).now_or_never().is_none() {
            self.runtime.spawn(sent);
        }
    }
}

impl Server {
    async fn apply(&self, parts: Vec<Part>) {
        if parts.len() < 2 {
            return self.apply_alone(parts).await;
        }
        let sent = {
            let _turn = self.turn();
            let parts: Vec<_> = parts.into_iter().filter(Part::is_awaited).collect();
            match (self.write(&parts), self.list(&parts)) {
                (Ok(transaction), Ok(lists)) => Ok((parts, transaction, lists)),
                // The client library refuses one of the parts, for example because its path is wrong.
                _ => Err(parts),
            }
        };
        let (parts, transaction, lists) = match sent {
            Ok(sent) => sent,
            Err(parts) => return self.apply_alone(parts).await,
        };
        match transaction.await {
            Ok(results) => {
                let created = answer_deletions(parts, results);
                let folders = self.folders(&created, lists.await).await;
                created.into_iter().zip(folders).for_each(|(created, listed)| created.answer(listed));
            }
            Err(MultiWriteError::OperationFailed { .. }) => self.apply_alone(parts).await,
            Err(MultiWriteError::RequestFailed { source }) => {
                parts.into_iter().for_each(|part| part.fail(source.clone()));
            }
        }
    }

    async fn apply_alone(&self, parts: Vec<Part>) {
        let mut sent = {
            let _turn = self.turn();
            let mut sent = join_all(parts.into_iter().filter(Part::is_awaited).map(async |part| match part {
                Part::Create(creation, answer) => drop(answer.send(self.create(&creation).await)),
                Part::Delete(path, answer) => drop(answer.send(self.client.delete(&path, None).await)),
            }))
            .boxed();
            // The first poll sends the requests.
            if (&mut sent).now_or_never().is_some() {
                return;
            }
            sent
        };
        (&mut sent).await;
    }

    /// The turn to send. It lasts from the check that a caller still waits until its part is sent.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the requests of one creation at once.
    async fn create(&self, creation: &Creation) -> Result<Created> {
        let Creation { folder, prefix, data, then_delete } = creation;
        let creation = self.client.create(prefix, data, &self.mode());
        let deletion = then_delete.as_ref().map(|path| self.client.delete(path, None));
        let list = self.client.get_children(folder);
        let created = creation.await;
        let deleted = match deletion {
            Some(deletion) => Some(deletion.await),
            None => None,
        };
        let (stat, number) = created?;
        let listed = list.await.map(|(children, stat)| Folder { children, last_change: stat.pzxid });
        Ok(Created { path: format!("{prefix}{number}"), transaction: stat.czxid, deleted, listed })
    }

    /// Sends a transaction of all parts. If there are creations, its last write is that of the proof.
    fn write<'a>(
        &'a self,
        parts: &[Part],
    ) -> Result<impl Future<Output = Result<Vec<MultiWriteResult>, MultiWriteError>> + use<'a>> {
        let mut transaction = self.client.new_multi_writer();
        for part in parts {
            match part {
                Part::Create(creation, _) => {
                    transaction.add_create(&creation.prefix, &creation.data, &self.mode())?;
                    if let Some(path) = &creation.then_delete {
                        transaction.add_delete(path, None)?;
                    }
                }
                Part::Delete(path, _) => transaction.add_delete(path, None)?,
            }
        }
        if parts.iter().any(|part| part.creation().is_some()) {
            transaction.add_set_data(&self.proof, b"", None)?;
        }
        Ok(transaction.commit())
    }

    /// Sends one request that lists the folder of each creation. For each, there are the children, and then the folder's
    /// data and numbers.
    fn list<'a>(&'a self, parts: &[Part]) -> Result<impl Future<Output = Result<Vec<MultiReadResult>>> + use<'a>> {
        let mut lists = self.client.new_multi_reader();
        for creation in parts.iter().filter_map(Part::creation) {
            lists.add_get_children(&creation.folder)?;
            lists.add_get_data(&creation.folder)?;
        }
        Ok(lists.commit())
    }

    /// The folders of the nodes. Servers before 3.6 do not know the request that lists them all.
    async fn folders(&self, nodes: &[NewNode], lists: Result<Vec<MultiReadResult>>) -> Vec<Result<Folder>> {
        match lists {
            Ok(lists) => {
                let mut lists = lists.into_iter();
                nodes.iter().map(|_| folder(lists.next(), lists.next())).collect()
            }
            Err(ZkError::Unimplemented) => {
                let lists: Vec<_> = nodes.iter().map(|node| self.client.get_children(&node.creation.folder)).collect();
                let lists = join_all(lists).await.into_iter();
                lists.map(|list| list.map(|(children, stat)| Folder { children, last_change: stat.pzxid })).collect()
            }
            Err(error) => nodes.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn mode(&self) -> CreateOptions<'static> {
        CreateMode::EphemeralSequential.with_acls(self.acl.acls())
    }
}

/// A node that a transaction has created.
struct NewNode {
    creation: Box<Creation>,
    answer: oneshot::Sender<Result<Created>>,
    /// The path of the node and the number of the transaction. None if the server's answer has none.
    created: Option<(String, i64)>,
}

impl NewNode {
    fn answer(self, listed: Result<Folder>) {
        let deleted = self.creation.then_delete.map(|_| Ok(()));
        let created = self.created.map(|(path, transaction)| Created { path, transaction, deleted, listed });
        drop(self.answer.send(created.ok_or_else(unexpected)));
    }
}

/// Answers the deletions of a transaction, and returns its creations.
fn answer_deletions(parts: Vec<Part>, results: Vec<MultiWriteResult>) -> Vec<NewNode> {
    let transaction = results.last().and_then(|result| match result {
        MultiWriteResult::SetData { stat } => Some(stat.mzxid),
        _ => None,
    });
    let mut paths = results.into_iter().filter_map(|result| match result {
        MultiWriteResult::Create { path, .. } => Some(path),
        _ => None,
    });
    let mut created = Vec::new();
    for part in parts {
        match part {
            Part::Delete(_, answer) => drop(answer.send(Ok(()))),
            Part::Create(creation, answer) => {
                created.push(NewNode { creation, answer, created: paths.next().zip(transaction) });
            }
        }
    }
    created
}

/// The answers to the two reads of a folder.
fn folder(children: Option<MultiReadResult>, numbers: Option<MultiReadResult>) -> Result<Folder> {
    match (children, numbers) {
        (Some(MultiReadResult::Children { children }), Some(MultiReadResult::Data { stat, .. })) => {
            Ok(Folder { children, last_change: stat.pzxid })
        }
        (Some(MultiReadResult::Error { err }), _) | (_, Some(MultiReadResult::Error { err })) => Err(err),
        _ => Err(unexpected()),
    }
}

/// The error of an answer that does not belong to its request.
fn unexpected() -> ZkError {
    ZkError::UnmarshalError { entity: "a transaction", reason: &"its answers do not belong to its parts" }
}

impl Part {
    fn creation(&self) -> Option<&Creation> {
        match self {
            Self::Create(creation, _) => Some(creation),
            Self::Delete(..) => None,
        }
    }

    /// Whether the caller still waits.
    fn is_awaited(&self) -> bool {
        match self {
            Self::Create(_, answer) => !answer.is_closed(),
            Self::Delete(_, answer) => !answer.is_closed(),
        }
    }

    fn bytes(&self) -> usize {
        BYTES_OF_A_PART
            + match self {
                Self::Create(creation, _) => {
                    let deleted = creation.then_delete.as_ref().map_or(0, String::len);
                    creation.prefix.len() + creation.data.len() + deleted
                }
                Self::Delete(path, _) => path.len(),
            }
    }

    fn fail(self, error: ZkError) {
        match self {
            Self::Create(_, answer) => drop(answer.send(Err(error))),
            Self::Delete(_, answer) => drop(answer.send(Err(error))),
        }
    }
}
