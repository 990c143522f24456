//! Claims and releases of a mutex.
//!
//! A claim creates a node at the end of the queue. If the node is the first one, the claim holds the lock. Otherwise the
//! node is deleted, because a claim does not wait. Waiting calls have a node of their own in the queue, which they keep
//! while they subscribe (see `waiters`). When this node is the first one, the next claim gets it.
//!
//! The fence of a grant is the number of the transaction that created its node. The nodes get the lock in the order of
//! their creation, so the fences rise, also over grants to Curator.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{Answer, Claim, Error, Fence, Fences, Released, Renewal, Result, Step, Verdict, check_pass};

use crate::{fault, host::Shared, nodes::NodeText, queue::Position, session::Session, table::Node};

/// The time that a refusal names, because ZooKeeper does not know when a hold ends.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Shared {
    /// Applies one step. No other step for the same name of this backend runs meanwhile.
    pub(crate) async fn step(&self, session: &Session, step: &Step) -> Result<Answer> {
        match step {
            Step::Claim(claim) => Ok(Answer::Claimed(self.claim(session, claim).await?)),
            Step::Release(claim) => Ok(Answer::Released(self.release(session, claim).await?)),
            Step::Pass { from, to } => Ok(Answer::Claimed(self.pass(session, from, to).await?)),
        }
    }

    async fn claim(&self, session: &Session, claim: &Claim) -> Result<Verdict> {
        if let Some(node) = self.table.claim_of(claim.id, session.number) {
            // The claim was sent before.
            if let Some(verdict) = self.claim_again(session, claim, node).await? {
                return Ok(verdict);
            }
        }
        if let Some(node) = self.table.queued(&claim.key).filter(|node| node.session == session.number) {
            // This client waits in the queue.
            if let Some(verdict) = self.claim_in_place(session, claim, node).await? {
                return Ok(verdict);
            }
        }
        self.claim_at_the_end(session, claim, None).await
    }

    /// Sends a claim whose node the table has. None if the node does not exist (any more).
    async fn claim_again(&self, session: &Session, claim: &Claim, mut node: Node) -> Result<Option<Verdict>> {
        if node.path.is_none() {
            let Some((path, created_by)) = self.find(session, &node).await.map_err(|error| self.fault(error))? else {
                self.table.remove_claim(claim.id);
                self.table.suspect(node);
                return Ok(None);
            };
            (node.path, node.created_by) = (Some(path), created_by);
            self.table.keep_claim(claim.id, node.clone());
        }
        let Some(path) = &node.path else { return Ok(None) };
        // The write proves that the session is alive, and with it the node. The data are perhaps those of a waiting node.
        let data = NodeText::of(claim).bytes();
        let proof = session.client.set_data(path, &data, None);
        let (proof, position) = futures_util::join!(proof, self.position_of(session, &node.key, path));
        let position = position.map_err(|error| self.fault(error))?;
        let is_gone = proof.as_ref().is_err_and(fault::is_gone);
        if is_gone || position == Position::Missing {
            self.table.remove_claim(claim.id);
            return Ok(None);
        }
        proof.map_err(|error| self.fault(error))?;
        self.decide(session, claim, node, position).await.map(Some)
    }

    /// Claims with the node of the waiting calls. None if the node does not exist any more.
    async fn claim_in_place(&self, session: &Session, claim: &Claim, node: Node) -> Result<Option<Verdict>> {
        let Some(path) = node.path.clone() else {
            self.settle_queued(session, node).await?;
            return Ok(None);
        };
        match self.position_of(session, &claim.key, &path).await.map_err(|error| self.fault(error))? {
            Position::Missing => {
                self.table.remove_queued(&claim.key);
                Ok(None)
            }
            Position::Behind(predecessor) => {
                self.watch(session, &claim.key, predecessor).await;
                Ok(Some(Verdict::Busy { retry_after: RETRY_AFTER, ahead: None }))
            }
            Position::NoNumber => Err(self.no_number()),
            Position::First => {
                // From here on the node belongs to the claim, also if the answer is lost.
                self.table.promote(&claim.key, claim.id);
                self.table.update(claim.id, |node| node.until = self.unsure_until());
                match session.client.set_data(&path, &NodeText::of(claim).bytes(), None).await {
                    Ok(_) => Ok(Some(self.granted(session, claim, &node))),
                    Err(error) if fault::is_gone(&error) => {
                        self.table.remove_claim(claim.id);
                        Ok(None)
                    }
                    Err(error) => Err(self.fault(error)),
                }
            }
        }
    }

    /// Claims with a new node. `passing` is the path of the node that passes the lock on.
    async fn claim_at_the_end(
        &self,
        session: &Session,
        claim: &Claim,
        passing: Option<(&Claim, &str)>,
    ) -> Result<Verdict> {
        let mut node = self.new_node(session, &claim.key);
        self.table.keep_claim(claim.id, node.clone());
        let enqueued = match self.enqueue(session, &mut node, &NodeText::of(claim), passing.map(|(_, path)| path)).await
        {
            Ok(enqueued) => enqueued,
            Err(error) => {
                let error = self.fault(error);
                if !error.maybe_applied() {
                    self.table.remove_claim(claim.id);
                }
                return Err(error);
            }
        };
        self.table.keep_claim(claim.id, node.clone());
        if let (Some((from, _)), Some(Ok(()) | Err(zookeeper_client::Error::NoNode))) = (passing, &enqueued.deleted) {
            self.table.remove_claim(from.id);
        } else if let Some(Err(error)) = enqueued.deleted {
            return Err(self.fault(error));
        }
        // The node exists, so an error here is ambiguous.
        let position = enqueued.position.map_err(|error| self.fault(error).ambiguous())?;
        self.decide(session, claim, node, position).await
    }

    /// Grants or refuses a claim whose node is known.
    async fn decide(&self, session: &Session, claim: &Claim, node: Node, position: Position) -> Result<Verdict> {
        match position {
            Position::First => return Ok(self.granted(session, claim, &node)),
            Position::Missing => {
                self.table.remove_claim(claim.id);
                return Err(Error::unavailable(format!("{}: another client has deleted our node", self.store)));
            }
            Position::NoNumber => {
                self.delete(session, &node).await.map_err(|error| self.fault(error).ambiguous())?;
                self.table.remove_claim(claim.id);
                return Err(self.no_number());
            }
            Position::Behind(predecessor) => {
                if self.table.has_subscribers(&claim.key) && self.table.queued(&claim.key).is_none() {
                    // The client waits, so it keeps its place.
                    self.table.demote(claim.id);
                    self.watch(session, &claim.key, predecessor).await;
                    return Ok(Verdict::Busy { retry_after: RETRY_AFTER, ahead: None });
                }
            }
        }
        self.delete(session, &node).await.map_err(|error| self.fault(error).ambiguous())?;
        self.table.remove_claim(claim.id);
        Ok(Verdict::Busy { retry_after: RETRY_AFTER, ahead: None })
    }

    /// The grant of a claim. A write of this call has proved that the session is alive.
    fn granted(&self, session: &Session, claim: &Claim, node: &Node) -> Verdict {
        let valid_for = claim.ttl.min(session.valid_for);
        self.table.update(claim.id, |node| node.until = session.end_of(claim.ttl));
        let fences = Fences::ending(Fence::new(node.created_by), NonZeroU32::MIN);
        Verdict::Granted { fences, valid_for, followers: Vec::new() }
    }

    async fn release(&self, session: &Session, claim: &Claim) -> Result<Released> {
        let Some(node) = self.table.claim(claim.id) else {
            return Ok(Released::NotHeld);
        };
        let existed = self.delete(session, &node).await.map_err(|error| self.fault(error).ambiguous())?;
        if existed || node.path.is_some() {
            self.table.remove_claim(claim.id);
        }
        // A node without an answer stays in the table for some time: its creation can be applied late.
        Ok(if existed { Released::Freed { others: None } } else { Released::NotHeld })
    }

    async fn pass(&self, session: &Session, from: &Claim, to: &Claim) -> Result<Verdict> {
        check_pass(from.kind, to.kind)?;
        let held = self.table.claim_of(from.id, session.number).and_then(|node| node.path);
        let Some(path) = held.filter(|_| self.table.claim(to.id).is_none()) else {
            let verdict = self.claim(session, to).await?;
            // The first request has perhaps created the node of `to`, and not deleted the node of `from`.
            return match (verdict, self.release(session, from).await?) {
                (Verdict::Busy { .. }, Released::Freed { .. }) => self.claim(session, to).await,
                (verdict, _) => Ok(verdict),
            };
        };
        self.claim_at_the_end(session, to, Some((from, &path))).await
    }

    /// Renews holds. One write proves that the session is alive, and with it all nodes that are watched.
    pub(crate) async fn renew(&self, session: &Session, claims: &[Claim]) -> Result<Vec<Result<Renewal>>> {
        let checks = claims.iter().map(|claim| self.still_held(session, claim));
        let (proof, held) = futures_util::join!(session.prove(), futures_util::future::join_all(checks));
        proof.map_err(|error| self.fault(error))?;
        let answers = claims.iter().zip(held).map(|(claim, held)| {
            if !held? {
                return Ok(Renewal::Gone);
            }
            self.table.update(claim.id, |node| node.until = session.end_of(claim.ttl));
            Ok(Renewal::Extended { valid_for: claim.ttl.min(session.valid_for) })
        });
        Ok(answers.collect())
    }

    /// Whether the node of a hold exists. If it is not watched yet, this function asks the server and sets a watch.
    async fn still_held(&self, session: &Session, claim: &Claim) -> Result<bool> {
        let node = self.table.claim_of(claim.id, session.number);
        let Some(Node { path: Some(path), is_watched, .. }) = node else { return Ok(false) };
        if is_watched {
            return Ok(true);
        }
        let (stat, watcher) = session.client.check_and_watch_stat(&path).await.map_err(|error| self.fault(error))?;
        if stat.is_none() {
            self.table.remove_claim(claim.id);
            return Ok(false);
        }
        self.table.update(claim.id, |node| node.is_watched = true);
        self.report_change(claim.id, watcher);
        Ok(true)
    }
}
