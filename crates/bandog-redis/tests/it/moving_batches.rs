//! Calls with several steps on a cluster while a slot moves: each step is answered by itself.

use std::time::{Duration, Instant};

use bandog_core::{Answer, Claim, ErrorKind, Kind, Leases, Released, Renewal, Step};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RedisCluster, RedisServer, eventually};

use crate::{
    cluster::names,
    help::{SOON, TTL, claim, granted, take},
    moves::{begin_move, move_keys, move_slot, move_some, two_nodes},
};

/// Longer than any step of these tests takes, unless it is repeated until its timeout.
const TIMEOUT: Duration = Duration::from_secs(20);

fn options(cluster: &RedisCluster) -> RedisOptions {
    let url = cluster.url().replace("://", &format!("://{}@", RedisServer::OPERATOR));
    RedisOptions::from_url(&url).unwrap().timeout(TIMEOUT)
}

/// Two mutexes of one client have one slot, and one of them has moved already. Neither step delays the other one.
#[tokio::test(flavor = "multi_thread")]
async fn locks_of_one_slot_at_two_nodes_are_renewed_and_released_in_one_call() {
    let cluster = RedisCluster::start(3, 0);
    let redis = Redis::new(options(&cluster)).unwrap();
    let held = ["{half}:a", "{half}:b"].map(claim);
    for claim in &held {
        granted(take(&redis, claim).await.unwrap());
    }
    let (slot, from, to) = two_nodes(&cluster, "{half}");
    begin_move(slot, from, to);
    move_some(from, to, &["{half}:a".to_owned()]);
    for renewal in redis.renew(&held).await {
        assert_eq!(renewal.unwrap(), Renewal::Extended { valid_for: TTL });
    }
    let releases = held.each_ref().map(|claim| Step::Release(claim.clone()));
    for released in redis.apply(&releases).await {
        assert!(matches!(released.unwrap(), Answer::Released(Released::Freed { .. })));
    }
}

/// The keys of a fair lock are at two nodes, so its steps are refused until the move ends. The other steps of the call do
/// not wait that long.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_at_two_nodes_does_not_delay_the_others_of_a_call() {
    let cluster = RedisCluster::start(3, 0);
    let redis = Redis::new(options(&cluster)).unwrap();
    let fair = Claim { kind: Kind::Fair, ..claim("{half}:fair") };
    let waiting = Claim { joins: true, kind: Kind::Fair, ..claim("{half}:fair") };
    granted(take(&redis, &fair).await.unwrap());
    take(&redis, &waiting).await.unwrap();
    let (slot, from, to) = two_nodes(&cluster, "{half}");
    begin_move(slot, from, to);
    move_some(from, to, &["{half}:fair".to_owned()]);
    let others: Vec<_> = names(&cluster).iter().map(|name| claim(&format!("{{{name}}}:free"))).collect();
    let steps: Vec<_> = [waiting].iter().chain(&others).cloned().map(Step::Claim).collect();
    let began = Instant::now();
    let answers = redis.apply(&steps).await;
    assert!(began.elapsed() < TIMEOUT / 2, "the others were delayed for {:?}", began.elapsed());
    let (moving, others) = answers.split_first().unwrap();
    let error = moving.as_ref().unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.is_retryable(), "{error}");
    assert!(others.iter().all(Result::is_ok), "{others:?}");
}

/// Two steps are sent to other nodes than before, and one of these nodes does not answer. It may apply its step later.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_may_be_applied_by_a_silent_node_to_which_it_was_redirected() {
    let cluster = RedisCluster::start_with(3, 0, &["--cluster-require-full-coverage", "no"]);
    let redis = Redis::new(options(&cluster)).unwrap();
    let names = names(&cluster);
    for name in &names {
        granted(take(&redis, &claim(name)).await.unwrap());
    }
    let name = &names[0];
    let (slot, from, to) = two_nodes(&cluster, name);
    let silent = cluster[..3].iter().find(|node| ![from.port(), to.port()].contains(&node.port())).unwrap();
    let same_node = |other: &String| {
        let other_slot = cluster.slot(other);
        other_slot != slot && cluster.master_of(other_slot).port() == from.port()
    };
    let other = (0..).map(|number| format!("other {number}")).find(same_node).unwrap();
    move_slot(&cluster, slot, from, to);
    move_slot(&cluster, cluster.slot(&other), from, silent);
    silent.pause();
    let answers = redis.apply(&[Step::Claim(claim(name)), Step::Claim(claim(&other))]).await;
    silent.resume();
    assert!(matches!(answers[0], Ok(Answer::Claimed(_))), "{answers:?}");
    let error = answers[1].as_ref().unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.maybe_applied(), "{error}");
    // The node applies the claim when it continues.
    eventually(SOON, || !silent.hash(&other).is_empty());
}

/// With `replicas=`, the node that gets a slot and its replicas acknowledge the locks that have moved already.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_has_moved_is_acknowledged_before_the_move_ends() {
    let cluster = RedisCluster::start(3, 1);
    for node in cluster.iter() {
        node.cmd(&["ACL", "SETUSER", "operator", "+wait"]);
    }
    let redis = Redis::new(options(&cluster).replicas(1)).unwrap();
    let held = ["{half}:a", "{half}:b"].map(claim);
    for claim in &held {
        granted(take(&redis, claim).await.unwrap());
    }
    let (slot, from, to) = two_nodes(&cluster, "{half}");
    begin_move(slot, from, to);
    move_some(from, to, &["{half}:a".to_owned()]);
    for renewal in redis.renew(&held).await {
        assert_eq!(renewal.unwrap(), Renewal::Extended { valid_for: TTL });
    }
    move_keys(slot, from, to);
    for renewal in redis.renew(&held).await {
        assert_eq!(renewal.unwrap(), Renewal::Extended { valid_for: TTL });
    }
}
