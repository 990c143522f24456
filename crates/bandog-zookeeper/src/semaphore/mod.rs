//! Semaphores, in the layout of Curator's `InterProcessSemaphoreV2`.
//!
//! The folder of a semaphore has two folders. `locks` is a queue as that of a mutex: only its first node may take permits.
//! `leases` has a node for each permit that is taken. Curator creates the node of a permit before it counts them, and
//! deletes its node of the queue afterwards. We count first: while our node is the first one, only releases change the
//! number of permits. Then one transaction creates the nodes of all permits of the claim and deletes the node of the
//! queue. So a claim gets all of its permits or none, and has none while it waits.

mod inspect;
mod limit;
mod taken;

use bandog_core::{Claim, Error, Family, Kind, Result, Verdict};
use tokio::time::{Instant, timeout_at};
use zookeeper_client::{CreateMode, Error as ZkError, MultiWriteError, MultiWriteResult};

use self::limit::{ATTEMPTS, Limit};
use crate::{
    host::Shared,
    nodes::{self, LEASES, NodeText, Word},
    queue::{Ahead, Awaited, Position, fences},
    session::Session,
    table::{Line, Node, Permits},
};

/// Maximum number of permits of one claim. Each permit is a node, and all of them are created in one request, whose size the
/// servers limit (`jute.maxbuffer`).
const MAX_TAKE: u32 = 2000;
/// A claim without a place waits at most this part of a request's timeout for claims that are just being served.
const PATIENCE: u32 = 4;

/// The answer to the first node of the queue.
pub(crate) enum Asked {
    Granted(Verdict),
    /// The claim does not have its permits.
    At(Position),
    /// The claim is wrong. It must not be repeated.
    Refused(Error),
}

/// The result of the transaction that takes permits.
struct Taken {
    /// The paths of the nodes, and the number of the transaction. Old servers do not say the number.
    nodes: Vec<(String, i64)>,
    /// The lock of another kind that has the name.
    others: Result<Option<(Family, String)>, ZkError>,
}

/// The permits that are taken, and the limit.
struct Count {
    taken: u32,
    limit: Limit,
}

impl Count {
    /// Whether there are permits for a claim.
    fn has_room(&self, take: u32) -> bool {
        u64::from(self.taken) + u64::from(take) <= u64::from(self.limit.now)
    }
}

impl Shared {
    fn leases_folder(&self, folder: &str) -> String {
        format!("{folder}/{LEASES}")
    }

    /// Asks for the permits of a claim whose node in the queue is known. A patient call waits a moment for other claims that
    /// are just being served.
    ///
    /// # Cancel safety
    /// The table has the node of the claim. Before the permits are taken, it says so.
    pub(crate) async fn ask_for_permits(
        &self,
        session: &Session,
        claim: &Claim,
        node: &Node,
        position: Position,
        is_patient: bool,
    ) -> Result<Asked> {
        match self.ask(session, claim, node, position, is_patient).await {
            Err(error) if !error.maybe_applied() => Ok(Asked::Refused(error)),
            asked => asked,
        }
    }

    async fn ask(
        &self,
        session: &Session,
        claim: &Claim,
        node: &Node,
        mut position: Position,
        is_patient: bool,
    ) -> Result<Asked> {
        let until = Instant::now() + self.timeout() / PATIENCE;
        loop {
            match position {
                Position::First => return self.take_permits(session, claim, node).await,
                Position::Behind(ref ahead)
                    if is_patient && self.is_served_soon(session, claim, ahead, until).await? =>
                {
                    let Some(path) = &node.path else { return Ok(Asked::At(Position::Missing)) };
                    let position_now = self.position_of(session, &node.line, path).await;
                    position = position_now.map_err(|error| self.fault(error).ambiguous())?;
                }
                Position::Behind(_) | Position::Missing | Position::NoNumber | Position::Taken(..) => {
                    return Ok(Asked::At(position));
                }
            }
        }
    }

    /// Whether the claim before this one is served within a moment. False if there are no permits now, or if the claim before
    /// this one waits for permits.
    async fn is_served_soon(&self, session: &Session, claim: &Claim, ahead: &Ahead, until: Instant) -> Result<bool> {
        let Awaited::Deletion(path) = &ahead.awaited else { return Ok(false) };
        let fault = |error| self.fault(error).ambiguous();
        let watched = session.client.get_and_watch_data(path);
        let Some(count) = self.count(session, claim, &self.folder(&claim.key)).await? else { return Ok(false) };
        let (data, watcher) = match watched.await {
            Ok((data, _, watcher)) => (data, watcher),
            Err(ZkError::NoNode) => return Ok(true),
            Err(ZkError::NoAuth) => return Ok(false), // The node of another user.
            Err(error) => return Err(fault(error)),
        };
        let waits = NodeText::read(&data).is_some_and(|text| text.waits);
        Ok(count.has_room(claim.kind.permits()) && !waits && timeout_at(until, watcher.changed()).await.is_ok())
    }

    /// The permits that are taken. None if the semaphore has no limit yet.
    async fn count(&self, session: &Session, claim: &Claim, folder: &str) -> Result<Option<Count>> {
        let leases = self.leases_folder(folder);
        let leases = session.client.list_children(&leases);
        let limit = self.read_limit(session, &claim.key).await?;
        let taken = match leases.await {
            Ok(leases) => u32::try_from(leases.len()).unwrap_or(u32::MAX),
            Err(ZkError::NoNode) => 0,
            Err(error) => return Err(self.fault(error).ambiguous()),
        };
        Ok(limit.map(|limit| Count { taken, limit }))
    }

    /// Takes the permits of the claim whose node is the first one of the queue.
    async fn take_permits(&self, session: &Session, claim: &Claim, node: &Node) -> Result<Asked> {
        let Kind::Permits { take, of } = claim.kind else { return Ok(Asked::At(Position::Missing)) };
        let Some(queued) = &node.path else { return Ok(Asked::At(Position::Missing)) };
        if take.get() > MAX_TAKE {
            let text = format!("a claim on ZooKeeper takes at most {MAX_TAKE} permits, and this one wants {take}");
            return Ok(Asked::Refused(Error::misused(text)));
        }
        let folder = self.folder(&claim.key);
        let ambiguous = |error| self.fault(error).ambiguous();
        for _ in 0..ATTEMPTS {
            let others = self.other_family(session, &folder);
            let count = self.count(session, claim, &folder).await?;
            if let Some((family, path)) = others.await.map_err(ambiguous)? {
                return Ok(Asked::At(Position::Taken(family, path)));
            }
            let Some(count) = count else {
                if let Err(refused) = limit::check_request(take.get(), of.get()) {
                    return Ok(Asked::Refused(refused));
                }
                self.create_limit(session, &claim.key, of.get()).await.map_err(ambiguous)?;
                continue;
            };
            if let Err(refused) = self.check_limit(session, claim, &count.limit, take.get(), of.get()).await? {
                return Ok(Asked::Refused(refused));
            }
            if !count.has_room(take.get()) {
                return Ok(Asked::At(Position::Behind(Ahead {
                    awaited: Awaited::Permits,
                    first: queued.clone(),
                    count: 0,
                })));
            }
            // From here on, the claim may have permits.
            self.table.update(claim.id, |node| node.permits = Permits::Unsure);
            let taken = self.transact(session, claim, node, &folder, &count.limit, &[], Some(queued)).await;
            match taken {
                Ok(taken) => return self.took(session, claim, taken).await,
                Err(MultiWriteError::OperationFailed { index, source }) => {
                    self.table.update(claim.id, |node| node.permits = Permits::None);
                    let is_queued = index == 1 + take.get() as usize;
                    match source {
                        ZkError::NoNode if is_queued => return Ok(Asked::At(Position::Missing)),
                        ZkError::NoNode if index > 0 => {
                            session.make_folder(&self.leases_folder(&folder)).await.map_err(ambiguous)?;
                        }
                        // Another client has changed the limit.
                        ZkError::NoNode | ZkError::BadVersion | ZkError::RuntimeInconsistent => {}
                        error => return Err(self.fault(error)),
                    }
                }
                Err(error) => return Err(self.fault(error.into())),
            }
        }
        Err(Error::unavailable(format!("{}: other clients change the semaphore all the time", self.store)))
    }

    /// Creates the nodes of the permits, and deletes nodes of the same claim or of the claim that passes its permits on.
    /// Everything happens or nothing, and nothing if the limit has changed.
    #[allow(clippy::too_many_arguments, reason = "the parts of one transaction")]
    async fn transact(
        &self,
        session: &Session,
        claim: &Claim,
        node: &Node,
        folder: &str,
        limit: &Limit,
        passing: &[String],
        queued: Option<&str>,
    ) -> Result<Taken, MultiWriteError> {
        let options = CreateMode::EphemeralSequential.with_acls(self.options.acl.acls());
        let (prefix, data) = (nodes::lease_prefix(folder, &node.protection), NodeText::of(claim).bytes());
        let mut transaction = session.client.new_multi_writer();
        transaction.add_check_version(&self.limit_path(&claim.key), limit.version)?;
        for _ in 0..claim.kind.permits() {
            transaction.add_create(&prefix, &data, &options)?;
        }
        for path in passing.iter().map(String::as_str).chain(queued) {
            transaction.add_delete(path, None)?;
        }
        let committed = transaction.commit();
        // A mutex creates its node before it checks for permits, and this call checks for that node after it has taken
        // its permits.
        let others = self.other_family(session, folder);
        let created = committed.await?.into_iter().filter_map(|result| match result {
            MultiWriteResult::Create { path, stat } => Some((path, if stat.is_invalid() { 0 } else { stat.czxid })),
            _ => None,
        });
        Ok(Taken { nodes: created.collect(), others: others.await })
    }

    /// Records the permits that a claim has taken, and grants the claim, unless a lock of another kind has got the name
    /// meanwhile.
    async fn took(&self, session: &Session, claim: &Claim, taken: Taken) -> Result<Asked> {
        let transaction = taken.nodes.first().map(|(_, czxid)| *czxid).filter(|czxid| *czxid > 0);
        let paths: Vec<_> = taken.nodes.into_iter().map(|(path, _)| path).collect();
        self.table.update(claim.id, |node| {
            (node.path, node.permits) = (paths.first().cloned(), Permits::Taken(paths.clone()));
        });
        let transaction = self.transaction_of_permits(session, transaction, &paths).await?;
        if let Some((family, path)) = taken.others.map_err(|error| self.fault(error).ambiguous())? {
            self.delete_all(session, &paths).await.map_err(|error| self.fault(error).ambiguous())?;
            // The node in the queue was deleted with the transaction.
            self.table.remove_claim(claim.id);
            return Ok(Asked::At(Position::Taken(family, path)));
        }
        let Some(transaction) = transaction else { return Ok(Asked::At(Position::Missing)) };
        Ok(Asked::Granted(self.permits_granted(session, claim, transaction)))
    }

    /// The number of the transaction that created the nodes of a claim. Old servers do not say it in the answer.
    async fn transaction_of_permits(
        &self,
        session: &Session,
        known: Option<i64>,
        paths: &[String],
    ) -> Result<Option<u64>> {
        let number = match (known, paths.first()) {
            (Some(number), _) => Some(number),
            (None, None) => None,
            (None, Some(path)) => {
                let stat = session.client.check_stat(path).await.map_err(|error| self.fault(error).ambiguous())?;
                stat.map(|stat| stat.czxid)
            }
        };
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    }

    fn permits_granted(&self, session: &Session, claim: &Claim, transaction: u64) -> Verdict {
        self.table.update(claim.id, |node| {
            (node.transaction, node.waits, node.until) = (Some(transaction), false, session.end_of(claim.ttl));
        });
        let (fences, valid_for) = (fences(transaction, claim.fences), claim.ttl.min(session.valid_for));
        Verdict::Granted { fences, valid_for, followers: Vec::new() }
    }

    /// The family of another lock that has this name, and the path of its first node. None if no lock has it. The request is
    /// sent at once.
    fn other_family<'a>(
        &'a self,
        session: &'a Session,
        folder: &'a str,
    ) -> impl Future<Output = Result<Option<(Family, String)>, ZkError>> + use<'a> {
        let listed = session.client.list_children(folder);
        async move {
            let children = match listed.await {
                Ok(children) => children,
                Err(ZkError::NoNode) => return Ok(None),
                Err(error) => return Err(error),
            };
            let first = nodes::first_of_a_family(&children);
            Ok(first.map(|(family, name)| (family, format!("{folder}/{name}"))))
        }
    }
}

/// Whether a node is in the queue of a semaphore.
pub(crate) fn is_of_a_semaphore(line: &Line) -> bool {
    line.word == Word::Permits
}
