use std::time::Duration;

use bandog_conformance::wrap::{Counting, Delayed, Fate, Forgetful, Lossy, Stopped, Which};
use bandog_core::{Backend, ClientId, Clock, Inspect, Key, Leases, Member, Memory, Released};
use bandog_sync::Client;

const TTL: Duration = Duration::from_secs(10);

fn memory() -> Memory {
    Memory::new(Clock::tokio())
}

/// Everything beside locking comes through to the backend, and its answers come back.
async fn passes_on(wrapper: impl Backend + Clone) {
    let member = Member::here(ClientId::random());
    wrapper.announce(&member, TTL).await.unwrap();
    assert_eq!(wrapper.members().await.unwrap(), std::slice::from_ref(&member));
    wrapper.withdraw(member.id).await.unwrap();
    assert_eq!(wrapper.members().await.unwrap(), []);
    assert_eq!(wrapper.check().await.unwrap().len(), 1);

    let key = Key::new("orders").unwrap();
    assert_eq!(wrapper.evict(&key).await.unwrap(), Released::NotHeld);
    let client = Client::options().clock(Clock::tokio()).on_current_runtime().over(wrapper.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    assert!(wrapper.show(&key).await.unwrap().held);
    assert!(matches!(wrapper.evict(&key).await.unwrap(), Released::Freed { .. }));
    assert!(!wrapper.show(&key).await.unwrap().held);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn each_wrapper_passes_everything_on() {
    passes_on(memory()).await;
    passes_on(Counting::new(memory())).await;
    passes_on(Delayed::new(memory(), 1, TTL / 100, TTL / 100)).await;
    passes_on(Lossy::new(memory())).await;
    passes_on(Stopped::new(memory())).await;
    passes_on(Forgetful::new(memory())).await;
}

#[tokio::test(start_paused = true)]
async fn the_registry_suffers_as_all_else_does() {
    let member = Member::here(ClientId::random());
    let wire = Lossy::new(memory());
    wire.always(Fate::RequestLost);
    assert!(wire.announce(&member, TTL).await.is_err());
    assert_eq!(wire.members().await.unwrap(), []);
    wire.always(Fate::ReplyLost);
    assert!(wire.announce(&member, TTL).await.is_err());
    assert_eq!(wire.members().await.unwrap(), std::slice::from_ref(&member));

    let still = Stopped::new(memory());
    still.stop(Which::Requests);
    assert!(tokio::time::timeout(TTL, still.announce(&member, TTL)).await.is_err());
    assert_eq!((still.members().await.unwrap().len(), still.held()), (0, 0));
    still.go_on();
    still.announce(&member, TTL).await.unwrap();
    assert_eq!(still.members().await.unwrap().len(), 1);
}
