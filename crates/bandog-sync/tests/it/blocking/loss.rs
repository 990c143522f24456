//! Lost locks, and bodies of `run` that panic.

use std::{panic, thread, time::Duration};

use bandog_core::{ErrorKind, MAX_TTL};

use super::{client, held, memory};
use crate::kit::{kind, ms};

/// After a loss, all guards of the thread for this lock are lost. The thread's calls for this lock return `Lost` until
/// these guards are dropped.
#[test]
fn a_loss_is_an_error_for_all_guards_of_the_thread() {
    let client = client(memory());
    let orders = client.mutex("orders");
    let (first, second) = (orders.lock().unwrap(), orders.lock().unwrap());
    let lost = first.lost();
    let watch = thread::spawn(move || lost.wait().unwrap());
    assert!(client.evict("orders").unwrap().is_some());
    assert!(watch.join().unwrap(), "another thread must see the loss");
    assert!(first.is_lost() && second.is_lost());
    assert!(first.remaining().is_zero());
    assert_eq!(kind(orders.lock()), Some(ErrorKind::Lost));
    let others = orders.clone();
    thread::spawn(move || others.lock().unwrap().release().unwrap()).join().unwrap();
    assert_eq!(kind(first.release()), Some(ErrorKind::Lost));
    assert_eq!(kind(orders.try_lock()), Some(ErrorKind::Lost));
    assert!(second.lost().wait().unwrap(), "the lock is lost already");
    drop(second);
    let third = orders.lock().unwrap();
    assert!(!third.is_lost());
    third.release().unwrap();
}

/// A fixed lease expires in time, and wakes a thread that waits for the loss.
#[test]
fn a_fixed_lease_expires() {
    let client = client(memory());
    let guard = client.mutex("orders").lease(ms(200)).lock().unwrap();
    assert!(guard.lost().wait().unwrap());
    assert_eq!(kind(guard.release()), Some(ErrorKind::Lost));
}

/// A thread that works in steps can wait for the loss between them, for a limited time.
#[test]
fn a_wait_for_a_loss_can_have_a_limit() {
    let client = client(memory());
    let guard = client.mutex("orders").lock().unwrap();
    let (lost, expiring, soon) = (guard.lost(), guard.expiring(ms(1)), guard.expiring(guard.ttl()));
    assert!(!lost.wait_for(ms(20)).unwrap() && !expiring.wait_for(ms(20)).unwrap());
    assert!(soon.wait_for(Duration::ZERO).unwrap(), "the grace time is the whole ttl");
    guard.lose();
    assert!(lost.wait_for(Duration::ZERO).unwrap() && expiring.wait_for(MAX_TTL).unwrap());
    drop(guard);
    let guard = client.mutex("short").lease(ms(200)).lock().unwrap();
    assert!(guard.lost().wait_for(MAX_TTL).unwrap());
    assert_eq!(kind(guard.release()), Some(ErrorKind::Lost));
}

/// A lock is lost after its `max_hold`, even if it is renewed.
#[test]
fn a_lock_is_lost_after_its_max_hold() {
    let client = client(memory());
    let guard = client.mutex("orders").max_hold(ms(200)).lock().unwrap();
    assert!(guard.lost().wait().unwrap());
    assert_eq!(kind(guard.release()), Some(ErrorKind::Lost));
}

/// A program's own test can mark a lock as lost.
#[test]
fn a_guard_can_be_made_lost() {
    let client = client(memory());
    let ran = client.mutex("orders").run(super::Guard::lose);
    assert_eq!(kind(ran), Some(ErrorKind::Lost));
    assert_eq!(held(&client), [""; 0]);
}

/// A thread that waits for a loss is also woken when the lock is released.
#[test]
fn a_released_lock_ends_the_wait_for_its_loss() {
    let client = client(memory());
    let guard = client.mutex("orders").lock().unwrap();
    let (lost, later) = (guard.lost(), guard.lost());
    let watch = thread::spawn(move || lost.wait().unwrap());
    guard.release().unwrap();
    assert!(!watch.join().unwrap());
    assert!(!later.wait().unwrap());
    let guard = client.mutex("orders").lock().unwrap();
    let lost = guard.lost();
    client.close().unwrap();
    assert!(lost.wait().unwrap(), "the guard of a closed client is lost");
}

#[test]
fn run_returns_the_value_and_releases_the_lock() {
    let client = client(memory());
    let value = client.mutex("orders").run(|guard| {
        assert_eq!(client.list(bandog_core::Pattern::all()).unwrap().len(), 1);
        guard.key().len()
    });
    assert_eq!(value.unwrap(), 6);
    assert_eq!(held(&client), [""; 0]);
}

// Promise: B6
#[test]
fn run_releases_the_lock_when_the_body_panics() {
    let client = client(memory());
    let orders = client.mutex("orders");
    let body = || orders.run(|_| panic::resume_unwind(Box::new("as the test wanted")));
    let panicked: Result<Result<(), _>, _> = panic::catch_unwind(panic::AssertUnwindSafe(body));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"as the test wanted"));
    assert_eq!(held(&client), [""; 0]);
    orders.lock().unwrap().release().unwrap();
}

/// If the lock was lost before the body ended, another holder may have done the same work. So `run` returns an error
/// instead of the body's value.
#[test]
fn run_reports_a_loss() {
    let client = client(memory());
    let ran = client.mutex("orders").run(|guard| {
        client.evict("orders").unwrap();
        assert!(guard.lost().wait().unwrap());
    });
    assert_eq!(kind(ran), Some(ErrorKind::Lost));
    assert_eq!(client.mutex("orders").run(|_| 7).unwrap(), 7);
}
