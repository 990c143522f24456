//! Faults of nodes in memory, with a virtual clock.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, ErrorKind, Fences, Inspect, Key, Kind, Leases, Memory, Pattern, Released,
    Renewal, Result, Step, Verdict,
};
use bandog_quorum::{Quorum, QuorumOptions};
use bandog_testkit::eventually_async;
use futures_util::future::join_all;
use tokio::time::{Instant, advance};

use crate::node::{NodeFault, TestNode};

pub(crate) const MAX_TTL: Duration = Duration::from_secs(60);
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) type Nodes = Vec<TestNode<Memory>>;

pub(crate) fn nodes(number: usize) -> Nodes {
    (0..number).map(|_| TestNode::memory()).collect()
}

pub(crate) fn quorum(nodes: &Nodes) -> Quorum<TestNode<Memory>> {
    Quorum::new(nodes.clone(), QuorumOptions::default().max_ttl(MAX_TTL)).unwrap()
}

pub(crate) fn claim(kind: Kind) -> Claim {
    Claim {
        fences: NonZeroU32::new(4).unwrap(),
        ..Claim::new(
            Key::new("orders").unwrap(),
            ClaimId { client: ClientId::random(), number: 1 },
            kind,
            Duration::from_secs(30),
        )
    }
}

pub(crate) async fn step(store: &impl Leases, step: Step) -> Result<Answer> {
    store.apply(&[step]).await.remove(0)
}

/// The fences of a grant. None if the claim is refused.
pub(crate) async fn take(store: &impl Leases, claim: &Claim) -> Option<Fences> {
    granted(step(store, Step::Claim(claim.clone())).await.unwrap())
}

/// The fences of a grant. None for any other answer.
pub(crate) fn granted(answer: Answer) -> Option<Fences> {
    match answer {
        Answer::Claimed(Verdict::Granted { fences, .. }) => Some(fences),
        Answer::Claimed(Verdict::Busy { .. }) | Answer::Released(_) => None,
    }
}

pub(crate) async fn is_held(node: &TestNode<Memory>, key: &Key) -> bool {
    node.inner().show(key).await.unwrap().is_held()
}

/// Lets the second of three nodes grant this claim, which it must then release and cannot. Returns the claim that holds the
/// lock at the other nodes.
pub(crate) async fn must_release(quorum: &Quorum<TestNode<Memory>>, nodes: &Nodes, ours: &Claim) -> Claim {
    let theirs = claim(ours.kind);
    for node in [&nodes[0], &nodes[2]] {
        take(node, &theirs).await.unwrap();
    }
    nodes[1].fault(NodeFault::Releases);
    assert!(take(quorum, ours).await.is_none(), "one node grants the claim, and must release it");
    theirs
}

// Promise: RQ4
#[tokio::test(start_paused = true)]
async fn a_grant_needs_a_majority_and_the_others_are_handed_back() {
    let nodes = nodes(3);
    let (quorum, ours, theirs) = (quorum(&nodes), claim(Kind::Mutex), claim(Kind::Mutex));
    for node in &nodes[..2] {
        take(node, &theirs).await.unwrap();
    }
    assert!(take(&quorum, &ours).await.is_none());
    eventually_async(SOON, async || !is_held(&nodes[2], &ours.key).await).await;
    // Now the other claim has only one node.
    step(&nodes[0], Step::Release(theirs.clone())).await.unwrap();
    eventually_async(SOON, async || take(&quorum, &ours).await.is_some()).await;
    assert_eq!(
        step(&quorum, Step::Release(ours)).await.unwrap(),
        Answer::Released(Released::Freed { others: Some(0) })
    );
}

// Promise: RQ3
#[tokio::test(start_paused = true)]
async fn a_majority_stores_the_fence_of_a_grant() {
    let nodes = nodes(3);
    let (quorum, before) = (quorum(&nodes), claim(Kind::Mutex));
    // The counters of the nodes differ.
    for node in [0, 0, 0, 1] {
        take(&nodes[node], &before).await.unwrap();
        step(&nodes[node], Step::Release(before.clone())).await.unwrap();
    }
    for kind in [Kind::Mutex, Kind::Read, Kind::Write] {
        let held = claim(kind);
        let fences = take(&quorum, &held).await.unwrap();
        assert_eq!(take(&quorum, &held).await.unwrap(), fences, "a repeated claim has the same fences");
        for node in &nodes {
            let stored = node.inner().show(&held.key).await.unwrap().holders[0].last_fence;
            assert_eq!(stored, Some(fences.last()), "{kind}");
        }
        step(&quorum, Step::Release(held)).await.unwrap();
    }
}

// Promise: RQ1
#[tokio::test(start_paused = true)]
async fn no_call_takes_longer_than_a_node_may_take() {
    let nodes = nodes(5);
    let (quorum, ours) = (quorum(&nodes), claim(Kind::Mutex));
    let limit = QuorumOptions::default().node_timeout();
    nodes[0].hang(true);
    nodes[3].hang(true);
    let timed = async |what: &str, call: &mut dyn AsyncCall| {
        let start = Instant::now();
        call.call().await;
        assert!(
            start.elapsed() < Duration::from_millis(50),
            "{what} took {:?}; the limit is {limit:?}",
            start.elapsed()
        );
    };
    for _ in 0..20 {
        timed("a claim", &mut || async { assert!(take(&quorum, &ours).await.is_some()) }).await;
        timed("a renewal", &mut || async {
            let renewal = quorum.renew(std::slice::from_ref(&ours)).await.remove(0).unwrap();
            assert!(matches!(renewal, Renewal::Extended { .. }));
        })
        .await;
        timed("a release", &mut || async {
            let released = step(&quorum, Step::Release(ours.clone())).await.unwrap();
            assert!(matches!(released, Answer::Released(Released::Freed { .. })));
        })
        .await;
        timed("a ping", &mut || async { quorum.ping().await.unwrap() }).await;
    }
    // The third stopped node leaves no majority.
    nodes[1].hang(true);
    let start = Instant::now();
    let ours = claim(Kind::Mutex);
    let error = step(&quorum, Step::Claim(ours.clone())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(start.elapsed() <= limit, "{:?}", start.elapsed());
    // The claim is released when the nodes answer again.
    for node in &nodes {
        node.hang(false);
    }
    for node in &nodes {
        eventually_async(SOON, async || !is_held(node, &ours.key).await).await;
    }
}

/// A writer that waits has a place at a node that has refused it. If the other nodes grant the claim, the place is still
/// no hold.
// Promise: RQ2
#[tokio::test(start_paused = true)]
async fn a_place_at_a_node_is_no_hold() {
    let nodes = nodes(3);
    let (quorum, reader) = (quorum(&nodes), claim(Kind::Read));
    let ours = Claim { joins: true, ..claim(Kind::Write) };
    let renew = async || quorum.renew(std::slice::from_ref(&ours)).await.remove(0).unwrap();
    take(&*nodes[2].inner(), &reader).await.unwrap();
    assert!(take(&quorum, &ours).await.is_some());
    assert!(matches!(renew().await, Renewal::Extended { .. }));
    nodes[0].inner().evict(&ours.key).await.unwrap();
    assert_eq!(renew().await, Renewal::Waiting { is_next: false }, "one node has the hold, and another one a place");
}

/// If too few nodes answer a pass, it can be repeated: no other client gets the lock before.
#[tokio::test(start_paused = true)]
async fn a_pass_that_too_few_nodes_answer_releases_nothing() {
    let nodes = nodes(3);
    let (quorum, writer, reader) = (quorum(&nodes), claim(Kind::Write), claim(Kind::Read));
    assert!(take(&quorum, &writer).await.is_some());
    nodes[..2].iter().for_each(|node| node.fault(NodeFault::Refuses));
    let pass = async || step(&quorum, Step::Pass { from: Box::new(writer.clone()), to: reader.clone() }).await;
    assert!(pass().await.unwrap_err().is_retryable());
    nodes.iter().for_each(|node| node.fault(None));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let others = Quorum::new(nodes.clone(), QuorumOptions::default().max_ttl(MAX_TTL)).unwrap();
    assert!(take(&others, &claim(Kind::Write)).await.is_none(), "another writer gets the lock before the repetition");
    assert!(matches!(pass().await, Ok(Answer::Claimed(Verdict::Granted { .. }))));
}

/// One node passes the hold, one has no vote, and at one another claim has the lock for a moment. A majority has the
/// hold, so the pass is not refused, and no other writer gets the lock before the repetition.
// Promise: RQ6
#[tokio::test(start_paused = true)]
async fn a_pass_that_a_minority_refuses_releases_nothing() {
    let nodes = nodes(3);
    let (quorum, writer, reader) = (quorum(&nodes), claim(Kind::Write), claim(Kind::Read));
    assert!(take(&quorum, &writer).await.is_some());
    let (one, other) = (nodes[2].inner(), claim(Kind::Write));
    one.evict(&writer.key).await.unwrap();
    take(&*one, &other).await.unwrap();
    nodes[1].fault(NodeFault::Refuses);
    let pass = async || step(&quorum, Step::Pass { from: Box::new(writer.clone()), to: reader.clone() }).await;
    let error = pass().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    nodes[1].fault(None);
    step(&*one, Step::Release(other)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let others = Quorum::new(nodes.clone(), QuorumOptions::default().max_ttl(MAX_TTL)).unwrap();
    assert!(take(&others, &claim(Kind::Write)).await.is_none(), "another writer gets the lock before the repetition");
    assert!(matches!(pass().await, Ok(Answer::Claimed(Verdict::Granted { .. }))));
}

/// The caller counts `valid_for` from the beginning of its call. If the quorum counted it from the answer, the caller
/// would subtract the duration of a slow call twice.
#[tokio::test(start_paused = true)]
async fn the_duration_of_a_slow_call_is_subtracted_once() {
    let nodes = nodes(3);
    let (quorum, ours) = (quorum(&nodes), claim(Kind::Mutex));
    quorum.ping().await.unwrap();
    let (slow, expected) = (Duration::from_millis(100), ours.ttl * 99 / 100 - Duration::from_millis(2));
    nodes.iter().for_each(|node| node.hang(true));
    let awaken = async || {
        tokio::time::sleep(slow).await;
        nodes.iter().for_each(|node| node.hang(false));
    };
    let (answer, ()) = tokio::join!(step(&quorum, Step::Claim(ours.clone())), awaken());
    let Ok(Answer::Claimed(Verdict::Granted { valid_for, .. })) = answer else {
        panic!("the lock is free: {answer:?}")
    };
    assert_eq!(valid_for, expected);
    nodes.iter().for_each(|node| node.hang(true));
    let (renewals, ()) = tokio::join!(quorum.renew(std::slice::from_ref(&ours)), awaken());
    let [Ok(Renewal::Extended { valid_for })] = &renewals[..] else { panic!("the claim has the lock: {renewals:?}") };
    assert_eq!(*valid_for, expected);
}

/// The first call of a client compares the maximum ttl, stores it, and reads the uptimes of the nodes. All requests take
/// less than the time that a node has for one.
// Promise: RQ1
#[tokio::test(start_paused = true)]
async fn the_first_call_of_a_slow_quorum_succeeds() {
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.latency(QuorumOptions::default().node_timeout() / 4));
    let began = Instant::now();
    assert!(take(&quorum(&nodes), &claim(Kind::Mutex)).await.is_some());
    assert!(began.elapsed() > QuorumOptions::default().node_timeout(), "{:?}", began.elapsed());
}

/// The lock is held at a majority, of which one node is slow.
#[tokio::test(start_paused = true)]
async fn a_held_lock_is_not_shown_as_free_because_a_node_is_slow() {
    let (nodes, held) = (nodes(3), claim(Kind::Mutex));
    let quorum = quorum(&nodes);
    for node in &nodes[..2] {
        take(node, &held).await.unwrap();
    }
    nodes[1].latency(Duration::from_millis(100));
    assert!(quorum.show(&held.key).await.unwrap().is_held());
    let pattern = Pattern::all();
    assert_eq!(quorum.list(&pattern).await.unwrap().len(), 1);
    assert!(quorum.evict(&held.key).await.unwrap().is_some());
    let began = Instant::now();
    assert!(!quorum.show(&held.key).await.unwrap().is_held());
    assert!(began.elapsed() < Duration::from_millis(50), "a free lock needs the answers of two nodes");
}

/// A client on its own thread tries a lock, and is closed at once. One node has granted the claim, and its release is still
/// under way.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_hands_back_its_last_claim() {
    let (nodes, theirs) = (nodes(3), claim(Kind::Mutex));
    for node in &nodes[..2] {
        take(node, &theirs).await.unwrap();
    }
    let client = bandog_sync::Client::options().over(quorum(&nodes)).unwrap();
    client.ready().await.unwrap();
    // The first two nodes refuse the claim after the third one has granted it.
    nodes[..2].iter().for_each(|node| node.latency(Duration::from_millis(100)));
    let mutex = client.mutex(theirs.key.as_str());
    let attempt = tokio::spawn(async move { mutex.try_lock().await });
    eventually_async(SOON, async || is_held(&nodes[2], &theirs.key).await).await;
    nodes[2].latency(Duration::from_millis(600));
    assert!(attempt.await.unwrap().unwrap().is_none());
    assert!(is_held(&nodes[2], &theirs.key).await, "the release is under way");
    client.close().await.unwrap();
    assert!(!is_held(&nodes[2], &theirs.key).await, "the node keeps the claim until its ttl has passed");
}

/// A call without arguments.
#[async_trait::async_trait(?Send)]
trait AsyncCall {
    async fn call(&mut self);
}

#[async_trait::async_trait(?Send)]
impl<F: FnMut() -> R, R: Future<Output = ()>> AsyncCall for F {
    async fn call(&mut self) {
        self().await;
    }
}

/// Catalogued fault F46.
// Promise: RQ2
#[tokio::test(start_paused = true)]
async fn a_node_that_restarts_empty_does_not_help_a_second_claim() {
    let nodes = nodes(5);
    let (first, second) = (quorum(&nodes), quorum(&nodes));
    let (ours, theirs) = (claim(Kind::Mutex), claim(Kind::Mutex));
    // The lock is held by exactly three of the five nodes.
    for node in &nodes[3..] {
        node.hang(true);
    }
    assert!(take(&first, &ours).await.is_some());
    nodes[2].restart();
    for node in &nodes[3..] {
        node.hang(false);
    }
    let held_until = Instant::now() + ours.ttl;
    let mut second_fences = None;
    while second_fences.is_none() {
        second_fences = step(&second, Step::Claim(theirs.clone())).await.ok().and_then(granted);
        advance(Duration::from_millis(100)).await;
    }
    assert!(Instant::now() >= held_until, "the lock was granted twice");
}

// Promise: RQ2
#[tokio::test(start_paused = true)]
async fn a_node_votes_when_it_has_run_for_the_maximum_ttl() {
    let nodes = nodes(3);
    let (quorum, ours) = (quorum(&nodes), claim(Kind::Mutex));
    nodes[0].restart();
    nodes[1].restart();
    let error = step(&quorum, Step::Claim(ours.clone())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("has no vote"), "{error}");
    advance(MAX_TTL - Duration::from_secs(1)).await;
    assert!(step(&quorum, Step::Claim(ours.clone())).await.is_err());
    advance(Duration::from_secs(1)).await;
    eventually_async(SOON, async || step(&quorum, Step::Claim(ours.clone())).await).await;
}

/// The uptime is longer than the time that the clock of the process shows.
// Promise: RQ2
#[tokio::test(start_paused = true)]
async fn a_node_that_started_before_the_clock_votes_when_it_has_run_for_the_maximum_ttl() {
    const HOUR: Duration = Duration::from_secs(3600);
    let (nodes, ours) = (nodes(3), claim(Kind::Mutex));
    let quorum = Quorum::new(nodes.clone(), QuorumOptions::default().max_ttl(48 * HOUR)).unwrap();
    nodes[..2].iter().for_each(|node| node.ran_for(25 * HOUR));
    let error = step(&quorum, Step::Claim(ours.clone())).await.unwrap_err();
    assert!(error.to_string().contains("has no vote"), "{error}");
    advance(23 * HOUR + Duration::from_secs(1)).await;
    eventually_async(SOON, async || step(&quorum, Step::Claim(ours.clone())).await).await;
}

#[tokio::test(start_paused = true)]
async fn other_kinds_and_longer_ttls_are_refused() {
    let quorum = quorum(&nodes(3));
    let one = NonZeroU32::MIN;
    for kind in [Kind::Fair, Kind::Permits { take: one, of: one }] {
        assert!(!quorum.profile().kinds.contains(kind));
        assert_eq!(step(&quorum, Step::Claim(claim(kind))).await.unwrap_err().kind(), ErrorKind::Misused);
    }
    let long = Claim { ttl: MAX_TTL + Duration::from_millis(1), ..claim(Kind::Mutex) };
    assert_eq!(step(&quorum, Step::Claim(long)).await.unwrap_err().kind(), ErrorKind::Misused);
}

/// Catalogued fault F47.
// Promise: RQ4
#[tokio::test(start_paused = true)]
async fn contenders_with_split_votes_make_progress() {
    let nodes = nodes(3);
    for _ in 0..50 {
        // Each of the three claims has one node.
        let claims = [(); 3].map(|()| claim(Kind::Mutex));
        let quorums = [(); 3].map(|()| quorum(&nodes));
        for (node, claim) in nodes.iter().zip(&claims) {
            take(node, claim).await.unwrap();
        }
        let start = Instant::now();
        let mut winner = None;
        while winner.is_none() {
            let attempts = quorums.iter().zip(&claims).map(|(quorum, claim)| take(quorum, claim));
            let granted: Vec<_> = join_all(attempts).await;
            winner = granted.iter().position(Option::is_some).map(|at| (&quorums[at], &claims[at]));
            assert!(granted.iter().flatten().count() <= 1, "the lock was granted twice");
            advance(Duration::from_millis(1)).await;
        }
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        let (quorum, claim) = winner.unwrap();
        step(quorum, Step::Release(claim.clone())).await.unwrap();
        for (node, claim) in nodes.iter().flat_map(|node| claims.iter().map(move |claim| (node, claim))) {
            eventually_async(SOON, async || !is_held(node, &claim.key).await).await;
        }
    }
}
