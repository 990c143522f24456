//! Locks that stay in the store without their client, and are released by a token.

use bandog_conformance::wrap::{Capped, Fate, Lossy};
use bandog_core::{Clock, ErrorKind, Inspect, Memory};
use bandog_sync::{Client, Guard, SharedHold, Token};
use tokio::time;

use crate::kit::{client, held, key, kind, memory, ms, paused, waiting};

/// A guard of each kind of lock, with a fixed lease of an hour.
async fn leased(client: &Client) -> Vec<Guard<SharedHold>> {
    let lease = ms(3_600_000);
    vec![
        client.mutex("mutex").lease(lease).lock().await.unwrap().into(),
        client.mutex("fair").fair().lease(lease).lock().await.unwrap().into(),
        client.rwlock("read").lease(lease).read().await.unwrap(),
        client.rwlock("write").lease(lease).write().await.unwrap().into(),
        client.semaphore("permits", 5).permits(2).lease(lease).acquire().await.unwrap(),
    ]
}

// Promise: L30
#[tokio::test(start_paused = true)]
async fn a_detached_lock_of_any_kind_outlives_its_client_and_another_client_releases_it() {
    let store = memory();
    let first = client(store.clone());
    let mut tokens = Vec::new();
    for guard in leased(&first).await {
        let (name, fence) = (guard.key().to_owned(), guard.fence());
        let token = guard.detach().await.unwrap();
        assert_eq!((token.fence(), token.to_string().parse::<Token>().unwrap()), (fence, token.clone()));
        tokens.push((name, token));
    }
    first.close().await.unwrap();
    assert_eq!(held(&store).await.len(), 5);
    let second = client(store.clone());
    for (name, token) in &tokens {
        let other = tokens.iter().find(|(other, _)| other != name).map(|(_, token)| token).unwrap();
        assert!(!second.release_detached(name, other).await.unwrap(), "{name}: the token of another lock");
        let row = second.show(name).await.unwrap();
        assert!(row.is_held() && (row.holders[0].member.is_some() || name != "mutex"), "{name}: {row:?}");
        assert!(second.release_detached(name, token).await.unwrap(), "{name}");
        assert!(!second.show(name).await.unwrap().is_held(), "{name}");
        assert!(!second.release_detached(name, token).await.unwrap(), "{name}: a second time");
    }
}

// Promise: L30
#[tokio::test(start_paused = true)]
async fn a_detached_lock_is_free_when_its_lease_has_expired() {
    let store = memory();
    let first = client(store.clone());
    let token = first.mutex("orders").lease(ms(5000)).lock().await.unwrap().detach().await.unwrap();
    first.close().await.unwrap();
    let second = client(store.clone());
    time::sleep(ms(4990)).await;
    assert!(second.mutex("orders").try_lock().await.unwrap().is_none());
    time::sleep(ms(20)).await;
    let next = second.mutex("orders").try_lock().await.unwrap().unwrap();
    assert!(next.fence() > token.fence());
    assert!(!second.release_detached("orders", &token).await.unwrap(), "a late release frees no later hold");
    assert_eq!(held(&store).await, ["orders"]);
}

// Promise: L30
#[tokio::test(start_paused = true)]
async fn a_detached_lease_is_extended_and_never_shortened() {
    let store = memory();
    let first = client(store.clone());
    for guard in leased(&first).await {
        let name = guard.key().to_owned();
        let token = guard.detach().await.unwrap();
        let left = async || store.show(&key(&name)).await.unwrap().holders[0].ttl.unwrap();
        assert!(first.extend_detached(&name, &token, ms(1000)).await.unwrap());
        assert!(left().await > ms(3_500_000), "{name}: {:?}", left().await);
        assert!(first.extend_detached(&name, &token, ms(7_200_000)).await.unwrap());
        assert_eq!(left().await, ms(7_200_000), "{name}");
        store.evict(&key(&name)).await.unwrap();
        assert!(!first.extend_detached(&name, &token, ms(7_200_000)).await.unwrap(), "{name}");
        assert_eq!(kind(first.extend_detached(&name, &token, ms(1)).await), Some(ErrorKind::Misused));
    }
}

/// The row of a client that works on is not removed with its detached lock.
#[tokio::test(start_paused = true)]
async fn a_client_that_releases_its_own_detached_lock_stays_in_the_registry() {
    let first = client(memory());
    let other = first.mutex("other").lock().await.unwrap();
    let guard = first.mutex("orders").lease(ms(60_000)).lock().await.unwrap();
    time::sleep(ms(1000)).await;
    let token = guard.detach().await.unwrap();
    time::sleep(ms(2000)).await;
    let is_known = async || first.members().await.unwrap().iter().any(|member| member.id == first.id());
    assert!(is_known().await);
    assert!(first.release_detached("orders", &token).await.unwrap());
    assert!(is_known().await);
    other.release().await.unwrap();
}

/// Calls of the same client that wait get the lock after the release by the token.
#[tokio::test(start_paused = true)]
async fn a_waiter_of_the_same_client_waits_for_the_release() {
    let store = memory();
    let (first, second) = (client(store.clone()), client(store.clone()));
    for name in ["mutex", "fair"] {
        let mutex = if name == "fair" { first.mutex(name).fair() } else { first.mutex(name) };
        let guard = mutex.clone().lease(ms(3_600_000)).lock().await.unwrap();
        let waiter = match name {
            "fair" => tokio::spawn(async move { mutex.lock().await }),
            _ => waiting(&first, name).await,
        };
        time::sleep(ms(10)).await;
        let token = guard.detach().await.unwrap();
        time::sleep(ms(10_000)).await;
        assert!(!waiter.is_finished(), "{name}");
        assert!(second.release_detached(name, &token).await.unwrap());
        let next = waiter.await.unwrap().unwrap();
        assert!(next.fence() > token.fence(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_stay_is_refused_and_released() {
    let store = memory();
    let first = client(store.clone());
    let renewed = first.mutex("renewed").lock().await.unwrap();
    assert_eq!(kind(renewed.detach().await), Some(ErrorKind::Misused));
    let owned = first.mutex("owned").lease(ms(60_000)).by(&first.owner());
    let (one, two) = (owned.lock().await.unwrap(), owned.lock().await.unwrap());
    assert_eq!(kind(one.detach().await), Some(ErrorKind::Misused));
    drop(two);
    let lost = first.mutex("lost").lease(ms(100)).lock().await.unwrap();
    time::sleep(ms(200)).await;
    assert_eq!(kind(lost.detach().await), Some(ErrorKind::Lost));
    first.idle().await;
    assert_eq!(held(&store).await, [""; 0]);

    // A store that gives less time than the lease keeps the lock only while its client renews it.
    let short = client(Capped::short_leases(memory(), ms(600)));
    let guard = short.mutex("orders").lease(ms(60_000)).lock().await.unwrap();
    assert_eq!(kind(guard.detach().await), Some(ErrorKind::Unavailable));
    short.idle().await;
    assert!(!short.show("orders").await.unwrap().is_held());
}

/// A request without an answer can be applied after the release, and would take the lock again.
// Promise: L30
#[tokio::test(start_paused = true)]
async fn a_lock_with_a_request_that_may_still_be_applied_is_not_detached() {
    let wire = Lossy::new(memory());
    let first = paused().over(wire.clone()).unwrap();
    wire.next([Fate::ReplyLost]);
    let guard = first.mutex("orders").lease(ms(60_000)).lock().await.unwrap();
    assert_eq!(kind(guard.detach().await), Some(ErrorKind::Unavailable));
    let guard = first.mutex("others").lease(ms(60_000)).lock().await.unwrap();
    wire.always(Fate::ReplyLost);
    drop(guard.extend(ms(90_000)).await.unwrap_err());
    wire.heal();
    assert_eq!(kind(guard.detach().await), Some(ErrorKind::Unavailable));
    first.idle().await;
    assert!(!first.show("orders").await.unwrap().is_held() && !first.show("others").await.unwrap().is_held());
}

/// A dropped future releases the lock.
#[tokio::test(start_paused = true)]
async fn a_dropped_detachment_releases_the_lock() {
    let store = memory();
    let first = client(store.clone());
    for polls in 0..2 {
        let guard = first.mutex("orders").lease(ms(60_000)).lock().await.unwrap();
        let mut detaching = Box::pin(guard.detach());
        if polls > 0 {
            assert!(futures_util::poll!(&mut detaching).is_pending());
        }
        drop(detaching);
        first.idle().await;
        assert_eq!(held(&store).await, [""; 0], "{polls} polls");
    }
}

#[test]
fn a_token_is_a_plain_text() {
    for text in ["", "mutex", "mutex@@1", "mutex@0198b3a2-6f0c-8a44-9d5e-0123456789ab:7@-1", "odd@x:1@1"] {
        assert_eq!(kind(text.parse::<Token>()), Some(ErrorKind::Misused), "{text}");
    }
    for (kind, checksum) in [
        ("mutex", "4b5555c2"),
        ("fair", "76e76da1"),
        ("read", "4145891b"),
        ("write", "d85919ca"),
        ("permits:2/5", "14609e2d"),
    ] {
        let text = format!("{kind}@0198b3a2-6f0c-8a44-9d5e-0123456789ab:7.{checksum}@42");
        let token: Token = text.parse().unwrap();
        assert_eq!((token.to_string(), token.kind().to_string(), token.fence().get()), (text, kind.to_owned(), 42));
    }
}

/// The store finds a hold by its claim only. So a token whose other parts were changed must not free it.
#[test]
fn a_token_that_was_changed_is_refused() {
    let text = "permits:2/5@0198b3a2-6f0c-8a44-9d5e-0123456789ab:7.14609e2d@42";
    assert!(text.parse::<Token>().is_ok());
    for (from, to) in
        [("@42", "@43"), ("2/5", "1/5"), ("2/5", "2/9"), ("permits:2/5", "mutex"), (":7", ":8"), ("0198", "0199")]
    {
        let changed = text.replace(from, to);
        assert_eq!(kind(changed.parse::<Token>()), Some(ErrorKind::Misused), "{changed}");
    }
}

#[test]
fn a_blocking_guard_is_detached() {
    let client = Client::over(Memory::new(Clock::system())).unwrap().blocking().unwrap();
    let token = client.mutex("orders").lease(ms(60_000)).lock().unwrap().detach().unwrap();
    assert!(client.mutex("orders").try_lock().unwrap().is_none());
    assert!(client.extend_detached("orders", &token, ms(90_000)).unwrap());
    assert!(client.release_detached("orders", &token).unwrap());
    assert!(client.mutex("orders").try_lock().unwrap().is_some());
}
