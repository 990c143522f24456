//! Nodes of other programs in the folder of a lock. Both sides treat them in the same way.

use zookeeper_client::{Acls, CreateMode};

use crate::{
    curator::{ORDERS, Place, SESSION, make_folder, wait_for_nodes},
    neighbour::SOON,
    objects::LockKind,
};

/// The names of nodes, and whether the node is before the nodes of both sides.
const NODES: [(&str, bool); 11] = [
    ("lock-0000000000", true),
    ("0", true),
    ("!abc", true),
    ("lock-", true),
    ("_c_2b3f71b5-76fc-41fc-83c9-f63573c55b15-lock-0000000000", true),
    ("x-lock--000000001", true),
    // The node of kazoo does not block Curator, and so it does not block bandog.
    ("3f2a9c0d4b5e6f708192a3b4c5d6e7f8__lock__0000000000", false),
    ("abc", false),
    ("5", false),
    ("latch-0000000000", false),
    ("~", false),
];

// Promise: Z5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_sort_the_nodes_of_others_in_the_same_way() {
    let place = Place::of_both(SESSION);
    let client = place.client().await;
    make_folder(&client).await;
    let locks: Vec<_> =
        place.neighbours.iter().map(|neighbour| neighbour.lock(LockKind::Plain, "a", "orders")).collect();
    for kind in [CreateMode::Ephemeral, CreateMode::Persistent] {
        for (node, is_first) in NODES {
            let path = format!("{ORDERS}/{node}");
            client.create(&path, b"", &kind.with_acls(Acls::anyone_all())).await.expect("created");
            for (lock, neighbour) in locks.iter().zip(&place.neighbours) {
                let program = neighbour.program;
                assert_eq!(lock.try_lock(), !is_first, "{program:?} and the node {node} ({kind:?})");
                if !is_first {
                    lock.unlock();
                }
            }
            client.delete(&path, None).await.expect("deleted");
        }
    }
}

/// A mutex and a read-write lock of Curator do not exclude each other, also if they have the same path. bandog refuses a
/// name that is in use as another kind.
// Promise: Z12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bandog_refuses_a_name_that_curator_uses_as_another_kind() {
    let place = Place::of_both(SESSION);
    let [java, ours] = [0, 1].map(|index: usize| {
        [LockKind::Plain, LockKind::Write]
            .map(|kind| place.neighbours[index].lock(kind, &format!("{kind:?}"), "orders"))
    });
    for (kind, other) in [(0, 1), (1, 0)] {
        java[kind].lock();
        let refused = ours[other].refused_lock();
        assert!(refused.contains("the name is in use as"), "{refused}");
        assert!(!ours[kind].try_lock());
        assert!(java[other].try_lock(), "Curator has both locks");
        java[other].unlock();
        java[kind].unlock();
    }
}

/// Another library has the lock with a bare node. Both sides wait behind it, and get the lock in the order of the queue.
// Promise: Z5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_wait_behind_a_bare_node() {
    let place = Place::of_both(SESSION);
    let client = place.client().await;
    make_folder(&client).await;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, number) = client.create(&format!("{ORDERS}/lock-"), b"", &options).await.expect("created");
    let locks: Vec<_> =
        place.neighbours.iter().map(|neighbour| neighbour.lock(LockKind::Plain, "a", "orders")).collect();
    let mut waiting = Vec::new();
    for (ahead, lock) in locks.iter().enumerate() {
        waiting.push(lock.waits());
        wait_for_nodes(&client, ahead + 2).await;
    }
    client.delete(&format!("{ORDERS}/lock-{number}"), None).await.expect("deleted");
    for (lock, pending) in locks.iter().zip(waiting) {
        assert_eq!(pending.answer(SOON), "held");
        lock.unlock();
    }
}
