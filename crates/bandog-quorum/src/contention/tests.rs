#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use bandog_core::{ClaimId, ClientId, Kind};
use tokio::time::advance;

use super::*;

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// `joins`: whether the store keeps a place for the claim.
fn claim(joins: bool) -> Claim {
    let (kind, ttl, id) = (Kind::Write, Duration::from_secs(1), ClaimId { client: ClientId::random(), number: 1 });
    Claim { joins, ..Claim::new(key("a"), id, kind, ttl) }
}

#[tokio::test(start_paused = true)]
async fn old_refusals_are_removed() {
    let contention = Contention::default();
    for number in 0..10 * MIN_SEARCHED {
        contention.refused(&key(&format!("key-{number}")));
        if number % MIN_SEARCHED == 0 {
            advance(RECENT).await;
        }
    }
    assert!(contention.lock().keys.len() <= 2 * MIN_SEARCHED);
}

#[tokio::test(start_paused = true)]
async fn a_contender_asks_one_node_first_as_long_as_the_lock_changes_hands_there() {
    const BEFORE: Duration = Duration::from_millis(299);
    let (contention, first) = (Contention::default(), 1);
    let (claim, key) = (claim(false), key("a"));
    let asks_first = || contention.asks_first(&claim, first);
    assert!(!asks_first(), "no claim was refused");
    contention.refused(&key);
    assert!(asks_first());
    for _ in 0..3 {
        advance(BEFORE).await;
        contention.notified(&key, first);
        advance(BEFORE).await;
        assert!(asks_first());
        contention.refused(&key);
    }
    contention.notified(&key, 2);
    advance(FIRST_FOR - BEFORE).await;
    assert!(!asks_first(), "another node has notified, and the first one may be held by a dead client");
    contention.granted(&key, false);
    assert!(!asks_first(), "the other nodes have granted the claim");
    contention.granted(&key, true);
    assert!(asks_first(), "other clients still wait");
    advance(FIRST_FOR).await;
    assert!(contention.asks_first(&claim, 0), "nothing is known against this node");
    advance(RECENT).await;
    contention.notified(&key, 0);
    assert!(!contention.asks_first(&claim, 0), "the refusal is old");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_writer_asks_all_nodes() {
    let contention = Contention::default();
    contention.refused(&key("a"));
    assert!(contention.asks_first(&claim(false), 0) && !contention.asks_first(&claim(true), 0));
}
