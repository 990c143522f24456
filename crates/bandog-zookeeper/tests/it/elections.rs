//! Elections, which have the nodes of Curator's `LeaderLatch`. Their folder can have the nodes of another lock, too.

use bandog_core::Pattern;
use bandog_testkit::{ZooKeeperServer, eventually_async};
use zookeeper_client::{Acls, CreateMode};

use crate::{SOON, client, make_folder, neighbour, nodes, soon, take};

/// The beginning of the path of a candidate's node as Curator creates it.
const CURATOR: &str = "/locks/billing/_c_2b3f71b5-76fc-41fc-83c9-f63573c55b15-latch-";

#[tokio::test]
async fn a_candidate_waits_behind_one_of_curator() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    make_folder(&java, "billing").await;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (stat, sequence) = java.create(CURATOR, b"the first", &options).await.unwrap();
    let row = ours.show("election/billing").await.unwrap();
    assert!(row.is_held() && row.owner().unwrap().ends_with(&format!("latch-{sequence}")), "{row:?}");
    let election = ours.election("billing");
    let campaign = tokio::spawn(async move { election.campaign().await });
    eventually_async(SOON, async || nodes(&java, "billing").await.len() == 2).await;
    assert!(nodes(&java, "billing").await.iter().all(|node| node.contains("-latch-")));

    java.delete(&format!("{CURATOR}{sequence}"), None).await.unwrap();
    let leadership = soon(campaign).await.unwrap().unwrap();
    assert!(leadership.fence().get() > u64::try_from(stat.czxid).unwrap() * 64 + 63);
    // The leader's text is written under the condition that its node is the first one.
    for client in [&ours, &client(server.addr())] {
        assert_eq!(client.election("billing").leader().await.unwrap().unwrap().fence(), leadership.fence());
    }
    // A LeaderLatch that waits behind our node would miss its deletion after a change of its data.
    let node = nodes(&java, "billing").await.pop().unwrap();
    let (_, stat) = java.get_data(&format!("/locks/billing/{node}")).await.unwrap();
    assert_eq!(stat.version, 0, "the data of our node have changed");
    leadership.resign().await.unwrap();
    assert!(nodes(&java, "billing").await.is_empty());
}

#[tokio::test]
async fn an_election_and_a_mutex_of_one_name_are_different_locks() {
    let server = ZooKeeperServer::start();
    let ours = client(server.addr());
    let listed = async || {
        let rows = ours.list(Pattern::all()).await.unwrap();
        rows.into_iter().map(|row| row.name.to_string()).collect::<Vec<_>>()
    };
    for election_is_first in [true, false] {
        let (leadership, guard) = if election_is_first {
            let leadership = ours.election("billing").campaign().await.unwrap();
            (leadership, take(&ours, "billing").await)
        } else {
            let guard = take(&ours, "billing").await;
            (ours.election("billing").campaign().await.unwrap(), guard)
        };
        assert_eq!(listed().await, ["billing", "election/billing"]);
        for (name, fence) in [("billing", guard.fence()), ("election/billing", leadership.fence())] {
            let row = ours.show(name).await.unwrap();
            assert_eq!((row.fence(), row.queue.len()), (Some(fence), 0), "{name}");
            assert!(!ours.forget(name).await.unwrap(), "{name} is held");
        }
        // One of them is evicted, and the other one stays.
        if election_is_first {
            ours.evict("election/billing").await.unwrap().unwrap();
            assert_eq!(listed().await, ["billing"]);
            guard.release().await.unwrap();
        } else {
            ours.evict("billing").await.unwrap().unwrap();
            assert_eq!(listed().await, ["election/billing"]);
            assert!(ours.forget("billing").await.unwrap(), "only the election has nodes");
            assert!(leadership.remaining() > std::time::Duration::ZERO);
            leadership.resign().await.unwrap();
        }
    }
    assert!(listed().await.is_empty() && ours.forget("election/billing").await.unwrap());
}

#[tokio::test]
async fn readers_and_permits_whose_names_begin_like_an_election_are_no_candidates() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    let leadership = ours.election("billing").campaign().await.unwrap();
    let reader = ours.rwlock("election/billing").read().await.unwrap();
    assert_eq!(nodes(&java, "election%2Fbilling").await.len(), 1);
    reader.release().await.unwrap();
    let permit = ours.semaphore("election/billing", 2).acquire().await.unwrap();
    permit.release().await.unwrap();
    leadership.resign().await.unwrap();
}
