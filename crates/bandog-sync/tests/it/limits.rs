//! Calls for a semaphore with different limits and numbers of permits in one client: each call gets its own answer.

use bandog_core::{Error, ErrorKind};
use bandog_sync::{Client, Guard, SharedHold, all};
use tokio::task::{JoinHandle, yield_now};

use crate::kit::{client, memory, ms, soon};

/// A call that waits, and has arrived in the engine.
async fn acquire(client: &Client, limit: u32, permits: u32) -> JoinHandle<Result<Guard<SharedHold>, Error>> {
    let semaphore = client.semaphore("gpu", limit).permits(permits);
    let call = tokio::spawn(async move { semaphore.acquire().await });
    yield_now().await;
    client.idle().await;
    call
}

/// Asserts that the error names both limits.
#[track_caller]
fn names_both(error: &Error, stored: u32, given: u32) {
    assert_eq!(error.kind(), ErrorKind::Misused);
    let text = error.to_string();
    assert!(text.contains(&stored.to_string()) && text.contains(&given.to_string()), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_call_with_another_limit_fails_at_once_and_the_calls_around_it_do_not() {
    let client = client(memory());
    let guard = client.semaphore("gpu", 2).permits(2).acquire().await.unwrap();
    let first = acquire(&client, 2, 1).await;
    let other = acquire(&client, 3, 1).await;
    let last = acquire(&client, 2, 1).await;
    names_both(&soon(other).await.unwrap().unwrap_err(), 2, 3);
    assert!(!first.is_finished() && !last.is_finished());
    drop(guard);
    drop(soon(first).await.unwrap().unwrap());
    drop(soon(last).await.unwrap().unwrap());
}

/// All permits are taken, by another client or by this one, with a waiting call or without.
#[tokio::test(start_paused = true)]
async fn a_try_with_another_limit_is_an_error_although_all_permits_are_taken() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    for (holder, waits) in [(&theirs, true), (&ours, false), (&ours, true)] {
        let guard = holder.semaphore("gpu", 2).permits(2).acquire().await.unwrap();
        let waiting = if waits { Some(acquire(&ours, 2, 1).await) } else { None };
        for limit in [1, 3] {
            let semaphore = ours.semaphore("gpu", limit);
            names_both(&semaphore.try_acquire().await.unwrap_err(), 2, limit);
            names_both(&semaphore.try_acquire_for(ms(500)).await.unwrap_err(), 2, limit);
            names_both(&all([semaphore.clone()]).try_lock().await.unwrap_err(), 2, limit);
            names_both(&semaphore.max_waiters(1).acquire().await.unwrap_err(), 2, limit);
        }
        names_both(&ours.semaphore("gpu", 9).permits(5).try_acquire().await.unwrap_err(), 2, 9);
        assert!(ours.semaphore("gpu", 2).try_acquire().await.unwrap().is_none());
        drop(guard);
        if let Some(waiting) = waiting {
            drop(soon(waiting).await.unwrap().unwrap());
        }
        ours.idle().await;
    }
}

/// After a new limit, a waiting call can want more permits than there are. It fails, and the calls behind it do not.
#[tokio::test(start_paused = true)]
async fn a_call_for_too_many_permits_fails_alone() {
    let client = client(memory());
    let guard = client.semaphore("gpu", 4).permits(4).acquire().await.unwrap();
    let first = acquire(&client, 4, 1).await;
    let big = acquire(&client, 4, 3).await;
    let last = acquire(&client, 4, 1).await;
    client.semaphore("gpu", 4).set_limit(2).await.unwrap();
    drop(guard);
    let first = soon(first).await.unwrap().unwrap();
    names_both(&soon(big).await.unwrap().unwrap_err(), 2, 3);
    let last = soon(last).await.unwrap().unwrap();
    drop((first, last));
}

/// Handles with the limit before the last change still work, and those with an older one get an error of their own.
#[tokio::test(start_paused = true)]
async fn a_new_limit_ends_only_the_calls_with_an_old_one() {
    let store = memory();
    let (client, theirs) = (client(store.clone()), client(store));
    let guard = theirs.semaphore("gpu", 2).permits(2).acquire().await.unwrap();
    let oldest = acquire(&client, 2, 1).await;
    client.semaphore("gpu", 2).set_limit(3).await.unwrap();
    drop(soon(oldest).await.unwrap().unwrap());
    let full = theirs.semaphore("gpu", 3).acquire().await.unwrap();
    let oldest = acquire(&client, 2, 1).await;
    let old = acquire(&client, 3, 1).await;
    client.semaphore("gpu", 3).set_limit(1).await.unwrap();
    let new = acquire(&client, 1, 1).await;
    drop(guard);
    names_both(&soon(oldest).await.unwrap().unwrap_err(), 1, 2);
    drop(full);
    drop(soon(old).await.unwrap().unwrap());
    drop(soon(new).await.unwrap().unwrap());
}

/// The first call waits for a permit of this client, and the second call waits behind it. At its limit, the second call
/// gets none: the store has answered, but no permit was free.
#[tokio::test(start_paused = true)]
async fn a_call_behind_a_call_that_waits_for_this_client_times_out_without_an_error() {
    let client = client(memory());
    let guard = client.semaphore("gpu", 2).acquire().await.unwrap();
    let big = acquire(&client, 2, 2).await;
    assert!(client.semaphore("gpu", 2).try_acquire_for(ms(500)).await.unwrap().is_none());
    drop(guard);
    drop(soon(big).await.unwrap().unwrap());
}
