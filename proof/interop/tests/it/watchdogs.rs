//! Both watchdogs keep their locks beyond the ttl, and bandog's watchdog reports that its lock was taken away.

use std::{
    thread,
    time::{Duration, Instant},
};

use bandog::ErrorKind;

use crate::rig::{Rig, TTL};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_renew_beyond_three_ttls() {
    let ttl = Duration::from_secs(3);
    let rig = Rig::start(ttl).await;
    let guard = rig.ours.mutex("ours").lock().await.expect("granted");
    assert_eq!(rig.java.ask("a", &["lock", "theirs"]), "held");
    let owners = ["ours", "theirs"].map(|name| rig.owner(name));
    let mut least = [i64::MAX; 2];

    let start = Instant::now();
    while start.elapsed() < ttl * 7 / 2 {
        assert_eq!(["ours", "theirs"].map(|name| rig.owner(name)), owners);
        for (least, name) in least.iter_mut().zip(["ours", "theirs"]) {
            *least = (*least).min(rig.server.pttl(name));
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(!guard.is_lost());
    assert_eq!(rig.java.ask("a", &["try", "ours"]), "busy");
    assert!(rig.ours.mutex("theirs").try_lock().await.expect("answered").is_none());
    println!("held for 3.5 ttls of 3 s; least ttl seen: ours {} ms, Java's {} ms", least[0], least[1]);

    guard.release().await.expect("released");
    assert_eq!(rig.java.ask("a", &["unlock", "theirs"]), "freed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_java_forced_open_is_lost_at_our_next_renewal() {
    let ttl = Duration::from_secs(3);
    let rig = Rig::start(ttl).await;
    let guard = rig.ours.mutex("orders").lock().await.expect("granted");
    assert_eq!(rig.java.ask("a", &["force", "orders"]), "freed");
    let start = Instant::now();
    assert_eq!(rig.java.ask("a", &["lock", "orders"]), "held");

    tokio::time::timeout(ttl, guard.lost()).await.expect("the loss is reported");
    let noticed = start.elapsed();
    let ms = noticed.as_secs_f64() * 1e3;
    println!("noticed {ms:.0} ms after forceUnlock, at a ttl of 3 s, which means a renewal each second");
    assert!(noticed < ttl / 3 + Duration::from_millis(500), "noticed after {noticed:?}");
    let refused = guard.release().await.expect_err("the lock was lost");
    assert_eq!(refused.kind(), ErrorKind::Lost);
    assert_eq!(
        rig.java.ask("b", &["try", "orders"]),
        "busy",
        "the release of the lock that was lost freed the lock of Java"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_expire_without_a_release() {
    let rig = Rig::start(TTL).await;
    let lease = Duration::from_millis(1500);
    let start = Instant::now();
    assert_eq!(rig.java.ask("a", &["lease", "theirs", "1500"]), "held");
    let guard = rig.ours.mutex("theirs").lock().await.expect("granted");
    let to_us = start.elapsed();
    guard.release().await.expect("released");

    // The time starts before the grant, because the lease does too.
    let start = Instant::now();
    let guard = rig.ours.mutex("ours").lease(lease).lock().await.expect("granted");
    assert_eq!(rig.java.ask("a", &["lock", "ours"]), "held");
    let to_java = start.elapsed();
    assert!(guard.is_lost(), "the guard did not report the loss before Java got the lock");

    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "leases of 1500 ms: Java's ended for us after {:.0} ms, ours for Java after {:.0} ms",
        ms(to_us),
        ms(to_java)
    );
    for time in [to_us, to_java] {
        assert!(time > lease - Duration::from_millis(100) && time < lease + Duration::from_secs(1), "{time:?}");
    }
}
