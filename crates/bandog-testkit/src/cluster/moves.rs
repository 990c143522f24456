//! Moves slots of a cluster from one node to another, step by step.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, SystemTime};

use super::RedisCluster;
use crate::eventually;
use crate::redis::RedisServer;
use crate::resp::Reply;

/// Timeout until all nodes of a cluster agree.
const AGREED_WITHIN: Duration = Duration::from_secs(20);

/// Marks the slot as moving from one node to another. Both nodes then answer for a part of its keys.
#[track_caller]
pub fn begin_move(slot: u16, from: &RedisServer, to: &RedisServer) {
    let (from_id, to_id) = (RedisCluster::id(from), RedisCluster::id(to));
    let slot = slot.to_string();
    assert_eq!(to.cmd(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).text(), "OK");
    assert_eq!(from.cmd(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).text(), "OK");
}

/// Moves these keys. A key that exists at both nodes would stop the move.
#[track_caller]
pub fn move_some<'k>(from: &RedisServer, to: &RedisServer, keys: impl IntoIterator<Item = &'k String>) {
    let keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
    if !keys.is_empty() {
        let port = to.port().to_string();
        let command = [&["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"], &keys[..]].concat();
        // On a full machine, the nodes can take each other for down for a moment.
        eventually(AGREED_WITHIN, || match from.cmd(&command) {
            Reply::Error(error) if error.starts_with("CLUSTERDOWN") => Err(error),
            reply => {
                assert!(["OK", "NOKEY"].contains(&reply.text()), "{reply:?}");
                Ok(())
            }
        });
    }
}

/// Moves the keys of the slot.
#[track_caller]
pub fn move_keys(slot: u16, from: &RedisServer, to: &RedisServer) {
    while let Some(keys) = keys(slot, from) {
        move_some(from, to, &keys);
    }
}

/// Moves the keys of the slot one by one, in a random order, with pauses of at most this time. So the keys of a lock are on
/// two nodes for a while.
#[track_caller]
fn move_keys_one_by_one(slot: u16, from: &RedisServer, to: &RedisServer, pause: Duration) {
    while let Some(mut keys) = keys(slot, from) {
        fastrand::shuffle(&mut keys);
        for key in &keys {
            thread::sleep(pause.mul_f64(fastrand::f64()));
            move_some(from, to, [key]);
        }
    }
}

/// Some keys of the slot at this node. `None` if there are none.
#[track_caller]
fn keys(slot: u16, node: &RedisServer) -> Option<Vec<String>> {
    let keys = node.cmd(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"]).texts();
    (!keys.is_empty()).then_some(keys)
}

/// Gives the slot to the other node, reports this to all masters, and waits until all nodes know the same. A node that
/// does not know the latest epoch of another node could take an older message for a newer one, and delete the keys.
#[track_caller]
pub fn end_move(cluster: &RedisCluster, slot: u16, from: &RedisServer, to: &RedisServer) {
    let (text, id) = (slot.to_string(), RedisCluster::id(to));
    let is_other = |node: &&RedisServer| node.port() != to.port() && node.port() != from.port();
    let is_master = |node: &&RedisServer| node.info("replication", "role") == "master";
    for node in [to, from].into_iter().chain(cluster.iter().filter(is_other).filter(is_master)) {
        assert_eq!(node.cmd(&["CLUSTER", "SETSLOT", &text, "NODE", &id]).text(), "OK");
    }
    eventually(AGREED_WITHIN, || {
        let views: Vec<_> = cluster.iter().map(view).collect();
        let agree = views.windows(2).all(|pair| pair[0] == pair[1]);
        if agree && cluster.master_of(slot).port() == to.port() { Ok(()) } else { Err(views) }
    });
}

/// Moves a slot and its keys.
#[track_caller]
pub fn move_slot(cluster: &RedisCluster, slot: u16, from: &RedisServer, to: &RedisServer) {
    begin_move(slot, from, to);
    move_keys(slot, from, to);
    end_move(cluster, slot, from, to);
}

/// Moves the slots of these names to one node, and their keys one by one, with pauses of at most this time. Then waits
/// until each node has read the messages of the others. Returns the number of moved slots.
///
/// If slots moved back at once, a node could take an older message of the other node for a newer one, and delete the keys.
#[track_caller]
pub fn move_names(cluster: &RedisCluster, names: &[String], to: &RedisServer, pause: Duration) -> usize {
    let mut moves = 0;
    for slot in names.iter().map(|name| cluster.slot(name)) {
        let from = cluster.master_of(slot);
        if from.port() != to.port() {
            begin_move(slot, from, to);
            move_keys_one_by_one(slot, from, to, pause);
            end_move(cluster, slot, from, to);
            moves += 1;
        }
    }
    wait_for_messages(cluster);
    moves
}

/// Waits until each node has had an answer of each other node that is younger than this call. So it has also read the
/// messages before it.
#[track_caller]
fn wait_for_messages(cluster: &RedisCluster) {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis());
    let is_older = |line: &&str| {
        let fields: Vec<_> = line.split(' ').collect();
        !fields[2].contains("myself") && fields[5].parse::<u128>().is_ok_and(|answered| answered <= now)
    };
    for node in cluster.iter() {
        eventually(AGREED_WITHIN, || {
            let nodes = node.cmd(&["CLUSTER", "NODES"]).text().to_owned();
            if nodes.lines().any(|line| is_older(&line)) { Err(nodes) } else { Ok(()) }
        });
    }
}

/// The view of a node: the epoch and the slots of each node.
#[track_caller]
fn view(node: &RedisServer) -> BTreeMap<String, Vec<String>> {
    let nodes = node.cmd(&["CLUSTER", "NODES"]);
    let line = |line: &str| {
        let fields: Vec<String> = line.split(' ').map(String::from).collect();
        // The fields are: id, address, flags, master, two times, epoch, state of the link, slots.
        (fields[0].clone(), [&fields[6..7], &fields[8..]].concat())
    };
    nodes.text().lines().map(line).collect()
}
