//! Lost locks, and bodies that panic.

use std::{panic, thread};

use bandog_core::ErrorKind;

use super::{client, held, memory};
use crate::kit::{kind, ms};

/// After a loss all guards of the thread are lost, and its calls for this lock are `Lost` until they are dropped.
#[test]
fn a_loss_is_an_error_for_all_guards_of_the_thread() {
    let client = client(memory());
    let orders = client.mutex("orders");
    let (first, second) = (orders.lock().unwrap(), orders.lock().unwrap());
    let lost = first.lost();
    let watch = thread::spawn(move || lost.wait().unwrap());
    assert!(client.evict("orders").unwrap().is_some());
    assert!(watch.join().unwrap(), "another thread sees it");
    assert!(first.is_lost() && second.is_lost());
    assert!(first.remaining().is_zero());
    assert_eq!(kind(orders.lock()), Some(ErrorKind::Lost));
    let others = orders.clone();
    thread::spawn(move || others.lock().unwrap().release().unwrap()).join().unwrap();
    assert_eq!(kind(first.release()), Some(ErrorKind::Lost));
    assert_eq!(kind(orders.try_lock()), Some(ErrorKind::Lost));
    assert!(second.lost().wait().unwrap(), "at once");
    drop(second);
    let third = orders.lock().unwrap();
    assert!(!third.is_lost());
    third.release().unwrap();
}

/// A fixed lease expires on time, also for a thread that waits for that.
#[test]
fn a_lease_ends() {
    let client = client(memory());
    let guard = client.mutex("orders").lease(ms(200)).lock().unwrap();
    assert!(guard.lost().wait().unwrap());
    assert_eq!(kind(guard.release()), Some(ErrorKind::Lost));
}

/// A hold ends after its `max_hold`, even if it is renewed.
#[test]
fn max_hold_ends_a_hold() {
    let client = client(memory());
    let guard = client.mutex("orders").max_hold(ms(200)).lock().unwrap();
    assert!(guard.lost().wait().unwrap());
    assert_eq!(kind(guard.release()), Some(ErrorKind::Lost));
}

/// A test of a program may make a guard lost.
#[test]
fn a_guard_can_be_made_lost() {
    let client = client(memory());
    let ran = client.mutex("orders").run(super::Guard::lose);
    assert_eq!(kind(ran), Some(ErrorKind::Lost));
    assert_eq!(held(&client), [""; 0]);
}

/// A wait for a loss ends when the lock is released.
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
fn run_gives_its_value_and_the_lock_back() {
    let client = client(memory());
    let value = client.mutex("orders").run(|guard| {
        assert_eq!(client.list(bandog_core::Pattern::all()).unwrap().len(), 1);
        guard.key().as_str().len()
    });
    assert_eq!(value.unwrap(), 6);
    assert_eq!(held(&client), [""; 0]);
}

#[test]
fn run_gives_the_lock_back_when_the_body_panics() {
    let client = client(memory());
    let orders = client.mutex("orders");
    let body = || orders.run(|_| panic::resume_unwind(Box::new("as the test wanted")));
    let panicked: Result<Result<(), _>, _> = panic::catch_unwind(panic::AssertUnwindSafe(body));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"as the test wanted"));
    assert_eq!(held(&client), [""; 0]);
    orders.lock().unwrap().release().unwrap();
}

/// Another holder may have done the work of a body that ends after the loss, so its value does not count.
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
