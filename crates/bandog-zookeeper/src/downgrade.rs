//! The downgrade: the writer that holds a lock becomes a reader, in one transaction.
//!
//! The transaction deletes the node of the writer, and creates a node of a reader with the same number, as Curator names
//! it. So the reader has the place of the writer, before all nodes that wait. Its fences are counted from the number of this
//! transaction.

use bandog_core::{Claim, Result, Verdict};
use zookeeper_client::{CreateMode, Error as ZkError, MultiWriteError};

use crate::{
    host::Shared,
    nodes::{self, NodeText, Word},
    queue::number_of,
    session::Session,
    table::Line,
};

impl Shared {
    /// Makes the writer `from` the reader `to`. If `from` does not hold the lock, this is an ordinary claim of `to`.
    ///
    /// # Cancel safety
    /// The table has the node of `to` before its creation is sent. So a release of `to`, or the same call again, finds it.
    pub(crate) async fn downgrade(&self, session: &Session, from: &Claim, to: &Claim) -> Result<Verdict> {
        let writer = self.table.claim_of(from.id, session.number).filter(|node| !node.waits);
        let Some(from_path) = writer.and_then(|node| node.path) else {
            return self.claim(session, to).await;
        };
        let mut node = match self.table.claim_of(to.id, session.number) {
            Some(node) => node,
            None => self.new_node(session, Line::of(to)),
        };
        self.table.keep_claim(to.id, node.clone());
        let prefix = nodes::path_prefix(&self.folder(&to.key), &node.protection, Word::Read);
        let path = format!("{prefix}{}", nodes::digits(&from_path, Word::Write));
        let mut transaction = session.client.new_multi_writer();
        let options = CreateMode::Ephemeral.with_acls(self.options.acl.acls());
        let data = NodeText::of(to).bytes();
        transaction.add_create(&path, &data, &options).map_err(|error| self.fault(error))?;
        transaction.add_delete(&from_path, None).map_err(|error| self.fault(error))?;
        let is_new = match transaction.commit().await {
            Ok(_) => true,
            // An earlier request has done it, and its answer was lost.
            Err(MultiWriteError::OperationFailed { source: ZkError::NodeExists, .. }) => false,
            Err(MultiWriteError::OperationFailed { source: ZkError::NoNode, .. }) => {
                // The writer does not hold the lock any more.
                self.table.remove_claim(from.id);
                self.table.remove_claim(to.id);
                return self.claim(session, to).await;
            }
            Err(error) => {
                let error = self.fault(error.into());
                if !error.maybe_applied() {
                    self.table.remove_claim(to.id);
                }
                return Err(error);
            }
        };
        let stat = session.client.check_stat(&path).await.map_err(|error| self.fault(error).ambiguous())?;
        (node.transaction, node.path) = (stat.map(|stat| number_of(Word::Read, &stat)), Some(path));
        self.table.remove_claim(from.id);
        self.table.keep_claim(to.id, node.clone());
        if is_new && let Some(verdict) = self.grant(session, to, &node, node.transaction).await? {
            return Ok(verdict);
        }
        self.claim(session, to).await
    }
}
