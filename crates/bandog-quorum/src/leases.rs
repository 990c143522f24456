//! The backend, and its implementation of [`Leases`].

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Error, Kinds, Latches, Leases, Member, Notifier, Profile, QuorumNode, Records,
    Renewal, Result, Step, Subscription,
};
use futures_util::future::{FutureExt, join_all};
use tokio::time::timeout;

use crate::{
    agreement::{Terms, is_stored_by_majority},
    contention::Contention,
    gather::{GRACE, Progress, Requests, gather},
    node::{Node, now},
    options::QuorumOptions,
    pauses::WakeUps,
    renewals::{RenewalBallot, Renewals},
    rules::{Vote, majority},
    task::Tasks,
};

/// Minimum time for which a renewal or a subscription awaits the other nodes after a majority has answered, if the ttl is
/// long enough. A server that has restarted needs more round trips than the others, and its answer to a renewal shows that
/// it has lost the hold. A waiter should be subscribed at all nodes. No caller waits for a renewal, and a waiter waits in
/// any case.
const LONG_GRACE: Duration = Duration::from_millis(30);

/// Leases on a majority of several independent stores, which are the *nodes* of the quorum.
///
/// - A claim is sent to all nodes at the same time. It is granted if a majority of the nodes grants it. Any two
///   majorities have a node in common, which does not grant the same lock twice. If there is no majority, the claim is
///   released at all nodes.
/// - If clients contend for a lock, their claims go to the same node first, and to the others after its grant. So the
///   clients do not split the nodes among themselves.
/// - A claim that was handed back is sent again with another id to the nodes that have not answered its release in time. So
///   a release that arrives late does not remove the new hold.
/// - The answer says for how long the grant is valid: the shortest time at the nodes of the majority, less the time that
///   the call has taken, less 1 % of the ttl and 2 ms for clocks that are too fast.
/// - A node must answer within a third of the timeout. A node that does not answer delays only the calls that are under
///   way. Later calls wait for it only if the other nodes are no majority.
/// - A claim that is sent again while it holds its lock keeps its fences, or gets greater ones if another majority of the
///   nodes answers.
/// - A majority stores the fence of a grant before the grant is answered. So fences rise as long as no node loses its
///   data. If nodes lose their data, fences rise if the clocks of the nodes differ by less than `max_ttl`.
/// - A store without persistence loses its locks when it restarts. So a node has a *vote* only when its server has run
///   for longer than `max_ttl`. The ttl of a claim must not exceed `max_ttl`: so the locks that the node has lost have
///   ended when the node gets its vote. A node that hides its uptime has no vote, and [`Leases::ping`] fails.
///
/// An odd number of nodes is best. With four nodes, a majority is three, so only one node may be down, as with three
/// nodes.
///
/// # Kinds
/// There are mutexes and read-write locks: two claims of which one excludes the other meet at a node, and this node
/// refuses one of them. Other locks cannot work in this way:
///
/// - Semaphores: three nodes with 2 permits each would admit 3 claims, because each claim needs only two nodes.
/// - Fair mutexes: the queues of the nodes can have different orders.
/// - Latches, barriers, elections and schedules: they count or compare versions in one store.
pub struct Quorum<B: QuorumNode> {
    pub(crate) nodes: Vec<Arc<Node<B>>>,
    pub(crate) tasks: Tasks<B>,
    /// The positions of the nodes, in an order that is the same for all clients.
    pub(crate) order: Vec<usize>,
    pub(crate) renewals: Renewals,
    pub(crate) contention: Contention,
    /// Whether a majority of the nodes has stored our terms.
    has_agreed: Arc<AtomicBool>,
    pub(crate) options: QuorumOptions,
    store: String,
}

impl<B: QuorumNode> Quorum<B> {
    /// Creates a quorum of these nodes. This does no I/O. All clients must name the same nodes: with other nodes, two
    /// majorities may have no node in common. The number of nodes is stored at the nodes, and a client with another
    /// number is refused. A client that names other nodes, and as many of them, is not noticed.
    ///
    /// The timeout of a request to a node should be [`QuorumOptions::node_timeout`].
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Misused`](bandog_core::ErrorKind::Misused) if there are fewer than three nodes.
    ///
    /// ```
    /// use bandog_core::{Clock, Memory};
    /// use bandog_quorum::{Quorum, QuorumOptions};
    /// let nodes = [1, 2].map(|_| Memory::new(Clock::system()));
    /// assert!(Quorum::new(nodes, QuorumOptions::default()).is_err(), "two nodes are too few");
    /// ```
    pub fn new(nodes: impl IntoIterator<Item = B>, options: QuorumOptions) -> Result<Self> {
        let has_agreed = Arc::<AtomicBool>::default();
        let backends: Vec<_> = nodes.into_iter().collect();
        let terms = Terms { max_ttl: options.max_ttl, nodes: backends.len() };
        let node = |backend| Arc::new(Node::new(backend, options.node_timeout(), terms, Arc::clone(&has_agreed)));
        let nodes: Vec<_> = backends.into_iter().map(node).collect();
        if nodes.len() < 3 {
            return Err(Error::misused(format!("a quorum has {} nodes; it needs at least 3", nodes.len())));
        }
        let addresses: Vec<_> = nodes.iter().map(|node| node.store.as_str()).collect();
        let store = options.store.clone().unwrap_or_else(|| addresses.join(" + "));
        let mut order: Vec<_> = (0..nodes.len()).collect();
        order.sort_by_key(|at| &nodes[*at].store);
        let (tasks, renewals, contention) = (Tasks::new(nodes.clone()), Renewals::default(), Contention::default());
        Ok(Self { nodes, tasks, order, renewals, contention, has_agreed, options, store })
    }

    /// Checks once that a majority of the nodes has stored our terms, and stores them if no node has others.
    async fn agree(&self) -> Result<()> {
        let deadline = self.deadline();
        // All nodes are read before the first one is written: a client with wrong terms leaves no trace.
        for stores in [false, true] {
            if self.has_agreed.load(Relaxed) {
                return Ok(());
            }
            let answers = Self::unanimous(self.ask_all_by(deadline, |node| node.agree(stores)).await)?;
            self.has_agreed.fetch_or(is_stored_by_majority(&answers, self.nodes.len()), Relaxed);
        }
        if self.has_agreed.load(Relaxed) {
            return Ok(());
        }
        Err(Error::unavailable("too few nodes of the quorum have stored max_ttl and their number"))
    }
}

/// The kinds of locks that a quorum has.
pub(crate) const KINDS: Kinds = Kinds::MUTEX.and(Kinds::READ_WRITE);

impl<B: QuorumNode> fmt::Debug for Quorum<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorum").field("store", &self.store).finish_non_exhaustive()
    }
}

#[async_trait]
impl<B: QuorumNode> Leases for Quorum<B> {
    async fn ping(&self) -> Result<()> {
        // A node that hides its uptime never gets a vote, so the user must know it although the others are a majority.
        let ping = Self::unanimous(self.ask_all(|node| node.ping()).await);
        match ping {
            Ok(_) => self.agree().await,
            Err(error) => Err(error),
        }
        .map_err(|error| error.during("connect"))
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.tasks.start();
        let asked = now();
        match self.agree().await {
            // The first calls of a client also agree on the terms, and this must not take their time.
            Ok(()) => self.apply_steps(steps, asked, self.deadline()).await,
            Err(error) => steps.iter().map(|step| Err(error.clone().during(step.verb()).at(step.key()))).collect(),
        }
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.tasks.start();
        let (requests, asked, in_flight) = (Requests::new(), now(), self.renewals.begin(claims));
        let ballot =
            |claim: &Claim| RenewalBallot { claim: claim.clone(), votes: vec![Vote::Awaited; self.nodes.len()] };
        let mut ballots: Vec<_> = claims.iter().map(ballot).collect();
        let grace = claims.iter().map(|claim| claim.ttl / 10).min();
        let grace = grace.map_or(GRACE, |grace| grace.min(LONG_GRACE));
        for (at, node) in self.nodes.iter().enumerate() {
            if self.leaves_out(node) {
                for ballot in &mut ballots {
                    ballot.votes[at] = Vote::Missing(node.silence());
                }
            } else {
                requests.push(node.renew(claims).map(move |answers| (at, answers)).boxed());
            }
        }
        gather(requests, self.deadline(), grace, |at, answers: Vec<_>| {
            for (ballot, answer) in ballots.iter_mut().zip(answers) {
                ballot.votes[at] = answer.map_or_else(Vote::Missing, Vote::Given);
            }
            ballots.iter().map(RenewalBallot::progress).min().unwrap_or(Progress::Done)
        })
        .await;
        let timeout = self.timeout();
        ballots.into_iter().map(|ballot| ballot.end(&self.nodes, asked, &in_flight, &timeout)).collect()
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.tasks.start();
        let (requests, mut subscriptions) = (Requests::new(), Vec::new());
        let (all_nodes, needed) = (self.nodes.len(), majority(self.nodes.len()));
        let wake_ups = WakeUps::new(&claim.key, &self.contention, notifier, all_nodes, needed);
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| !self.leaves_out(node)) {
            let subscribe = node.subscribe(claim, wake_ups.of_node(at));
            requests.push(subscribe.map(move |subscription| (at, subscription)).boxed());
        }
        let (mut first_error, mut answered, all) = (None, 0, requests.len());
        gather(requests, self.deadline(), LONG_GRACE, |_, subscription| {
            answered += 1;
            match subscription {
                Ok(subscription) => subscriptions.push(subscription),
                Err(error) => first_error = Some(error),
            }
            match subscriptions.len() {
                _ if answered == all => Progress::Done,
                ready if ready >= needed => Progress::Enough,
                _ => Progress::Wait,
            }
        })
        .await;
        if subscriptions.len() < needed {
            let error = first_error.unwrap_or_else(|| self.timeout());
            return Err(error.during("subscribe").at(&claim.key));
        }
        if subscriptions.iter().all(Subscription::is_silent) {
            return Ok(Subscription::silent());
        }
        let waits = self.contention.begin_wait(&claim.key);
        Ok(Subscription::new(move || drop((subscriptions, waits))))
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        let votes = self.ask_all(|node| node.backend.register(member, ttl)).await;
        Self::majority_of(votes).map(|_| ()).map_err(|error| error.during("register"))
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        let votes = self.ask_all(|node| node.backend.deregister(client)).await;
        Self::majority_of(votes).map(|_| ()).map_err(|error| error.during("deregister"))
    }

    /// Waits until each node that answers has released the claims that it must release.
    async fn drain(&self, at_most: Duration) {
        let drains = self.nodes.iter().map(|node| node.drain());
        // The other holds expire after their ttl.
        let _ = timeout(at_most, join_all(drains)).await;
    }

    fn profile(&self) -> Profile {
        let profiles: Vec<_> = self.nodes.iter().map(|node| node.backend.profile()).collect();
        Profile {
            max_steps: Profile::MAX_STEPS,
            store: self.store.clone(),
            timeout: self.options.timeout,
            kinds: KINDS,
            // Its nodes grant less than a long lease, and a node can have a hold under another id.
            outlive_clients: Kinds::NONE,
            has_records: false,
            fence_survives_failover: profiles.iter().all(|profile| profile.fence_survives_failover),
            may_undo: profiles.iter().map(|profile| profile.may_undo).max().unwrap_or_default(),
            checks_locks_in: None,
            completes_runs_in: None,
            expiry: "the clocks of the nodes",
            epoch: self.tasks.epoch(),
        }
    }
}

impl<B: QuorumNode> Records for Quorum<B> {}
impl<B: QuorumNode> Latches for Quorum<B> {}

impl<B: QuorumNode> Backend for Quorum<B> {}
