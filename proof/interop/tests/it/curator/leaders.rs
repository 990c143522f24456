//! Elections: `LeaderLatch` of Curator, and an election of bandog with the same name.

use std::time::{Duration, Instant};

use crate::{
    curator::{
        BOTH_WAYS, Place, SESSION,
        contended::lost_additions,
        expired::{both_ways, check, one_waits_for},
        nodes, sorted, wait_for_candidates,
    },
    neighbour::SOON,
    objects::LockKind,
};

/// Number of turns of each thread. Each turn begins with a new candidate, and ends with its resignation.
const TIMES: u64 = 20;
/// Time for which a candidate campaigns while the other side leads.
const BRIEFLY: Duration = Duration::from_millis(300);

#[test]
fn one_candidate_of_curator_and_bandog_leads_at_a_time() {
    assert_eq!(lost_additions(LockKind::Leader, TIMES, |_| "orders".into()), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_of_either_side_follows_a_leader_of_the_other_side() {
    let place = Place::of_both(SESSION);
    let client = place.client().await;
    for [leader, candidate] in BOTH_WAYS {
        let [leader, candidate] =
            [leader, candidate].map(|index| place.neighbours[index].lock(LockKind::Leader, "a", "orders"));
        leader.lock();
        assert_eq!(candidate.waits_for(BRIEFLY).answer(SOON), "busy");
        let waiting = candidate.waits();
        wait_for_candidates(&client, 2).await;
        let before = sorted(nodes(&client).await);
        leader.unlock();
        assert_eq!(waiting.answer(SOON), "held");
        assert_eq!(nodes(&client).await, before[1..], "the candidate keeps its place");
        candidate.unlock();
    }
}

/// `LeaderLatch.getLeader()` finds a leader of bandog. A mutex of the same name is another lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_sees_a_leader_of_bandog_and_a_mutex_of_the_same_name_is_free() {
    let place = Place::of_both(SESSION);
    let [java, ours] = [&place.neighbours[0], &place.neighbours[1]];
    ours.lock(LockKind::Leader, "a", "orders").lock();
    let seen = java.command("a", &["leader", "leader", "orders"]).answer(SOON);
    assert!(seen.ends_with(" mutex"), "the data of our node: {seen}");
    for neighbour in [java, ours] {
        let mutex = neighbour.lock(LockKind::Plain, "b", "orders");
        assert!(mutex.try_lock(), "{:?}", neighbour.program);
        mutex.unlock();
    }
}

#[test]
fn either_side_leads_after_a_leader_that_was_killed() {
    both_ways(async |leader, candidate| {
        let (place, waiting) = one_waits_for(LockKind::Leader, leader, candidate).await;
        let began = Instant::now();
        place.neighbours[leader].kill();
        check(&format!("{:?} led and was killed", place.neighbours[leader].program), began, waiting);
    });
}
