//! A slot of a cluster that is being moved: each combination of keys that have moved and keys that have not.
//!
//! While a slot moves, both nodes run scripts for its locks. Each test makes many equal locks in one slot. Of each lock
//! other keys are moved, so that each combination occurs. In each of these states a step may be refused, but a hold is
//! never taken for another or for none.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{Claim, ErrorKind, Fence, Inspect, Kind, Leases, Pattern, Released, Renewal, Result, Row, Verdict};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async};
use futures_util::future::join_all;

use crate::{
    help::{SOON, claim, granted, pass, release, renew, take},
    moves::{begin_move, end_move, move_keys, move_some, two_nodes},
};

/// Timeout of a step while the keys of its lock are at two nodes.
const PATIENCE: Duration = Duration::from_millis(300);

/// A lock of which all keys exist.
struct Example {
    name: String,
    /// The claims that hold the lock.
    holders: Vec<Claim>,
    /// Their fences.
    fences: Vec<u64>,
    /// A claim that has a place or a note, and is refused while one of the holders holds the lock.
    waiter: Claim,
    /// A claim that is refused while one of the holders holds the lock.
    other: Claim,
    /// Of these keys, those whose bit is set in the number of the lock are moved.
    keys: Vec<String>,
}

/// The claims and the keys of a lock.
struct Kinds {
    query: &'static str,
    holders: &'static [Kind],
    other: Kind,
    /// Number of keys of the lock.
    keys: usize,
    /// A key that only few locks of this kind have: the command that makes it, and its prefix. A script whose declared
    /// keys do not all exist never runs while the slot moves.
    rare: Option<(&'static [&'static str], &'static str)>,
}

/// The number of steps that were answered, and of those that were refused because the slot moved.
#[derive(Debug, Default)]
struct Counts {
    answered: usize,
    refused: usize,
}

impl Counts {
    /// Counts this result. Returns its answer.
    #[track_caller]
    fn add<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(answer) => {
                self.answered += 1;
                Some(answer)
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                self.refused += 1;
                None
            }
        }
    }
}

impl Example {
    async fn make(cluster: &RedisCluster, redis: &Redis, kinds: &Kinds, number: usize) -> Self {
        let name = format!("{{half}}:{}:{number:04}", kinds.query);
        let of_kind = |kind| Claim { kind, ..claim(&name) };
        let holders: Vec<_> = kinds.holders.iter().map(|kind| of_kind(*kind)).collect();
        let mut fences = Vec::new();
        for holder in &holders {
            fences.push(granted(take(redis, holder).await.unwrap()).last().get());
        }
        let waiter = Claim { joins: true, offers: true, ..of_kind(kinds.other) };
        assert!(matches!(take(redis, &waiter).await.unwrap(), Verdict::Busy { .. }), "{name}");
        let node = cluster.master_of(cluster.slot(&name));
        if let Some((command, prefix)) = kinds.rare {
            let key = format!("{prefix}{name}");
            node.cmd(&[&command[..1], &[&key], &command[1..]].concat());
        }
        let mut keys = node.keys();
        keys.retain(|key| key.contains(&name));
        keys.sort();
        assert_eq!(keys.len(), kinds.keys, "{keys:?}");
        Self { holders, fences, waiter, other: of_kind(kinds.other), keys, name }
    }

    /// Sends steps of each sort. Returns their number, and whether the last holder was released.
    async fn probe(&self, redis: &Redis) -> (Counts, bool) {
        let (mut counts, name) = (Counts::default(), &self.name);
        for waiting in [&self.other, &self.waiter] {
            let verdict = counts.add(take(redis, waiting).await);
            assert!(!matches!(verdict, Some(Verdict::Granted { .. })), "{name}: {waiting:?} was granted, too");
        }
        for (holder, fence) in self.holders.iter().zip(&self.fences) {
            let renewal = counts.add(renew(redis, holder).await);
            assert_ne!(renewal, Some(Renewal::Gone), "{name}: a live hold is gone");
            let again = counts.add(take(redis, holder).await).map(|verdict| granted(verdict).last().get());
            assert!(again.is_none_or(|again| again == *fence), "{name}: another fence");
        }
        let verdict = counts.add(take(redis, &self.other).await);
        assert!(!matches!(verdict, Some(Verdict::Granted { .. })), "{name}: another claim was granted, too");
        let row = counts.add(redis.show(&self.other.key).await);
        assert!(row.as_ref().is_none_or(Row::is_held), "{name} is shown as free");
        let is_read = self.holders[0].kind == Kind::Read;
        assert!(!is_read || row.as_ref().is_none_or(|row| row.holders.len() == 2), "{name}: a reader is not shown");
        for holder in row.iter().flat_map(|row| &row.holders).filter(|holder| holder.owner.is_some()) {
            let at = self.holders.iter().position(|claim| holder.owner == Some(claim.id.to_string()));
            let expected = at.map(|at| Fence::new(self.fences[at]));
            let is_right = at.is_none() || holder.last_fence.is_none() || holder.last_fence == expected;
            assert!(is_right, "{name}: {holder:?} is shown with another fence than {expected:?}");
        }
        let released = counts.add(release(redis, self.holders.last().unwrap()).await);
        assert!(matches!(released, None | Some(Released::Freed { .. })), "{name}: {released:?}");
        (counts, released.is_some())
    }

    /// Checks the lock after the move.
    async fn check(&self, redis: &Redis, is_released: bool) {
        let (name, last) = (&self.name, self.holders.len() - 1);
        for holder in &self.holders[..last] {
            assert_ne!(renew(redis, holder).await.unwrap(), Renewal::Gone, "{name}: a hold was lost");
        }
        let renewal = renew(redis, &self.holders[last]).await.unwrap();
        assert!(!is_released || renewal == Renewal::Gone, "{name}: the release was lost");
        if last > 0 {
            assert!(matches!(take(redis, &self.other).await.unwrap(), Verdict::Busy { .. }), "{name}");
        }
        for claim in self.holders.iter().chain([&self.waiter]) {
            release(redis, claim).await.unwrap();
        }
        // An offer to starving clients can reserve the lock for a moment.
        let is_granted = async || matches!(take(redis, &self.other).await.unwrap(), Verdict::Granted { .. });
        eventually_async(SOON, is_granted).await;
        let second = Claim { id: claim(name).id, ..self.other.clone() };
        let verdict = take(redis, &second).await.unwrap();
        let is_shared = self.other.kind == Kind::Read;
        assert_eq!(matches!(verdict, Verdict::Granted { .. }), is_shared, "{name}: granted twice after the move");
        release(redis, &second).await.unwrap();
        release(redis, &self.other).await.unwrap();
    }
}

fn with_timeout(cluster: &RedisCluster, query: &str, timeout: Duration) -> Redis {
    let url = cluster.url().replace("://", &format!("://{}@", RedisServer::OPERATOR)) + query;
    Redis::new(RedisOptions::from_url(&url).unwrap().timeout(timeout)).unwrap()
}

/// Moves each combination of keys of a lock with these claims, and sends steps in each of these states.
async fn half_moved(kinds: Kinds) {
    let cluster = RedisCluster::start(3, 0);
    let redis = with_timeout(&cluster, kinds.query, 4 * SOON);
    let hasty = with_timeout(&cluster, kinds.query, PATIENCE);
    eventually_async(SOON, async || hasty.ping().await.is_ok()).await;
    let mut examples = Vec::new();
    for number in 0..1 << kinds.keys {
        examples.push(Example::make(&cluster, &redis, &kinds, number).await);
    }
    let (slot, from, to) = two_nodes(&cluster, "{half}");
    begin_move(slot, from, to);
    for (number, example) in examples.iter().enumerate() {
        let moved = example.keys.iter().enumerate().filter(|(bit, _)| number & 1 << bit != 0);
        move_some(from, to, moved.map(|(_, key)| key));
    }
    let probed = join_all(examples.iter().map(|example| example.probe(&hasty))).await;
    let answered: usize = probed.iter().map(|(counts, _)| counts.answered).sum();
    let refused: usize = probed.iter().map(|(counts, _)| counts.refused).sum();
    println!("{} states, {answered} steps answered, {refused} refused", examples.len());
    assert!(answered > 0 && refused > 0);
    move_keys(slot, from, to);
    end_move(&cluster, slot, from, to);
    for (example, (_, is_released)) in examples.iter().zip(probed) {
        example.check(&redis, is_released).await;
    }
}

pub(crate) const PERMIT: Kind = Kind::Permits { take: NonZeroU32::MIN, of: NonZeroU32::new(2).unwrap() };
const BOTH_PERMITS: Kind = Kind::Permits { take: NonZeroU32::new(2).unwrap(), of: NonZeroU32::new(2).unwrap() };

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_mutex_on_two_nodes_has_one_holder() {
    half_moved(Kinds { query: "", holders: &[Kind::Mutex], other: Kind::Mutex, keys: 3, rare: None }).await;
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_string_on_two_nodes_has_one_holder() {
    half_moved(Kinds { query: "?layout=setnx", holders: &[Kind::Mutex], other: Kind::Mutex, keys: 3, rare: None })
        .await;
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_fair_mutex_on_two_nodes_has_one_holder() {
    let rare = Some((&["SET", ""][..], "bandog:stayed:"));
    half_moved(Kinds { query: "", holders: &[Kind::Fair], other: Kind::Fair, keys: 7, rare }).await;
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn readers_on_two_nodes_are_not_taken_for_dead() {
    half_moved(Kinds { query: "", holders: &[Kind::Read; 2], other: Kind::Write, keys: 7, rare: None }).await;
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_on_two_nodes_keeps_readers_out() {
    let rare = Some((&["HSET", "957c1da6-54c9-4017-93c7-a4ef987df61c:1", "1"][..], "bandog:held:"));
    half_moved(Kinds { query: "", holders: &[Kind::Write], other: Kind::Write, keys: 5, rare }).await;
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_on_two_nodes_keeps_its_limit() {
    let rare = Some((&["SET", "9"][..], "bandog:limit:"));
    half_moved(Kinds { query: "", holders: &[PERMIT; 2], other: BOTH_PERMITS, keys: 7, rare }).await;
}

/// A pass can be stopped in the middle. Then it is repeated, and no permit is lost.
// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_pass_on_two_nodes_loses_no_permit() {
    let semaphore = Some((&["SET", "9"][..], "bandog:limit:"));
    let writer = Some((&["HSET", "957c1da6-54c9-4017-93c7-a4ef987df61c:1", "1"][..], "bandog:held:"));
    let cluster = RedisCluster::start(3, 0);
    let examples = [
        Kinds { query: "", holders: &[BOTH_PERMITS], other: BOTH_PERMITS, keys: 7, rare: semaphore },
        Kinds { query: "?semaphores=plain", holders: &[BOTH_PERMITS], other: BOTH_PERMITS, keys: 7, rare: semaphore },
        Kinds { query: "", holders: &[Kind::Write], other: Kind::Write, keys: 5, rare: writer },
        Kinds { query: "", holders: &[Kind::Mutex], other: Kind::Mutex, keys: 3, rare: None },
    ];
    for kinds in &examples {
        let redis = with_timeout(&cluster, kinds.query, 4 * SOON);
        let hasty = with_timeout(&cluster, kinds.query, PATIENCE);
        eventually_async(SOON, async || hasty.ping().await.is_ok()).await;
        let example = Example::make(&cluster, &redis, kinds, 0).await;
        let (slot, from, to) = two_nodes(&cluster, "{half}");
        begin_move(slot, from, to);
        let [holder, name] = [&example.holders[0], &example.other];
        let next = Claim { id: claim(name.key.as_str()).id, ..holder.clone() };
        // All keys exist at the first node, so it runs the script.
        let passed = pass(&hasty, holder, &next).await;
        println!("{:?}: {passed:?}", holder.kind);
        move_keys(slot, from, to);
        end_move(&cluster, slot, from, to);
        assert!(matches!(pass(&redis, holder, &next).await.unwrap(), Verdict::Granted { .. }), "{:?}", holder.kind);
        assert_eq!(renew(&redis, holder).await.unwrap(), Renewal::Gone, "{:?}", holder.kind);
        let last = Example { holders: vec![next], fences: Vec::new(), ..example };
        last.check(&redis, false).await;
        cluster.iter().for_each(|node| _ = node.cmd(&["FLUSHALL"]));
    }
}

/// The fence of a lock is in a key of its own. Either this key or the lock has moved.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_two_nodes_is_shown_with_its_fence() {
    let cluster = RedisCluster::start(3, 0);
    let redis = with_timeout(&cluster, "", 4 * SOON);
    let (slot, from, to) = two_nodes(&cluster, "{half}");
    let kinds = [Kind::Mutex, Kind::Mutex, Kind::Fair, Kind::Fair, Kind::Write, Kind::Write, Kind::Read];
    let of_kind = |(number, kind)| Claim { kind, ..claim(&format!("{{half}}:{number}")) };
    let held: Vec<_> = kinds.into_iter().enumerate().map(of_kind).collect();
    let mut fences = Vec::new();
    for claim in &held {
        fences.push(granted(take(&redis, claim).await.unwrap()).last());
    }
    begin_move(slot, from, to);
    for (number, claim) in held.iter().enumerate() {
        let prefix = if claim.kind == Kind::Read { "bandog:held:" } else { "redisson_lock_token:" };
        let key = if number % 2 == 0 { format!("{prefix}{}", claim.key) } else { claim.key.to_string() };
        move_some(from, to, [key].iter());
    }
    let listed = redis.list(&Pattern::all()).await.unwrap();
    for (claim, fence) in held.iter().zip(&fences) {
        let shown = redis.show(&claim.key).await.unwrap();
        let row = listed.iter().find(|row| row.name == claim.key.as_str()).unwrap();
        for row in [&shown, row] {
            assert_eq!(row.holders[0].last_fence, Some(*fence), "{row:?}");
        }
    }
    move_keys(slot, from, to);
    end_move(&cluster, slot, from, to);
}

/// An eviction of a lock that is held never reports that the lock is free.
// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_on_two_nodes_is_refused_or_done() {
    let cluster = RedisCluster::start(3, 0);
    let redis = with_timeout(&cluster, "", 4 * SOON);
    let hasty = with_timeout(&cluster, "", PATIENCE);
    eventually_async(SOON, async || hasty.ping().await.is_ok()).await;
    let (slot, from, to) = two_nodes(&cluster, "{half}");
    let holders = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, PERMIT];
    let holders = holders.map(|kind| Claim { kind, ..claim(&format!("{{half}}:{kind}")) });
    for holder in &holders {
        granted(take(&redis, holder).await.unwrap());
    }
    begin_move(slot, from, to);
    // The script of an eviction has one key, the lock itself.
    move_some(from, to, holders.each_ref().map(|holder| holder.key.to_string()).iter());
    let mut counts = Counts::default();
    for holder in &holders {
        let evicted = counts.add(hasty.evict(&holder.key).await);
        assert!(!matches!(evicted, Some(None)), "{} is reported as free", holder.key);
    }
    assert!(counts.answered > 0 && counts.refused > 0, "{counts:?}");
    move_keys(slot, from, to);
    end_move(&cluster, slot, from, to);
    for holder in &holders {
        redis.evict(&holder.key).await.unwrap();
        assert_eq!(renew(&redis, holder).await.unwrap(), Renewal::Gone, "{}", holder.key);
    }
}

/// `forget` never reports that no key is left while one of the two nodes has a key.
// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_two_nodes_is_forgotten_whole_or_not_at_all() {
    let cluster = RedisCluster::start(3, 0);
    let redis = with_timeout(&cluster, "", 4 * SOON);
    let hasty = with_timeout(&cluster, "", PATIENCE);
    eventually_async(SOON, async || hasty.ping().await.is_ok()).await;
    let (slot, from, to) = two_nodes(&cluster, "{half}");
    let keys_of = |name: &str| {
        let mut keys = [from.keys(), to.keys()].concat();
        keys.retain(|key| key.contains(name));
        keys.sort();
        keys
    };
    let mut free = Vec::new();
    for kind in [Kind::Mutex, Kind::Fair, Kind::Write, PERMIT] {
        let mut number = 0;
        loop {
            let claim = Claim { kind, ..claim(&format!("{{half}}:{kind}:{number:04}")) };
            granted(take(&redis, &claim).await.unwrap());
            release(&redis, &claim).await.unwrap();
            let keys = keys_of(claim.key.as_str());
            let last = (1 << keys.len()) - 1;
            free.push((claim.key, keys, number));
            if number == last {
                break;
            }
            number += 1;
        }
    }
    begin_move(slot, from, to);
    for (_, keys, number) in &free {
        let moved = keys.iter().enumerate().filter(|(bit, _)| number & 1 << bit != 0);
        move_some(from, to, moved.map(|(_, key)| key));
    }
    let mut counts = Counts::default();
    for (key, keys, _) in &free {
        let forgotten = counts.add(hasty.forget(key).await);
        let left = keys_of(key.as_str());
        match forgotten {
            Some(true) => assert_eq!(left, [""; 0], "{key} has keys"),
            Some(false) => panic!("{key} is held"),
            None => assert_eq!(left, *keys, "{key} has lost a part of its keys"),
        }
    }
    println!("{} states, {counts:?}", free.len());
    assert!(counts.refused > 0, "{counts:?}");
    move_keys(slot, from, to);
    end_move(&cluster, slot, from, to);
    for (key, ..) in &free {
        assert!(redis.forget(key).await.unwrap());
        assert_eq!(keys_of(key.as_str()), [""; 0], "{key}");
    }
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_semaphore_on_two_nodes_keeps_its_limit() {
    let rare = Some((&["SET", "9"][..], "bandog:limit:"));
    half_moved(Kinds { query: "?semaphores=plain", holders: &[PERMIT; 2], other: BOTH_PERMITS, keys: 7, rare }).await;
}
