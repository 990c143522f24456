//! Claims and releases of mutexes and read-write locks.
//!
//! A claim creates a node at the end of the queue. If the node is the first one, the claim holds the lock; a reader also
//! holds it if no writer is before it. Otherwise the node is deleted, because most claims do not wait. Waiting calls have
//! a node of their own in the queue, which they keep while they subscribe (see `waiters`). When this node is the first
//! one, the next claim gets it. A claim that has a place ([`Claim::joins`]) keeps its own node.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{
    Answer, Claim, Error, Fence, Fences, Kind, PLACE, Released, Renewal, Result, Step, Verdict, check_pass,
};
use tokio::time::Instant;
use zookeeper_client::Error as ZkError;

use crate::{
    fault,
    host::Shared,
    leases::line_of,
    nodes::NodeText,
    queue::{Ahead, Position, fence_of},
    session::Session,
    table::Node,
};

/// The time that a refusal names, because ZooKeeper does not know when a hold ends.
const RETRY_AFTER: Duration = Duration::from_secs(1);

const BUSY: Verdict = Verdict::Busy { retry_after: RETRY_AFTER, ahead: None };

impl Shared {
    /// Applies one step. No other step for the same name of this backend runs meanwhile.
    pub(crate) async fn step(&self, session: &Session, step: &Step) -> Result<Answer> {
        match step {
            Step::Claim(claim) => Ok(Answer::Claimed(self.claim(session, claim).await?)),
            Step::Release(claim) => Ok(Answer::Released(self.release(session, claim).await?)),
            Step::Pass { from, to } => Ok(Answer::Claimed(self.pass(session, from, to).await?)),
        }
    }

    pub(crate) async fn claim(&self, session: &Session, claim: &Claim) -> Result<Verdict> {
        let line = line_of(claim)?;
        let queued = self.table.queued(&line).filter(|node| node.session == session.number);
        let has_node = self.table.claim(claim.id).is_some();
        if queued.as_ref().is_some_and(|node| node.path.is_some()) && has_place(claim) && !has_node {
            // The place of the waiting calls becomes the place of the claim.
            self.table.promote(&line, claim.id);
        }
        if let Some(node) = self.table.claim_of(claim.id, session.number) {
            // The claim was sent before.
            if let Some(verdict) = self.claim_again(session, claim, node).await? {
                return Ok(verdict);
            }
        }
        if let Some(node) = self.table.queued(&line).filter(|node| node.session == session.number) {
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
            let Some(path) = self.find(session, &node).await.map_err(|error| self.fault(error))? else {
                self.table.remove_claim(claim.id);
                self.table.suspect(node);
                return Ok(None);
            };
            node.path = Some(path);
            self.table.keep_claim(claim.id, node.clone());
        }
        let Some(path) = &node.path else { return Ok(None) };
        // For a claim that was granted before, a write proves that the session is alive, and with it the node.
        let proof = async { if node.fence.is_some() { session.prove().await.map(drop) } else { Ok(()) } };
        let (proof, position) = futures_util::join!(proof, self.position_of(session, &node.line, path));
        let position = position.map_err(|error| self.fault(error))?;
        if position == Position::Missing {
            self.table.remove_claim(claim.id);
            return Ok(None);
        }
        proof.map_err(|error| self.fault(error))?;
        let fence = node.fence;
        self.decide(session, claim, node, position, fence).await.map(Some)
    }

    /// Claims with the node of the waiting calls. None if the node does not exist any more.
    async fn claim_in_place(&self, session: &Session, claim: &Claim, node: Node) -> Result<Option<Verdict>> {
        let Some(path) = node.path.clone() else {
            self.settle_queued(session, node).await?;
            return Ok(None);
        };
        let position = self.position_of(session, &node.line, &path).await.map_err(|error| self.fault(error))?;
        if let Some(refusal) = self.refusal(&position, node.line.word) {
            self.settle_queued(session, node).await?;
            return Err(refusal);
        }
        match position {
            Position::Behind(ahead) => {
                self.watch(session, &node, ahead.predecessor).await;
                Ok(Some(BUSY))
            }
            Position::First => {
                // From here on the node belongs to the claim, also if the answer is lost.
                self.table.promote(&node.line, claim.id);
                self.table.update(claim.id, |node| node.until = self.unsure_until());
                self.grant(session, claim, &node, None).await
            }
            Position::Missing | Position::NoNumber | Position::Taken(_) => {
                self.table.remove_queued(&node.line);
                Ok(None)
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
        let mut node = self.new_node(session, line_of(claim)?);
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
        if let (Some((from, _)), Some(Ok(()) | Err(ZkError::NoNode))) = (passing, &enqueued.deleted) {
            self.table.remove_claim(from.id);
        } else if let Some(Err(error)) = enqueued.deleted {
            return Err(self.fault(error));
        }
        // The node exists, so an error here is ambiguous.
        let (position, fence) = enqueued.listed.map_err(|error| self.fault(error).ambiguous())?;
        self.decide(session, claim, node, position, fence).await
    }

    /// Grants or refuses a claim whose node is known. `fence` is the fence of a grant, if it is known.
    async fn decide(
        &self,
        session: &Session,
        claim: &Claim,
        node: Node,
        position: Position,
        fence: Option<u64>,
    ) -> Result<Verdict> {
        let refusal = self.refusal(&position, node.line.word);
        match position {
            Position::First => {
                if let Some(verdict) = self.grant(session, claim, &node, fence).await? {
                    return Ok(verdict);
                }
                return Err(self.node_is_gone());
            }
            Position::Missing => {
                self.table.remove_claim(claim.id);
                return Err(self.node_is_gone());
            }
            Position::Behind(ahead) => {
                if node.waits || has_place(claim) {
                    return self.keep_place(session, claim, node, ahead).await;
                }
                if self.table.has_subscribers(&node.line) && self.table.queued(&node.line).is_none() {
                    // The client waits, so it keeps its place.
                    self.table.demote(claim.id);
                    self.watch(session, &node, ahead.predecessor).await;
                    return Ok(BUSY);
                }
            }
            Position::NoNumber | Position::Taken(_) => {}
        }
        self.delete(session, &node).await.map_err(|error| self.fault(error).ambiguous())?;
        self.table.remove_claim(claim.id);
        refusal.map_or(Ok(BUSY), Err)
    }

    /// Refuses a claim that keeps its node as a place.
    async fn keep_place(&self, session: &Session, claim: &Claim, mut node: Node, ahead: Ahead) -> Result<Verdict> {
        if let Some(path) = node.path.as_ref().filter(|_| !node.waits) {
            let written = session.client.set_data(path, &NodeText::waiting(claim).bytes(), None).await;
            match written {
                Ok(_) => node.waits = true,
                Err(error) if fault::is_gone(&error) => {
                    self.table.remove_claim(claim.id);
                    return Err(self.node_is_gone());
                }
                Err(error) => return Err(self.fault(error).ambiguous()),
            }
        }
        (node.fence, node.until) = (None, Instant::now() + PLACE);
        self.table.keep_claim(claim.id, node.clone());
        if self.table.has_subscribers(&node.line) {
            self.watch(session, &node, ahead.predecessor).await;
        }
        let ahead = match claim.kind {
            Kind::Fair => {
                // The first node is perhaps that of the holder, and not a place.
                let is_place = match session.client.get_data(&ahead.first).await {
                    Ok((data, _)) => NodeText::read(&data).is_some_and(|text| text.waits),
                    Err(_) => false,
                };
                u32::try_from(if is_place { ahead.count } else { ahead.count - 1 }).ok()
            }
            Kind::Mutex | Kind::Read | Kind::Write | Kind::Permits { .. } => None,
        };
        Ok(Verdict::Busy { retry_after: RETRY_AFTER, ahead })
    }

    /// Grants the lock to a claim whose node is first. Without a known fence, a write of the node says the fence, and proves
    /// that the session is alive. None if the node does not exist any more.
    pub(crate) async fn grant(
        &self,
        session: &Session,
        claim: &Claim,
        node: &Node,
        fence: Option<u64>,
    ) -> Result<Option<Verdict>> {
        let fence = match (fence, &node.path) {
            (Some(fence), _) => fence,
            (None, None) => return Ok(None),
            (None, Some(path)) => match session.client.set_data(path, &NodeText::of(claim).bytes(), None).await {
                Ok(stat) => fence_of(node.line.word, &stat),
                Err(error) if fault::is_gone(&error) => {
                    self.table.remove_claim(claim.id);
                    return Ok(None);
                }
                Err(error) => return Err(self.fault(error).ambiguous()),
            },
        };
        let valid_for = claim.ttl.min(session.valid_for);
        self.table.update(claim.id, |node| {
            (node.fence, node.waits, node.until) = (Some(fence), false, session.end_of(claim.ttl));
        });
        let fences = Fences::ending(Fence::new(fence), NonZeroU32::MIN);
        Ok(Some(Verdict::Granted { fences, valid_for, followers: Vec::new() }))
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
        Ok(match (existed, node.waits) {
            (false, _) => Released::NotHeld,
            (true, true) => Released::LeftQueue,
            (true, false) => Released::Freed { others: None },
        })
    }

    async fn pass(&self, session: &Session, from: &Claim, to: &Claim) -> Result<Verdict> {
        check_pass(from.kind, to.kind)?;
        if from.kind != to.kind {
            return self.downgrade(session, from, to).await;
        }
        let held = self.table.claim_of(from.id, session.number).filter(|node| !node.waits).and_then(|node| node.path);
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

    /// Renews holds and places. One write proves that the session is alive, and with it all nodes that are watched.
    pub(crate) async fn renew(&self, session: &Session, claims: &[Claim]) -> Result<Vec<Result<Renewal>>> {
        let checks = claims.iter().map(|claim| self.still_there(session, claim));
        let (proof, there) = futures_util::join!(session.prove(), futures_util::future::join_all(checks));
        proof.map_err(|error| self.fault(error))?;
        let answers = claims.iter().zip(there).map(|(claim, there)| {
            let renewal = there?;
            let until = match renewal {
                Renewal::Extended { .. } => session.end_of(claim.ttl),
                Renewal::Waiting { .. } => Instant::now() + PLACE,
                Renewal::Gone => return Ok(renewal),
            };
            self.table.update(claim.id, |node| node.until = until);
            Ok(renewal)
        });
        Ok(answers.collect())
    }

    /// Whether the node of a hold or of a place exists. If the node of a hold is not watched yet, this function asks the
    /// server and sets a watch.
    async fn still_there(&self, session: &Session, claim: &Claim) -> Result<Renewal> {
        let node = self.table.claim_of(claim.id, session.number);
        let Some(Node { path: Some(path), is_watched, waits, line, .. }) = node else { return Ok(Renewal::Gone) };
        let extended = Renewal::Extended { valid_for: claim.ttl.min(session.valid_for) };
        if waits {
            let position = self.position_of(session, &line, &path).await.map_err(|error| self.fault(error))?;
            if position == Position::Missing {
                self.table.remove_claim(claim.id);
                return Ok(Renewal::Gone);
            }
            let is_next = matches!(claim.kind, Kind::Fair) && position == Position::First;
            return Ok(Renewal::Waiting { is_next });
        }
        if is_watched {
            return Ok(extended);
        }
        let (stat, watcher) = session.client.check_and_watch_stat(&path).await.map_err(|error| self.fault(error))?;
        if stat.is_none() {
            self.table.remove_claim(claim.id);
            return Ok(Renewal::Gone);
        }
        self.table.update(claim.id, |node| node.is_watched = true);
        self.report_change(claim.id, watcher);
        Ok(extended)
    }

    fn node_is_gone(&self) -> Error {
        Error::unavailable(format!("{}: another client has deleted our node", self.store))
    }
}

/// Whether a claim keeps its node as a place if it is refused.
fn has_place(claim: &Claim) -> bool {
    match claim.kind {
        Kind::Mutex | Kind::Read | Kind::Permits { .. } => false,
        Kind::Fair | Kind::Write => claim.joins,
    }
}
