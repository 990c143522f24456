//! A hold is claimed again at a node that has lost it.

use std::time::Duration;

use bandog_core::{Answer, Claim, Clock, Fence, Fences, Inspect, Key, Kind, Leases, Memory, Released, Renewal, Step};
use bandog_quorum::Quorum;
use bandog_sync::Client;
use bandog_testkit::eventually_async;
use tokio::time::{Instant, sleep};

use crate::{
    memories::{MAX_TTL, SOON, claim, is_held, must_release, nodes, quorum, step, take},
    node::{NodeFault, TestNode},
};

const KINDS: [Kind; 3] = [Kind::Mutex, Kind::Read, Kind::Write];

/// The claim of a renewal, as the engine sends it.
fn renewal_of(claim: &Claim, fences: &Fences) -> Claim {
    let above = Fence::new(fences.last().get() - u64::from(claim.fences.get()));
    Claim { above: Some(above), ..claim.clone() }
}

async fn renew(quorum: &Quorum<TestNode<Memory>>, claim: &Claim) -> Renewal {
    quorum.renew(std::slice::from_ref(claim)).await.remove(0).unwrap()
}

async fn release(quorum: &Quorum<TestNode<Memory>>, claim: &Claim) -> Answer {
    step(quorum, Step::Release(claim.clone())).await.unwrap()
}

/// The last fence that a node has stored for the hold of this claim.
async fn fence_at(node: &TestNode<Memory>, claim: &Claim) -> Option<Fence> {
    let holders = node.inner().show(&claim.key).await.unwrap().holders;
    holders
        .iter()
        .find(|holder| holder.owner.as_ref() == Some(&claim.id.to_string()))
        .and_then(|holder| holder.last_fence)
}

/// Each node restarts without its data, long before it has a vote again.
// Promise: RQ6
#[tokio::test(start_paused = true)]
async fn a_rolling_restart_ends_no_hold() {
    for kind in KINDS {
        let nodes = nodes(3);
        let (ours, theirs) = (quorum(&nodes), quorum(&nodes));
        let (held, other) = (claim(kind), Claim { key: claim(kind).key, ..claim(Kind::Write) });
        let other = if kind == Kind::Mutex { Claim { kind, ..other } } else { other };
        let fences = take(&ours, &held).await.unwrap();
        let renewal = renewal_of(&held, &fences);
        for node in nodes.iter().chain(&nodes) {
            node.restart();
            eventually_async(SOON, async || {
                assert!(matches!(renew(&ours, &renewal).await, Renewal::Extended { .. }), "{kind}");
                // Another client never gets the lock, and may claim the node first.
                let answer = step(&theirs, Step::Claim(other.clone())).await;
                assert!(answer.is_err() || answer.is_ok_and(|answer| crate::memories::granted(answer).is_none()));
                fence_at(node, &held).await >= Some(fences.last())
            })
            .await;
        }
        assert_eq!(release(&ours, &held).await, Answer::Released(Released::Freed { others: Some(0) }));
        for node in &nodes {
            eventually_async(SOON, async || !is_held(node, &held.key).await).await;
        }
        sleep(MAX_TTL).await;
        let after = eventually_async(SOON, async || take(&theirs, &other).await).await;
        assert!(after.last() > fences.last(), "{kind}");
    }
}

/// A client learns that a node has restarted. From then on, the node gets no claim before it has a vote. The holds that are
/// granted in this time must reach the node nevertheless: the other nodes can restart, too.
// Promise: RQ6
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_taken_or_passed_on_after_a_restart_reaches_the_restarted_node() {
    for kind in KINDS {
        let nodes = nodes(3);
        let quorum = quorum(&nodes);
        let writer = Claim { key: Key::new("writer").unwrap(), ..claim(Kind::Write) };
        take(&quorum, &writer).await.unwrap();
        let restarted = &nodes[1];
        restarted.restart();
        sleep(Duration::from_secs(1)).await; // The client knows that the node has no vote.
        let (held, read) = (claim(kind), Claim { key: writer.key.clone(), ..claim(Kind::Read) });
        let fences = take(&quorum, &held).await.unwrap();
        eventually_async(SOON, async || fence_at(restarted, &held).await >= Some(fences.last())).await;
        let pass = Step::Pass { from: Box::new(writer.clone()), to: read.clone() };
        let fences = crate::memories::granted(step(&quorum, pass).await.unwrap()).unwrap();
        eventually_async(SOON, async || fence_at(restarted, &read).await >= Some(fences.last())).await;
        assert_eq!(fence_at(restarted, &writer).await, None, "the writer's hold stays at the restarted node");
        for claim in [&held, &read] {
            release(&quorum, claim).await;
            eventually_async(SOON, async || fence_at(restarted, claim).await.is_none()).await;
        }
    }
}

/// The same with a client, whose holds are valid for much longer than the time between the restarts.
// Promise: RQ6
#[tokio::test(start_paused = true)]
async fn a_rolling_restart_ends_no_hold_that_is_taken_or_passed_on_meanwhile() {
    let nodes = nodes(3);
    let client: Client = Client::options().clock(Clock::tokio()).on_current_runtime().over(quorum(&nodes)).unwrap();
    let writer = client.rwlock("locks").write().await.unwrap();
    nodes[1].restart();
    sleep(Duration::from_secs(1)).await;
    let (mutex, reader) = (client.mutex("mutex").lock().await.unwrap(), writer.downgrade().await.unwrap());
    sleep(Duration::from_secs(1)).await;
    nodes[2].restart();
    sleep(Duration::from_secs(1)).await;
    assert!(!mutex.is_lost() && !reader.is_lost());
    nodes[0].restart();
    sleep(MAX_TTL).await;
    assert!(!mutex.is_lost() && !reader.is_lost());
    mutex.release().await.unwrap();
    reader.release().await.unwrap();
    client.close().await.unwrap();
}

/// A majority of the nodes has the writer's hold, and has no vote yet. So the downgrade succeeds only when another node has
/// a vote, which is long after the ttl.
// Promise: RQ6
#[tokio::test(start_paused = true)]
async fn a_downgrade_during_a_rolling_restart_does_not_lose_the_lock() {
    let nodes = nodes(3);
    let client: Client = Client::options().clock(Clock::tokio()).on_current_runtime().over(quorum(&nodes)).unwrap();
    let writer = client.rwlock("locks").write().await.unwrap();
    for node in &nodes[1..] {
        node.restart();
        sleep(Duration::from_secs(1)).await;
    }
    let began = Instant::now();
    let reader = writer.downgrade().await.unwrap();
    assert!(began.elapsed() > MAX_TTL - Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(!reader.is_lost());
    reader.release().await.unwrap();
    client.close().await.unwrap();
}

/// The fences of these nodes are counters, so the node that has restarted can give the same fence again.
// Promise: RQ6
#[tokio::test(start_paused = true)]
async fn a_repaired_hold_has_the_same_fence() {
    let nodes = nodes(3);
    let quorum = quorum(&nodes);
    for kind in KINDS {
        let held = claim(kind);
        let fences = take(&quorum, &held).await.unwrap();
        nodes[1].restart();
        renew(&quorum, &renewal_of(&held, &fences)).await;
        eventually_async(SOON, async || fence_at(&nodes[1], &held).await == Some(fences.last())).await;
        release(&quorum, &held).await;
        sleep(MAX_TTL).await;
    }
}

/// The repair is applied after the release of its claim. The node must not keep the hold until the ttl has passed.
// Promise: RQ7
#[tokio::test(start_paused = true)]
async fn a_repair_that_arrives_after_the_release_is_released() {
    for kind in KINDS {
        let (nodes, held) = (nodes(3), claim(kind));
        let quorum = quorum(&nodes);
        let fences = take(&quorum, &held).await.unwrap();
        nodes[2].restart();
        nodes[2].fault(NodeFault::LateClaims);
        assert!(matches!(renew(&quorum, &renewal_of(&held, &fences)).await, Renewal::Extended { .. }));
        sleep(Duration::from_millis(10)).await; // The repair is sent.
        release(&quorum, &held).await;
        nodes[2].fault(None);
        eventually_async(SOON, async || nodes[2].faults() > 0).await;
        eventually_async(Duration::from_secs(2), async || !is_held(&nodes[2], &held.key).await).await;
    }
}

/// A node applies a renewal, and its answer arrives after the release of the claim.
// Promise: RQ7
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_released_during_a_renewal_is_not_repaired() {
    let (nodes, held) = (nodes(3), claim(Kind::Mutex));
    let quorum = quorum(&nodes);
    let fences = take(&quorum, &held).await.unwrap();
    nodes[2].restart();
    nodes[1].fault(NodeFault::LateRenewals);
    let renewal = renewal_of(&held, &fences);
    let released_meanwhile = async {
        sleep(Duration::from_millis(100)).await;
        release(&quorum, &held).await;
        nodes[1].fault(None);
    };
    let (answer, ()) = tokio::join!(renew(&quorum, &renewal), released_meanwhile);
    assert!(matches!(answer, Renewal::Extended { .. }), "both nodes had the hold: {answer:?}");
    for _ in 0..20 {
        sleep(Duration::from_millis(50)).await;
        assert!(!is_held(&nodes[2], &held.key).await, "the released claim was claimed again");
    }
}

/// A claim without a majority has the node for some time.
// Promise: RQ6
#[tokio::test(start_paused = true)]
async fn a_repair_is_repeated_while_another_claim_has_the_node() {
    let (nodes, held, other) = (nodes(3), claim(Kind::Mutex), claim(Kind::Mutex));
    let quorum = quorum(&nodes);
    let fences = take(&quorum, &held).await.unwrap();
    nodes[2].restart();
    take(&nodes[2], &other).await.unwrap();
    renew(&quorum, &renewal_of(&held, &fences)).await;
    sleep(Duration::from_secs(1)).await;
    step(&nodes[2], Step::Release(other)).await.unwrap();
    let released = Instant::now();
    eventually_async(SOON, async || fence_at(&nodes[2], &held).await.is_some()).await;
    assert!(released.elapsed() < Duration::from_secs(1), "{:?}", released.elapsed());
    // The hold of a fixed lease must not become longer.
    let ttl = nodes[2].inner().show(&held.key).await.unwrap().holders[0].ttl.unwrap();
    assert!(ttl <= held.ttl - Duration::from_secs(1), "{ttl:?}");
}

/// A waiting writer keeps new readers out. A reader that is repaired holds the lock already.
// Promise: RQ6
#[tokio::test(start_paused = true)]
async fn a_reader_is_repaired_although_a_writer_waits() {
    let (nodes, held, other) = (nodes(3), claim(Kind::Read), claim(Kind::Read));
    let quorum = quorum(&nodes);
    let fences = take(&quorum, &held).await.unwrap();
    nodes[2].restart();
    take(&nodes[2], &other).await.unwrap();
    let writer = Claim { joins: true, ..claim(Kind::Write) };
    assert!(take(&nodes[2], &writer).await.is_none());
    renew(&quorum, &renewal_of(&held, &fences)).await;
    let has_both = async || nodes[2].inner().show(&held.key).await.unwrap().holders.len() == 2;
    eventually_async(Duration::from_secs(2), has_both).await;
}

/// The other nodes could grant the lock before the guard knows that it is lost.
// Promise: RQ8
#[tokio::test(start_paused = true)]
async fn a_lost_hold_stays_at_the_other_nodes_until_it_is_released() {
    let (nodes, held) = (nodes(3), claim(Kind::Mutex));
    let quorum = quorum(&nodes);
    take(&quorum, &held).await.unwrap();
    nodes[0].restart();
    nodes[1].restart();
    assert_eq!(renew(&quorum, &held).await, Renewal::Gone);
    for _ in 0..20 {
        sleep(Duration::from_millis(50)).await;
        assert!(is_held(&nodes[2], &held.key).await);
    }
    release(&quorum, &held).await;
    assert!(!is_held(&nodes[2], &held.key).await);
}

/// The guard of a lost hold can exist for a long time. Until it is dropped, the hold must not come back at other nodes.
// Promise: RQ7
#[tokio::test(start_paused = true)]
async fn a_lost_hold_is_not_repaired() {
    let (nodes, held, other) = (nodes(3), claim(Kind::Mutex), claim(Kind::Mutex));
    let quorum = quorum(&nodes);
    let fences = take(&quorum, &held).await.unwrap();
    nodes[1].restart();
    take(&nodes[1], &other).await.unwrap();
    let renewal = renewal_of(&held, &fences);
    assert!(matches!(renew(&quorum, &renewal).await, Renewal::Extended { .. }));
    sleep(Duration::from_secs(1)).await; // The repair is refused again and again.
    nodes[2].restart();
    assert_eq!(renew(&quorum, &renewal).await, Renewal::Gone);
    step(&nodes[1], Step::Release(other)).await.unwrap();
    for _ in 0..20 {
        sleep(Duration::from_millis(50)).await;
        let has_hold = [is_held(&nodes[0], &held.key).await, is_held(&nodes[1], &held.key).await];
        assert_eq!(has_hold, [true, false]);
    }
}

/// The repair of a hold that is then lost is applied after the release.
// Promise: RQ7
#[tokio::test(start_paused = true)]
async fn a_late_repair_of_a_lost_hold_is_released() {
    let (nodes, held) = (nodes(3), claim(Kind::Mutex));
    let quorum = quorum(&nodes);
    let fences = take(&quorum, &held).await.unwrap();
    nodes[1].restart();
    nodes[1].fault(NodeFault::LateClaims);
    let renewal = renewal_of(&held, &fences);
    assert!(matches!(renew(&quorum, &renewal).await, Renewal::Extended { .. }));
    sleep(Duration::from_millis(10)).await; // The repair is sent.
    nodes[2].restart();
    assert_eq!(renew(&quorum, &renewal).await, Renewal::Gone);
    release(&quorum, &held).await;
    nodes[1].fault(None);
    eventually_async(SOON, async || nodes[1].faults() > 0).await;
    eventually_async(Duration::from_secs(2), async || !is_held(&nodes[1], &held.key).await).await;
}

/// Each node is down for 20 s, and restarts without its data. A client holds the locks for minutes.
// Promise: RQ6
#[tokio::test(start_paused = true)]
async fn the_holds_of_a_client_survive_a_rolling_restart() {
    let nodes = nodes(3);
    let client: Client = Client::options().clock(Clock::tokio()).on_current_runtime().over(quorum(&nodes)).unwrap();
    for _ in 0..3 {
        client.mutex("mutex").lock().await.unwrap().release().await.unwrap();
    }
    let (mutex, locks) = (client.mutex("mutex").lock().await.unwrap(), client.rwlock("locks"));
    let (one, two) = (locks.read().await.unwrap(), client.rwlock("locks").read().await.unwrap());
    let writer = client.rwlock("other").write().await.unwrap();
    let leased = client.mutex("leased").lease(Duration::from_secs(60)).lock().await.unwrap();
    let keys = ["mutex", "locks", "other"].map(|name| bandog_core::Key::new(name).unwrap());
    let began = Instant::now();
    for (round, node) in nodes.iter().chain(&nodes).enumerate() {
        node.hang(true);
        sleep(Duration::from_secs(20)).await;
        node.restart();
        node.hang(false);
        let returned = Instant::now();
        let key_of_lease = [bandog_core::Key::new("leased").unwrap()];
        for key in keys.iter().chain(key_of_lease.iter().filter(|_| round < 2)) {
            eventually_async(SOON, async || is_held(node, key).await).await;
        }
        // The client renews when the node answers again.
        assert!(returned.elapsed() < Duration::from_secs(1), "{:?}", returned.elapsed());
        let stored = node.inner().show(&keys[0]).await.unwrap().holders[0].last_fence;
        assert!(stored >= Some(mutex.fence()), "{stored:?} is before {}", mutex.fence());
        let is_lost = [mutex.is_lost(), one.is_lost(), two.is_lost(), writer.is_lost(), round < 2 && leased.is_lost()];
        assert_eq!(is_lost, [false; 5], "round {round}");
    }
    assert!(began.elapsed() > 2 * MAX_TTL - Duration::from_secs(1));
    assert!(leased.is_lost(), "the lease of 60 s is over");
    drop((mutex, one, two, writer, leased));
    client.close().await.unwrap();
}

/// A node that answers pings and fails releases is not asked without a pause.
#[tokio::test(start_paused = true)]
async fn releases_that_fail_are_repeated_after_a_pause() {
    let (nodes, held) = (nodes(3), claim(Kind::Mutex));
    let quorum = quorum(&nodes);
    take(&quorum, &held).await.unwrap();
    nodes[2].fault(NodeFault::Releases);
    release(&quorum, &held).await;
    sleep(Duration::from_secs(1)).await;
    let failed = nodes[2].faults();
    assert!((5..=25).contains(&failed), "{failed} attempts in a second");
    nodes[2].fault(None);
    eventually_async(SOON, async || !is_held(&nodes[2], &held.key).await).await;
}

/// A node still has an earlier request of the claim, and must release it. Its hold must not count for a renewal.
// Promise: RQ2
#[tokio::test(start_paused = true)]
async fn a_hold_that_a_node_must_release_is_not_renewed() {
    let nodes = nodes(3);
    let (quorum, ours) = (quorum(&nodes), claim(Kind::Mutex));
    let theirs = must_release(&quorum, &nodes, &ours).await;
    for node in [&nodes[0], &nodes[2]] {
        step(node, Step::Release(theirs.clone())).await.unwrap();
    }
    let fences = take(&quorum, &ours).await.unwrap();
    nodes[0].fault(NodeFault::Refuses);
    let answer = quorum.renew(&[renewal_of(&ours, &fences)]).await.remove(0);
    assert!(answer.is_err(), "{answer:?}: one of two nodes must release the claim");
    // After the release, the claim is repaired there.
    eventually_async(SOON, async || {
        nodes[0].fault(None);
        nodes[1].fault(None);
        renew(&quorum, &renewal_of(&ours, &fences)).await;
        nodes[0].fault(NodeFault::Refuses);
        quorum.renew(&[renewal_of(&ours, &fences)]).await.remove(0).is_ok()
    })
    .await;
}

/// A node was repaired, and its answer was lost. It has the hold, and another node has lost it. A downgrade must not
/// release the hold at this node before it is passed: between the two, another writer could get the lock.
// Promise: RQ2
#[tokio::test(start_paused = true)]
async fn a_downgrade_releases_no_repaired_hold_before_the_hold_is_passed_on() {
    let (nodes, held, read) = (nodes(3), claim(Kind::Write), claim(Kind::Read));
    let (quorum, theirs) = (quorum(&nodes), claim(Kind::Write));
    let fences = take(&quorum, &held).await.unwrap();
    nodes[2].restart();
    nodes[2].ran_for(MAX_TTL * 2);
    nodes[2].fault(NodeFault::LostAnswers);
    assert!(matches!(renew(&quorum, &renewal_of(&held, &fences)).await, Renewal::Extended { .. }));
    eventually_async(SOON, async || is_held(&nodes[2], &held.key).await).await;
    nodes[2].fault(NodeFault::LateClaims);
    nodes[1].fault(NodeFault::Refuses);
    let pass = Step::Pass { from: Box::new(held.clone()), to: read.clone() };
    let downgraded = step(&quorum, pass);
    let released = async {
        sleep(Duration::from_millis(500)).await;
        let granted = take(&*nodes[2].inner(), &theirs).await;
        nodes[2].fault(None);
        granted
    };
    let (answer, between) = tokio::join!(downgraded, released);
    assert!(between.is_none(), "a writer between");
    assert!(crate::memories::granted(answer.unwrap()).is_some());
}
