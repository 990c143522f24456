//! Helper functions: slots of a cluster that move from one node to another.

use std::time::{Duration, Instant};

use bandog_testkit::{RedisCluster, RedisServer, moves::move_names};

pub(crate) use bandog_testkit::moves::{begin_move, end_move, move_keys, move_slot, move_some};

/// Moves the slots of these names again and again, for this time and to each node at least once. Returns the number of
/// moves.
///
/// All slots move to one node, and then to the next one.
pub(crate) fn keep_moving(cluster: &RedisCluster, names: &[String], length: Duration) -> usize {
    let (deadline, mut moves) = (Instant::now() + length, 0);
    for (round, to) in cluster[..3].iter().cycle().enumerate() {
        moves += move_names(cluster, names, to, Duration::ZERO);
        if round >= 2 && Instant::now() >= deadline {
            break;
        }
    }
    moves
}

/// The slot of this name, the node that has it, and another master.
pub(crate) fn two_nodes<'a>(cluster: &'a RedisCluster, name: &str) -> (u16, &'a RedisServer, &'a RedisServer) {
    let slot = cluster.slot(name);
    let from = cluster.master_of(slot);
    let to = cluster[..3].iter().find(|node| node.port() != from.port()).unwrap();
    (slot, from, to)
}
