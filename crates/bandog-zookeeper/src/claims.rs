//! Claims and releases of mutexes, read-write locks and semaphores (see `semaphore`).
//!
//! A claim creates a node at the end of the queue. If the node is the first one, the claim holds the lock; a reader also
//! holds it if no writer is before it. Otherwise the node is deleted, because most claims do not wait. Waiting calls have
//! a node of their own in the queue, which they keep while they subscribe (see `waiters`). When this node is the first
//! one, the next claim gets it. A claim that has a place ([`Claim::joins`]) keeps its own node.

use std::time::Duration;

use bandog_core::{Answer, Claim, Error, Family, Kind, PLACE, Released, Result, Step, Verdict, check_pass};
use tokio::time::{Instant, timeout};
use zookeeper_client::{Error as ZkError, Stat};

use crate::{
    fault,
    host::Shared,
    nodes::{NodeText, Word},
    queue::{Ahead, Awaited, Position, fences, number_of},
    semaphore::{Asked, is_of_a_semaphore},
    session::Session,
    table::{Line, Node, Permits},
};

/// The time that a refusal names, because ZooKeeper does not know when a hold ends.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Interval at which a waiting client lists the folder, although the watch of its predecessor has reported nothing.
const LIST_INTERVAL: Duration = Duration::from_secs(10);

/// The node of a client that is refused, because the lock is of another kind, exists for at most this part of a request's
/// timeout, if the client lives.
const REFUSED_FOR: u32 = 20;

const BUSY: Verdict = Verdict::Busy { retry_after: RETRY_AFTER, ahead: None };

impl Shared {
    /// Applies one step. No other step for the same name of this backend runs meanwhile, except of claims with places of their
    /// own.
    pub(crate) async fn step(&self, session: &Session, step: &Step) -> Result<Answer> {
        match step {
            Step::Claim(claim) => Ok(Answer::Claimed(self.claim(session, claim).await?)),
            Step::Release(claim) => Ok(Answer::Released(self.release(session, claim).await?)),
            Step::Pass { from, to } => Ok(Answer::Claimed(self.pass(session, from, to).await?)),
        }
    }

    pub(crate) async fn claim(&self, session: &Session, claim: &Claim) -> Result<Verdict> {
        let line = Line::of(claim);
        let queued = self.table.queued(&line).filter(|node| node.session == session.number);
        let has_node = self.table.claim(claim.id).is_some();
        if queued.as_ref().is_some_and(|node| node.path.is_some()) && has_place(claim) && !has_node {
            // The place of the waiting calls becomes the place of the claim.
            self.table.promote(&line, claim.id, self.unsure_until());
        }
        if let Some(mut node) = self.table.claim_of(claim.id, session.number) {
            // The claim was sent before.
            if let Some(verdict) = self.permits_again(session, claim, &mut node).await? {
                return Ok(verdict);
            }
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
        let (proof, position) = self.proven_position(session, &node, path).await;
        let position = position.map_err(|error| self.fault(error))?;
        if position == Position::Missing {
            self.table.remove_claim(claim.id);
            return Ok(None);
        }
        proof.map_err(|error| self.fault(error))?;
        let transaction = node.transaction;
        self.decide(session, claim, node, position, transaction).await.map(Some)
    }

    /// The position of a node of ours. If a grant depends on it, a write proves at the same time that the session is alive, and
    /// with it the node: for a claim that was granted before, and for one that may be first now.
    async fn proven_position(
        &self,
        session: &Session,
        node: &Node,
        path: &str,
    ) -> (Result<(), ZkError>, Result<Position, ZkError>) {
        let may_be_first = node.waits
            && counts_from_creation(node)
            && !self.table.is_watching(node)
            && session.recently_proven().is_none();
        let needs_proof = node.transaction.is_some() || may_be_first;
        let proof = async { if needs_proof { session.prove().await.map(drop) } else { Ok(()) } };
        futures_util::join!(proof, self.position_of(session, &node.line, path))
    }

    /// Claims with the node of the waiting calls. None if the node does not exist any more.
    async fn claim_in_place(&self, session: &Session, claim: &Claim, node: Node) -> Result<Option<Verdict>> {
        let Some(path) = node.path.clone() else {
            self.settle_queued(session, node).await?;
            return Ok(None);
        };
        let is_listed = node.listed.is_some_and(|listed| listed.elapsed() < LIST_INTERVAL);
        if is_listed && self.table.is_watching(&node) {
            return Ok(Some(BUSY)); // The watch would have reported that the predecessor is gone.
        }
        let (proof, position) = self.proven_position(session, &node, &path).await;
        let position = position.and_then(|position| proof.map(|()| position)).map_err(|error| self.fault(error))?;
        match position {
            // A client that is refused because the lock is of another kind has a node for a moment. This client waits until
            // the node is gone.
            Position::Behind(Ahead { awaited: Awaited::Deletion(path), .. }) | Position::Taken(_, path) => {
                self.table.update_queued(&node.line, |node| node.listed = Some(Instant::now()));
                self.watch(session, claim, &node, Awaited::Deletion(path)).await;
                Ok(Some(BUSY))
            }
            Position::Behind(ahead) => {
                self.watch(session, claim, &node, ahead.awaited).await;
                Ok(Some(BUSY))
            }
            Position::NoNumber => {
                let refusal = self.refusal(&position, node.line.word);
                self.settle_queued(session, node).await?;
                refusal.map_or(Ok(None), Err)
            }
            Position::First if is_of_a_semaphore(&node.line) => self.take_in_place(session, claim, node).await,
            Position::First => {
                // From here on the node belongs to the claim, also if the answer is lost.
                self.table.promote(&node.line, claim.id, self.unsure_until());
                self.grant(session, claim, &node, None).await
            }
            Position::Missing => {
                self.table.remove_queued(&node.line);
                Ok(None)
            }
        }
    }

    /// Takes permits with the node of the waiting calls, which is the first one. If there are no permits, the node waits on.
    async fn take_in_place(&self, session: &Session, claim: &Claim, node: Node) -> Result<Option<Verdict>> {
        // From here on the node belongs to the claim, also if the answer is lost.
        self.table.promote(&node.line, claim.id, self.unsure_until());
        match self.ask_for_permits(session, claim, &node, Position::First, false).await? {
            Asked::Granted(verdict) => Ok(Some(verdict)),
            Asked::At(Position::Missing) => {
                self.table.remove_claim(claim.id);
                Ok(None)
            }
            Asked::At(Position::Behind(ahead)) => {
                self.table.update(claim.id, |node| node.listed = None);
                self.table.demote(claim.id);
                self.watch(session, claim, &node, ahead.awaited).await;
                Ok(Some(BUSY))
            }
            Asked::At(position) => self.decide(session, claim, node, position, None).await.map(Some),
            Asked::Refused(error) => {
                self.give_up(session, claim, &node).await?;
                Err(error)
            }
        }
    }

    /// Deletes the node of a claim.
    async fn give_up(&self, session: &Session, claim: &Claim, node: &Node) -> Result<()> {
        self.delete(session, node).await.map_err(|error| self.fault(error).ambiguous())?;
        self.table.remove_claim(claim.id);
        Ok(())
    }

    /// Claims with a new node. `passing` is the path of the node that passes the lock on.
    async fn claim_at_the_end(
        &self,
        session: &Session,
        claim: &Claim,
        passing: Option<(&Claim, &str)>,
    ) -> Result<Verdict> {
        let mut node = self.new_node(session, Line::of(claim));
        node.joins = has_place(claim);
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
        let (position, transaction) = enqueued.listed.map_err(|error| self.fault(error).ambiguous())?;
        self.decide(session, claim, node, position, transaction).await
    }

    /// Grants or refuses a claim whose node is known. `transaction` is the number of the transaction that granted the lock,
    /// if it is known.
    async fn decide(
        &self,
        session: &Session,
        claim: &Claim,
        node: Node,
        position: Position,
        transaction: Option<u64>,
    ) -> Result<Verdict> {
        let position = match position {
            // A lock of another kind deletes its permits when it sees the node of this claim.
            Position::Taken(Family::Semaphore, _) if node.transaction.is_some() => Position::First,
            position if is_of_a_semaphore(&node.line) => {
                let is_patient = !has_place(claim) && !self.will_wait(&node);
                match self.ask_for_permits(session, claim, &node, position, is_patient).await? {
                    Asked::Granted(verdict) => return Ok(verdict),
                    Asked::At(position) => position,
                    Asked::Refused(error) => {
                        self.give_up(session, claim, &node).await?;
                        return Err(error);
                    }
                }
            }
            position => position,
        };
        let refusal = self.refusal(&position, node.line.word);
        let mut in_the_way = None;
        match position {
            Position::First => {
                if let Some(verdict) = self.grant(session, claim, &node, transaction).await? {
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
                if self.will_wait(&node) {
                    return self.keep_for_waiters(session, claim, node, ahead.awaited).await;
                }
            }
            // See `claim_in_place`.
            Position::Taken(_, first) if node.waits => {
                let ahead = Ahead { awaited: Awaited::Deletion(first.clone()), first, count: 1 };
                return self.keep_place(session, claim, node, ahead).await;
            }
            Position::Taken(_, first) => in_the_way = Some(first),
            Position::NoNumber => {}
        }
        self.delete(session, &node).await.map_err(|error| self.fault(error).ambiguous())?;
        self.table.remove_claim(claim.id);
        match (in_the_way, refusal) {
            (Some(first), _) if self.is_gone_soon(session, &first).await => Ok(BUSY),
            (_, Some(refusal)) => Err(refusal),
            (_, None) => Ok(BUSY),
        }
    }

    /// Whether the node of a refused claim becomes the node of the waiting calls.
    fn will_wait(&self, node: &Node) -> bool {
        self.table.has_subscribers(&node.line) && self.table.queued(&node.line).is_none()
    }

    /// Whether a node of another kind of lock is deleted within a moment. Then it was the node of a client that was refused.
    async fn is_gone_soon(&self, session: &Session, path: &str) -> bool {
        let gone = async {
            while let Ok((Some(_), watcher)) = session.client.check_and_watch_stat(path).await {
                watcher.changed().await;
            }
        };
        timeout(self.timeout() / REFUSED_FOR, gone).await.is_ok()
    }

    /// Makes the node of a refused claim the node of the waiting calls. So the client keeps its place.
    async fn keep_for_waiters(
        &self,
        session: &Session,
        claim: &Claim,
        mut node: Node,
        awaited: Awaited,
    ) -> Result<Verdict> {
        if !self.marked_as_waiting(session, claim, &node).await? {
            self.table.remove_claim(claim.id);
            return Err(self.node_is_gone());
        }
        let listed = matches!(awaited, Awaited::Deletion(_)).then(Instant::now);
        (node.waits, node.transaction, node.listed) = (true, None, listed);
        self.table.keep_claim(claim.id, node.clone());
        self.table.demote(claim.id);
        self.watch(session, claim, &node, awaited).await;
        Ok(BUSY)
    }

    /// Writes into the node of a claim that it waits. Returns false if the node does not exist any more.
    async fn marked_as_waiting(&self, session: &Session, claim: &Claim, node: &Node) -> Result<bool> {
        let text = NodeText::waiting(claim, node.line.word);
        Ok(self.marked(session, node, &text).await?.is_some())
    }

    /// Writes the data of a node that exists already, unless its data may not change. This also proves that the session is
    /// alive. None if the node does not exist any more.
    pub(crate) async fn marked(&self, session: &Session, node: &Node, text: &NodeText) -> Result<Option<Stat>> {
        let Some(path) = &node.path else { return Ok(None) };
        let written = if node.line.word.may_change() {
            let began = Instant::now();
            let written = session.client.set_data(path, &text.bytes(), None).await.map(Some);
            if written.is_ok() {
                session.has_written(began);
            }
            written
        } else {
            // The proof is sent first, so the session was alive when the server checked the node.
            let (proof, stat) = futures_util::join!(session.prove(), session.client.check_stat(path));
            proof.map_err(|error| self.fault(error).ambiguous())?;
            stat
        };
        match written {
            Ok(stat) => Ok(stat),
            Err(error) if fault::is_gone(&error) => Ok(None),
            Err(error) => Err(self.fault(error).ambiguous()),
        }
    }

    /// Refuses a claim that keeps its node as a place.
    async fn keep_place(&self, session: &Session, claim: &Claim, mut node: Node, ahead: Ahead) -> Result<Verdict> {
        if !node.waits && !self.marked_as_waiting(session, claim, &node).await? {
            self.table.remove_claim(claim.id);
            return Err(self.node_is_gone());
        }
        node.waits = true;
        (node.transaction, node.until) = (None, Instant::now() + PLACE);
        self.table.keep_claim(claim.id, node.clone());
        if self.table.has_subscribers(&node.line) {
            self.watch(session, claim, &node, ahead.awaited).await;
        }
        let ahead = match claim.kind {
            Kind::Fair => {
                // The first node may be that of the holder, and not a place.
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

    /// Grants the lock to a claim whose node is first. If the transaction is not known, [`Self::marked`] says its number,
    /// unless the grant needs no write. None if the node does not exist any more.
    pub(crate) async fn grant(
        &self,
        session: &Session,
        claim: &Claim,
        node: &Node,
        transaction: Option<u64>,
    ) -> Result<Option<Verdict>> {
        let (transaction, proven_for) = match (transaction, without_a_write(session, node)) {
            (Some(transaction), _) => (transaction, session.valid_for),
            (None, Some(proven)) => {
                self.mark_later(session, claim, node);
                proven
            }
            (None, None) => match self.marked(session, node, &NodeText::of(claim)).await? {
                Some(stat) => (number_of(node.line.word, &stat), session.valid_for),
                None => {
                    self.table.remove_claim(claim.id);
                    return Ok(None);
                }
            },
        };
        let valid_for = claim.ttl.min(proven_for);
        self.table.update(claim.id, |node| {
            (node.transaction, node.waits, node.until) = (Some(transaction), false, session.end_of(claim.ttl));
        });
        Ok(Some(Verdict::Granted { fences: fences(transaction, claim.fences), valid_for, followers: Vec::new() }))
    }

    /// Sends the data of a node that waited until now, and does not await the answer. If the answer is lost, others see the
    /// holder as a waiter until the first renewal, which writes the data again.
    fn mark_later(&self, session: &Session, claim: &Claim, node: &Node) {
        let Some(path) = node.path.as_ref().filter(|_| node.line.word.may_change()) else { return };
        // The request is sent with this call.
        drop(session.client.set_data(path, &NodeText::of(claim).bytes(), None));
        self.table.update(claim.id, |node| node.is_unmarked = true);
    }

    async fn release(&self, session: &Session, claim: &Claim) -> Result<Released> {
        let Some(node) = self.table.claim(claim.id) else {
            return Ok(Released::NotHeld);
        };
        let existed = self.delete(session, &node).await.map_err(|error| self.fault(error).ambiguous())?;
        if existed || node.path.is_some() && node.permits != Permits::Unsure {
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
        if let Some(verdict) = self.pass_permits(session, from, to).await? {
            return Ok(verdict);
        }
        let held = self.table.claim_of(from.id, session.number).filter(|node| !node.waits).and_then(|node| node.path);
        let may_pass = !matches!(to.kind, Kind::Permits { .. }) && self.table.claim(to.id).is_none();
        let Some(path) = held.filter(|_| may_pass) else {
            let verdict = self.claim(session, to).await?;
            // The first request may have created the node of `to`, and not have deleted the node of `from`.
            return match (verdict, self.release(session, from).await?) {
                (Verdict::Busy { .. }, Released::Freed { .. }) => self.claim(session, to).await,
                (verdict, _) => Ok(verdict),
            };
        };
        self.claim_at_the_end(session, to, Some((from, &path))).await
    }

    fn node_is_gone(&self) -> Error {
        Error::unavailable(format!("{}: another client has deleted our node", self.store))
    }
}

/// Whether a claim keeps its node as a place if it is refused.
fn has_place(claim: &Claim) -> bool {
    match claim.kind {
        Kind::Mutex | Kind::Read => false,
        Kind::Fair | Kind::Write => claim.joins,
        Kind::Permits { .. } => claim.joins && claim.offers,
    }
}

/// Whether the fences of a grant are counted from the creation of its node, so that the grant needs no write.
fn counts_from_creation(node: &Node) -> bool {
    matches!(node.line.word, Word::Lock | Word::Latch)
}

/// If the grant to a node that is first needs no write: the number of the transaction that created the node, and the duration
/// for which the session is proven to be alive.
fn without_a_write(session: &Session, node: &Node) -> Option<(u64, Duration)> {
    node.created.filter(|_| counts_from_creation(node)).zip(session.recently_proven())
}
