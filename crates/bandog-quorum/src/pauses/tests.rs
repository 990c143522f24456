#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use tokio::time::advance;

use super::*;

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn after_a_hand_back_a_majority_must_notify() {
    let (contention, woken) = (Contention::default(), Arc::new(AtomicUsize::new(0)));
    let notifier = Notifier::new({
        let woken = Arc::clone(&woken);
        move || {
            woken.fetch_add(1, Relaxed);
        }
    });
    let wake_ups = WakeUps::new(&key("a"), &contention, notifier, 3, 2);
    let nodes = [0, 1, 2].map(|node| wake_ups.of_node(node));
    nodes[2].notify();
    assert_eq!(woken.load(Relaxed), 1, "without a hand-back, each notification wakes the waiter");
    contention.handed_back(&key("b"));
    nodes[2].notify();
    assert_eq!(woken.load(Relaxed), 2, "the hand-back was of another lock");
    contention.handed_back(&key("a"));
    for _ in 0..5 {
        nodes[2].notify();
    }
    assert_eq!(woken.load(Relaxed), 2);
    nodes[0].notify();
    assert_eq!(woken.load(Relaxed), 3);
    nodes[0].notify();
    assert_eq!(woken.load(Relaxed), 3, "the notifications before the last wake-up do not count");
    contention.granted(&key("a"), true);
    nodes[0].notify();
    assert_eq!(woken.load(Relaxed), 4, "a grant ends the rule");
    contention.handed_back(&key("a"));
    advance(Duration::from_secs(2)).await;
    nodes[0].notify();
    assert_eq!(woken.load(Relaxed), 5, "the hand-back is old");
}
