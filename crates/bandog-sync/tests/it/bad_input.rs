//! Calls with values that are not allowed fail without any I/O. The error contains the limits of the value.

use std::time::Duration;

use bandog_conformance::wrap::Counting;
use bandog_core::{ErrorKind, Key, MAX_TTL, MIN_TTL, Pattern, Records};
use bandog_sync::Client;

use crate::kit::{client, kind, memory, paused, soon};

#[tokio::test(start_paused = true)]
async fn names_ttls_and_waits_out_of_bounds_reach_no_store() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    let long = "x".repeat(1025);
    for name in ["", " ", "\u{a0}\u{3000} ", "a\nb", "\0", "\u{1b}[31m", &long] {
        let mutex = client.mutex(name);
        assert_eq!(kind(mutex.lock().await), Some(ErrorKind::Misused), "{name:?}");
        assert_eq!(kind(mutex.try_lock().await), Some(ErrorKind::Misused), "{name:?}");
        assert_eq!(kind(mutex.try_lock_for(Duration::from_secs(1)).await), Some(ErrorKind::Misused), "{name:?}");
        assert_eq!(kind(mutex.run(async |_| ()).await), Some(ErrorKind::Misused), "{name:?}");
        assert_eq!(kind(mutex.by(&client.owner()).lock().await), Some(ErrorKind::Misused), "{name:?}");
    }
    let orders = client.mutex("orders");
    for lease in [Duration::ZERO, MIN_TTL - Duration::from_nanos(1), MAX_TTL + Duration::from_nanos(1)] {
        let error = orders.clone().lease(lease).try_lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused);
        assert!(error.to_string().contains("100 ms and 365 days"), "{error}");
    }
    let error = orders.try_lock_for(MAX_TTL + Duration::from_nanos(1)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Misused && error.to_string().contains("365 days"), "{error}");
    client.idle().await;
    assert_eq!(store.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn values_at_the_bounds_work() {
    let client = client(memory());
    for lease in [MIN_TTL, MAX_TTL] {
        client.mutex("orders").lease(lease).lock().await.unwrap().release().await.unwrap();
    }
    drop(client.mutex("x".repeat(1024)).try_lock_for(MAX_TTL).await.unwrap().unwrap());
}

/// A blank name would look like no name in the lists of operators. A name that begins or ends with blanks is allowed,
/// because it can be the name of another program's lock.
#[tokio::test(start_paused = true)]
async fn a_wrong_name_is_refused_with_the_noun_of_its_kind() {
    let client = client(memory());
    let records = client.records();
    let long = "x".repeat(1025);
    for (name, text) in
        [("", "is empty"), ("  ", "\"  \" has only blanks"), ("a\n", "character '\\n'"), (&long, "1025 ")]
    {
        let refused = [
            ("a lock", soon(client.mutex(name).lock()).await.map(drop)),
            ("a lock", soon(client.semaphore(name, 1).acquire()).await.map(drop)),
            ("a lock", client.show(name).await.map(drop)),
            ("a latch", soon(client.latch(name).wait()).await),
            ("an election", soon(client.election(name).campaign()).await.map(drop)),
            ("an election", client.election(name).leader().await.map(drop)),
            ("an election", client.election(name).observe().changed().await.map(drop)),
            ("a barrier", soon(client.barrier(name, 1).wait()).await.map(drop)),
        ];
        for (noun, refused) in refused {
            let error = refused.expect_err(noun);
            let message = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Misused, "{noun}: {message}");
            assert!(message.contains(&format!("the name of {noun} ")) && message.contains(text), "{message}");
        }
        let key = Key::new(name).unwrap_err().to_string();
        assert!(key.contains("the name ") && !key.contains("lock") && key.contains(text), "{key}");
    }
    assert_eq!(records.names(&Pattern::all()).await.unwrap(), []);
    for name in [" a", "a ", " a b "] {
        client.mutex(name).lock().await.unwrap().release().await.unwrap();
        client.latch(name).wait().await.unwrap();
    }
}

#[test]
fn a_blank_name_of_the_program_makes_no_client() {
    for program in ["", " ", "\t\n"] {
        let error = Client::options().program(program).over(memory()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused);
        assert!(error.to_string().contains("the name of the program"), "{error}");
    }
}

#[test]
fn a_watchdog_out_of_bounds_makes_no_client() {
    for ttl in [Duration::ZERO, Duration::from_millis(99), Duration::MAX] {
        assert_eq!(kind(Client::options().watchdog(ttl).over(memory())), Some(ErrorKind::Misused));
    }
}

#[test]
fn the_current_runtime_outside_of_one_is_an_error() {
    assert_eq!(kind(paused().over(memory())), Some(ErrorKind::Misused));
}
