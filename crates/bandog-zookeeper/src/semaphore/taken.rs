//! The nodes of permits that are taken: they are found again, passed, watched and deleted.

use bandog_core::{Claim, Kind, Result, Verdict};
use zookeeper_client::{Error as ZkError, MultiWriteError, OneshotWatcher};

use super::{Asked, Count, limit::Limit};
use crate::{
    fault,
    host::Shared,
    nodes::LEASES,
    session::Session,
    table::{Line, Node, Permits},
};

impl Shared {
    /// Sends a claim of permits again whose node the table has. None if the node may be in the queue.
    pub(crate) async fn permits_again(
        &self,
        session: &Session,
        claim: &Claim,
        node: &mut Node,
    ) -> Result<Option<Verdict>> {
        if node.permits == Permits::None {
            return Ok(None);
        }
        let folder = self.folder(&claim.key);
        let leases = self.leases_folder(&folder);
        // For a claim that was granted before, a write proves that the session is alive. It also brings the server up to date.
        session.prove().await.map_err(|error| self.fault(error).ambiguous())?;
        let children = match session.client.list_children(&leases).await {
            Ok(children) => children,
            Err(ZkError::NoNode) => Vec::new(),
            Err(error) => return Err(self.fault(error).ambiguous()),
        };
        let own = children.iter().filter(|child| child.starts_with(&node.protection));
        let own: Vec<_> = own.map(|child| format!("{leases}/{child}")).collect();
        if own.len() == claim.kind.permits() as usize {
            let known = node.transaction.and_then(|transaction| i64::try_from(transaction).ok());
            if let Some(transaction) = self.transaction_of_permits(session, known, &own).await? {
                self.table.update(claim.id, |node| {
                    (node.path, node.permits) = (own.first().cloned(), Permits::Taken(own.clone()));
                });
                return Ok(Some(self.permits_granted(session, claim, transaction)));
            }
        }
        // An operator has taken permits from the claim.
        self.delete_all(session, &own).await.map_err(|error| self.fault(error).ambiguous())?;
        if matches!(node.permits, Permits::Taken(_)) {
            node.path = None;
        }
        node.permits = Permits::None;
        self.table.keep_claim(claim.id, node.clone());
        Ok(None)
    }

    /// Passes the permits of a claim on, in one transaction. None if `from` does not have them.
    pub(crate) async fn pass_permits(&self, session: &Session, from: &Claim, to: &Claim) -> Result<Option<Verdict>> {
        let Kind::Permits { take, of } = to.kind else { return Ok(None) };
        let passing = self.table.claim_of(from.id, session.number).filter(|node| !node.waits);
        let Some(Permits::Taken(passing)) = passing.map(|node| node.permits) else { return Ok(None) };
        if self.table.claim(to.id).is_some() {
            return Ok(None);
        }
        let folder = self.folder(&to.key);
        let Some(count) = self.count(session, to, &folder).await? else {
            return Ok(None);
        };
        self.check_limit(session, to, &count.limit, take.get(), of.get()).await??;
        if count.taken > count.limit.now {
            return Ok(None); // The limit has fallen.
        }
        let mut node = self.new_node(session, Line::of(to));
        node.permits = Permits::Unsure;
        self.table.keep_claim(to.id, node.clone());
        match self.transact(session, to, &node, &folder, &count.limit, &passing, None).await {
            Ok(taken) => {
                self.table.remove_claim(from.id);
                match self.took(session, to, taken).await? {
                    Asked::Granted(verdict) => Ok(Some(verdict)),
                    Asked::Refused(error) => Err(error),
                    Asked::At(_) => Ok(None),
                }
            }
            Err(MultiWriteError::OperationFailed { .. }) => {
                self.table.remove_claim(to.id);
                Ok(None)
            }
            Err(error) => {
                let error = self.fault(error.into());
                if !error.maybe_applied() {
                    self.table.remove_claim(to.id);
                }
                Err(error)
            }
        }
    }

    /// Deletes the permits of a claim, and its node in the queue. Returns false if there were none.
    pub(crate) async fn delete_permits(&self, session: &Session, node: &Node) -> Result<bool, ZkError> {
        if let Permits::Taken(paths) = &node.permits {
            return self.delete_all(session, paths).await;
        }
        let folder = self.folder(&node.line.key);
        let mut paths = Vec::new();
        for folder in [self.queue_folder(&node.line), self.leases_folder(&folder)] {
            let up_to_date = session.client.sync(&folder);
            let list = session.client.list_children(&folder);
            match up_to_date.await {
                Ok(()) | Err(ZkError::NoNode) => {}
                Err(error) => return Err(error),
            }
            match list.await {
                Ok(children) => {
                    let own = children.iter().filter(|child| child.starts_with(&node.protection));
                    paths.extend(own.map(|child| format!("{folder}/{child}")));
                }
                Err(ZkError::NoNode) => {}
                Err(error) => return Err(error),
            }
        }
        self.delete_all(session, &paths).await
    }

    /// Deletes nodes in one transaction, or one by one if some of them do not exist. Returns false if none existed.
    pub(crate) async fn delete_all(&self, session: &Session, paths: &[String]) -> Result<bool, ZkError> {
        if let [path] = paths {
            return deleted(session.client.delete(path, None).await);
        }
        let mut transaction = session.client.new_multi_writer();
        for path in paths {
            transaction.add_delete(path, None)?;
        }
        match transaction.commit().await {
            Ok(_) => return Ok(!paths.is_empty()),
            Err(MultiWriteError::OperationFailed { source: ZkError::NoNode, .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let mut existed = false;
        for path in paths {
            existed |= deleted(session.client.delete(path, None).await)?;
        }
        Ok(existed)
    }

    /// Watches the permits and the limit. None if there are permits for this claim.
    pub(crate) async fn watch_permits(
        &self,
        session: &Session,
        claim: &Claim,
    ) -> Result<Option<[OneshotWatcher; 2]>, ZkError> {
        let (leases, limit) = (self.leases_folder(&self.folder(&claim.key)), self.limit_path(&claim.key));
        let leases = session.client.get_and_watch_children(&leases);
        let limit = session.client.get_and_watch_data(&limit);
        let (children, _, of_permits) = leases.await?;
        let (data, stat, of_limit) = limit.await?;
        let taken = u32::try_from(children.len()).unwrap_or(u32::MAX);
        let count = Limit::read(&data, &stat).map(|limit| Count { taken, limit });
        let has_room = count.is_none_or(|count| count.has_room(claim.kind.permits()));
        Ok((!has_room).then_some([of_permits, of_limit]))
    }

    /// One of the permits of a semaphore. None if none is taken.
    pub(crate) async fn any_permit(&self, session: &Session, folder: &str) -> Result<Option<String>, ZkError> {
        match session.client.list_children(&self.leases_folder(folder)).await {
            Ok(children) => Ok(children.into_iter().next().map(|child| format!("{LEASES}/{child}"))),
            Err(ZkError::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a node existed before its deletion.
fn deleted(answer: Result<(), ZkError>) -> Result<bool, ZkError> {
    match answer {
        Ok(()) => Ok(true),
        Err(error) if fault::is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
