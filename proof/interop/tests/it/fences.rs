//! `RFencedLock`: the tokens of Java and the fences of bandog form one increasing sequence.

use crate::rig::{Rig, TTL, token};

// Promise: X3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_increase_over_grants_of_both_sides() {
    let rig = Rig::start(TTL).await;
    let mut fences: Vec<u64> = Vec::new();
    for _ in 0..50 {
        fences.push(rig.java.fenced("a", "orders").lock());
        // Java counts a re-entry as a grant.
        fences.push(rig.java.fenced("a", "orders").lock());
        assert_eq!(rig.java.ask("a", &["unlock", "orders"]), "freed");
        assert_eq!(rig.java.ask("a", &["unlock", "orders"]), "freed");

        let guard = rig.ours.mutex("orders").lock().await.expect("granted");
        fences.push(guard.fence().get());
        let last = rig.java.fenced("a", "orders").token();
        let row = rig.ours.show("orders").await.expect("answered");
        assert_eq!(
            row.holder().and_then(|holder| holder.last_fence).map(|fence| fence.get()),
            Some(last),
            "Java and the Rust side read different tokens"
        );
        assert_eq!(row.fence(), Some(guard.fence()), "the guard does not have the first fence of the grant");
        assert!(guard.fence().get() <= last);
        guard.release().await.expect("released");
    }
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    println!("{} grants, fences {} to {}", fences.len(), fences[0], fences[fences.len() - 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_fences_continue_after_a_token_of_java() {
    let rig = Rig::start(TTL).await;
    assert_eq!(rig.java.fenced("a", "orders").lock(), 1);
    assert_eq!(rig.java.ask("a", &["unlock", "orders"]), "freed");
    let guard = rig.ours.mutex("orders").lock().await.expect("granted");
    let (ours, last) = (guard.fence().get(), rig.server.cmd(&["GET", &token("orders")]).text().to_owned());
    guard.release().await.expect("released");
    let next = rig.java.fenced("a", "orders").lock();
    assert!(ours > 1 && next > ours);
    assert_eq!(
        last.parse(),
        Ok(next - 1),
        "Java's next token is not the one after the block that the Rust side has reserved"
    );
}
