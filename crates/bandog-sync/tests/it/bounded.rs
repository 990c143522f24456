//! `run` of each kind of lock, and the waits with a limit.

use std::future::pending;

use bandog_core::ErrorKind;
use bandog_sync::Client;

use crate::kit::{client, held, kind, memory, ms, paused, soon};

/// Takes the lock away from its holder, so that the next renewal finds the loss.
async fn take_away(client: &Client, name: &str) {
    assert!(client.evict(name).await.unwrap().is_some(), "{name} is not held");
}

#[tokio::test(start_paused = true)]
async fn run_holds_a_lock_of_any_kind_and_releases_it() {
    let store = memory();
    let client = client(store.clone());
    let (catalogue, gpus) = (client.rwlock("catalogue"), client.semaphore("gpu", 2));
    assert_eq!(catalogue.run_read(async |_| held(&store).await).await.unwrap(), ["catalogue"]);
    assert!(catalogue.run_write(async |_| catalogue.try_read().await.unwrap().is_none()).await.unwrap());
    assert_eq!(gpus.run(async |_| held(&store).await).await.unwrap(), ["gpu"]);
    let fence = client.election("billing").run(async |leadership| leadership.fence()).await.unwrap();
    assert!(
        client.election("billing").leader().await.unwrap().is_none(),
        "the leader with the fence {fence} has resigned"
    );
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn run_drops_its_body_if_its_lock_is_lost() {
    let (client, operator) = {
        let store = memory();
        (client(store.clone()), client(store))
    };
    let catalogue = client.rwlock("catalogue");
    let read = catalogue.run_read(async |_| {
        take_away(&operator, "catalogue").await;
        pending::<()>().await;
    });
    assert_eq!(kind(soon(read).await), Some(ErrorKind::Lost));
    let write = catalogue.run_write(async |_| {
        take_away(&operator, "catalogue").await;
        pending::<()>().await;
    });
    assert_eq!(kind(soon(write).await), Some(ErrorKind::Lost));
    let gpus = client.semaphore("gpu", 2);
    let permits = gpus.run(async |_| {
        take_away(&operator, "gpu").await;
        pending::<()>().await;
    });
    assert_eq!(kind(soon(permits).await), Some(ErrorKind::Lost));
    let billing = client.election("billing");
    let leads = billing.run(async |_| {
        take_away(&operator, "election/billing").await;
        pending::<()>().await;
    });
    assert_eq!(kind(soon(leads).await), Some(ErrorKind::Lost));
}

#[tokio::test(start_paused = true)]
async fn a_wait_with_a_limit_ends_and_leaves_nothing_behind() {
    let store = memory();
    let (client, other) = (client(store.clone()), client(store.clone()));
    let phase = client.barrier("phase", 2);
    assert!(phase.wait_for(ms(50)).await.unwrap().is_none());
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0], "the party has left the barrier");
    let again = other.barrier("phase", 2);
    let (one, two) = tokio::join!(phase.wait_for(ms(10_000)), again.wait());
    assert_ne!(one.unwrap().unwrap().is_leader(), two.unwrap().is_leader());

    let leadership = other.election("billing").campaign().await.unwrap();
    let candidate = client.election("billing");
    assert!(candidate.campaign_for(ms(50)).await.unwrap().is_none());
    let mut observer = client.election("billing").observe();
    assert_eq!(observer.changed_for(ms(50)).await.unwrap().unwrap().unwrap().fence(), leadership.fence());
    assert!(observer.changed_for(ms(50)).await.unwrap().is_none(), "the leader has not changed");
    leadership.resign().await.unwrap();
    let next = candidate.campaign_for(ms(10_000)).await.unwrap().unwrap();
    assert_eq!(observer.changed_for(ms(10_000)).await.unwrap().unwrap().unwrap().fence(), next.fence());
}

#[tokio::test(start_paused = true)]
async fn a_guard_has_the_name_without_the_prefix_and_the_key_with_it() {
    let client = paused().prefix("shop:").over(memory()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    assert_eq!((guard.name(), guard.key()), ("orders", "shop:orders"));
}

#[tokio::test(start_paused = true)]
async fn a_number_that_is_zero_is_misused_when_the_client_starts() {
    assert_eq!(kind(paused().local_turns(0).over(memory())), Some(ErrorKind::Misused));
    assert_eq!(kind(paused().max_waiting(0).over(memory())), Some(ErrorKind::Misused));
}
