//! If a holder dies, the other side gets the lock when the ttl has passed.

use std::time::{Duration, Instant};

use bandog_testkit::eventually;

use crate::{
    neighbour::{Neighbour, Program, SOON},
    rig::{Rig, TTL},
};

/// A short ttl, so that the tests do not take long.
const SHORT: Duration = Duration::from_secs(3);

// Promise: X4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_gets_the_lock_of_our_killed_process() {
    let rig = Rig::start(SHORT).await;
    let holder = Neighbour::start(Program::Bandog, &rig.server.url(), SHORT);
    assert_eq!(holder.ask("a", &["lock", "orders"]), "held");
    let asked = rig.java.send("a", &["lock", "orders"]);
    eventually(SOON, || rig.subscribers("orders") == 1);
    holder.kill();
    let start = Instant::now();
    let left = rig.server.pttl("orders");
    assert_eq!(asked.answer(TTL), "held");
    check("our process", start.elapsed(), left);
}

// Promise: X4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_get_the_lock_of_a_killed_jvm() {
    let rig = Rig::start(SHORT).await;
    assert_eq!(rig.java.ask("a", &["lock", "orders"]), "held");
    let waiting = rig.ours_waits("orders");
    rig.java.kill();
    let start = Instant::now();
    let left = rig.server.pttl("orders");
    let (guard, granted) = tokio::time::timeout(TTL, waiting).await.expect("granted in time").expect("no panic");
    check("the JVM", granted - start, left);
    guard.release().await.expect("released");
}

/// Checks that the lock was granted after the remaining ttl had passed, and at most one ttl plus one second after the
/// holder died.
#[track_caller]
fn check(who: &str, time: Duration, left: i64) {
    println!("{who} was killed with {left} ms left; the other side got it after {:.0} ms", time.as_secs_f64() * 1e3);
    let left = Duration::from_millis(left.try_into().expect("the lock was still held"));
    assert!(time + Duration::from_millis(50) >= left, "granted after {time:?} although {left:?} were left");
    assert!(time < SHORT + Duration::from_secs(1), "granted after {time:?}");
}
