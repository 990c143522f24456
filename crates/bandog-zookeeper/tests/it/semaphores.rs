//! Semaphores: the nodes of permits, nodes of others, and the limit.

use bandog_core::{Error, ErrorKind, Inspect, Key, Kind};
use bandog_testkit::{ZooKeeperServer, eventually_async};
use futures_util::future::join_all;
use zookeeper_client::{Acls, CreateMode, EventType};

use crate::{SOON, backend, client, neighbour, nodes, places, soon};

const LEASES: &str = "gpus/leases";
const QUEUE: &str = "gpus/locks";

// Promise: Z22
#[tokio::test]
async fn a_claim_has_a_node_for_each_permit_and_none_in_the_queue() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    let guard = soon(ours.semaphore("gpus", 5).permits(2).acquire()).await.unwrap();
    let mut permits = nodes(&java, LEASES).await;
    permits.sort_by_key(|node| node.rsplit('-').next().unwrap().to_owned());
    assert_eq!((permits.len(), nodes(&java, QUEUE).await.len()), (2, 0));
    for (at, node) in permits.iter().enumerate() {
        // `_c_`, a UUID of version 4, `-lease-` and ten digits.
        assert_eq!((node.len(), &node[..3], &node[17..18]), (56, "_c_", "4"));
        assert_eq!(node[39..], format!("-lease-{at:010}"));
        let (data, stat) = java.get_data(&format!("/locks/{LEASES}/{node}")).await.unwrap();
        assert!(String::from_utf8(data).unwrap().ends_with(" permits:2/5"));
        assert_eq!(stat.czxid.cast_unsigned() * 64, guard.fence().get());
    }
    let row = ours.show("gpus").await.unwrap();
    let take = |holder: &bandog_core::Holder| holder.kind.map(Kind::permits);
    assert_eq!(row.holders.iter().map(take).collect::<Vec<_>>(), [Some(2)]);
    assert_eq!(row.fence(), Some(guard.fence()));
    guard.release().await.unwrap();
    assert!(nodes(&java, LEASES).await.is_empty());
}

// Promise: Z22
#[tokio::test]
async fn nodes_of_others_take_permits_and_their_queue_is_respected() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    let semaphore = ours.semaphore("gpus", 2);
    soon(semaphore.acquire()).await.unwrap().release().await.unwrap();
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let create = async |folder: &str, name: &str| {
        let prefix = format!("/locks/{folder}/{name}");
        let (_, sequence) = java.create(&prefix, b"127.0.0.1", &options).await.unwrap();
        format!("{prefix}{sequence}")
    };
    // Each child takes a permit, whatever its name is.
    let (first, second) = (create(LEASES, "_c_x-lease-").await, create(LEASES, "other").await);
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    java.delete(&second, None).await.unwrap();
    let guard = semaphore.try_acquire().await.unwrap().unwrap();
    guard.release().await.unwrap();

    // A waiter of Curator for two permits has a node in the queue and the node of its second permit.
    let (queued, third) = (create(QUEUE, "_c_x-lock-").await, create(LEASES, "_c_x-lease-").await);
    let fourth = create(LEASES, "_c_x-lease-").await;
    let row = ours.show("gpus").await.unwrap();
    assert_eq!((row.holders.len(), row.queue.len()), (2, 1), "{row:?}");
    let waits = semaphore.clone();
    let waiting = tokio::spawn(async move { waits.acquire().await });
    eventually_async(SOON, async || nodes(&java, QUEUE).await.len() == 2).await;
    java.delete(&first, None).await.unwrap();
    java.delete(&third, None).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert!(!waiting.is_finished(), "the node of the other waiter is first");
    java.delete(&queued, None).await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    java.delete(&fourth, None).await.unwrap();
    guard.release().await.unwrap();
}

// Promise: Z25
#[tokio::test]
async fn a_claim_that_loses_one_of_its_permits_is_lost_and_gives_back_the_others() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    let guard = soon(ours.semaphore("gpus", 3).permits(3).acquire()).await.unwrap();
    let one = nodes(&java, LEASES).await.remove(0);
    java.delete(&format!("/locks/{LEASES}/{one}"), None).await.unwrap();
    soon(guard.lost()).await;
    eventually_async(SOON, async || nodes(&java, LEASES).await.is_empty()).await;
    soon(ours.semaphore("gpus", 3).permits(3).acquire()).await.unwrap().release().await.unwrap();
}

/// The claims of other clients are in the queue for a moment, although there are permits.
// Promise: Z24
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_at_the_same_time_all_succeed_while_there_are_permits() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 10;
    let server = ZooKeeperServer::start();
    let clients: Vec<_> = (0..CLIENTS).map(|_| client(server.addr())).collect();
    let limit = u32::try_from(CLIENTS * ROUNDS).unwrap();
    for ours in &clients {
        soon(ours.semaphore("gpus", limit).acquire()).await.unwrap().release().await.unwrap();
    }
    let attempts = clients.iter().map(async |ours| {
        let mut guards = Vec::new();
        for _ in 0..ROUNDS {
            guards.push(ours.semaphore("gpus", limit).try_acquire().await?.ok_or_else(|| Error::unavailable("busy"))?);
        }
        Ok::<_, Error>(guards)
    });
    let guards: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(guards.iter().map(Vec::len).sum::<usize>(), CLIENTS * ROUNDS);
    assert!(clients[0].semaphore("gpus", limit).try_acquire().await.unwrap().is_none());
}

/// One release wakes the first waiter only.
// Promise: Z22
#[tokio::test]
async fn only_the_first_waiter_watches_the_permits() {
    let server = ZooKeeperServer::start();
    let clients: Vec<_> = (0..4).map(|_| client(server.addr())).collect();
    let mut guard = soon(clients[0].semaphore("gpus", 1).acquire()).await.unwrap();
    let java = neighbour(&server).await;
    let mut waiting = Vec::new();
    for (at, ours) in clients.iter().enumerate().skip(1) {
        let semaphore = ours.semaphore("gpus", 1);
        waiting.push(tokio::spawn(async move { semaphore.acquire().await }));
        eventually_async(SOON, async || places(&java, QUEUE).await == at).await;
    }
    for next in waiting {
        let (_, _, watcher) = java.get_and_watch_children(&format!("/locks/{LEASES}")).await.unwrap();
        let fence = guard.fence();
        guard.release().await.unwrap();
        assert_eq!(soon(watcher.changed()).await.event_type, EventType::NodeChildrenChanged);
        guard = soon(next).await.unwrap().unwrap();
        assert!(guard.fence() > fence && nodes(&java, LEASES).await.len() == 1);
    }
}

// Promise: Z22
#[tokio::test]
async fn a_forgotten_semaphore_leaves_nothing() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, backend(server.addr()));
    let client = bandog_sync::Client::options().over(ours.clone()).unwrap();
    let key = Key::new("gpus").unwrap();
    let guard = soon(client.semaphore("gpus", 2).acquire()).await.unwrap();
    client.semaphore("gpus", 2).set_limit(3).await.unwrap();
    assert!(!ours.forget(&key).await.unwrap());
    guard.release().await.unwrap();
    assert!(ours.forget(&key).await.unwrap());
    for path in ["/locks/gpus", "/locks/%bandog/limits/gpus"] {
        assert!(java.check_stat(path).await.unwrap().is_none(), "{path}");
    }
    // The name can have another limit now.
    soon(client.semaphore("gpus", 7).acquire()).await.unwrap().release().await.unwrap();
}

// Promise: Z22
#[tokio::test]
async fn a_limit_that_is_not_a_number_is_an_error() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    soon(ours.semaphore("gpus", 2).acquire()).await.unwrap().release().await.unwrap();
    java.set_data("/locks/%bandog/limits/gpus", b"two", None).await.unwrap();
    let error = soon(ours.semaphore("gpus", 2).try_acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("/locks/%bandog/limits/gpus"), "{error}");
    eventually_async(SOON, async || nodes(&java, QUEUE).await.is_empty()).await;
    assert_eq!(ours.semaphore("gpus", 2).set_limit(2).await.unwrap_err().kind(), ErrorKind::Corrupt);
}
