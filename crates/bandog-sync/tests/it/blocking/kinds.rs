//! Fair mutexes, read-write locks and semaphores without async.

use std::{sync::Mutex, thread};

use bandog_core::ErrorKind;

use super::{client, held, memory};
use crate::kit::kind;

#[test]
fn a_thread_reads_again_and_cannot_upgrade() {
    let client = client(memory());
    let lock = client.rwlock("catalogue");
    let (outer, inner) = (lock.read().unwrap(), lock.read().unwrap());
    assert_eq!(outer.fence(), inner.fence());
    drop(outer);
    assert_eq!(kind(lock.write()), Some(ErrorKind::Misused));
    drop(inner);
    let writer = lock.write().unwrap();
    let other = lock.clone();
    assert!(thread::spawn(move || other.try_read().unwrap().is_none()).join().unwrap());
    let reader = writer.downgrade().unwrap();
    let other = lock.clone();
    assert!(thread::spawn(move || other.try_read().unwrap().is_some()).join().unwrap());
    reader.release().unwrap();
    assert_eq!(held(&client), [""; 0]);
}

/// The owner of a thread knows its turn before the call that gets the turn returns.
#[test]
fn a_call_right_after_another_one_knows_its_guard() {
    let client = client(memory());
    let lock = client.rwlock("catalogue");
    for _ in 0..2000 {
        let guard = lock.read().unwrap();
        assert_eq!(kind(lock.try_write()), Some(ErrorKind::Misused));
        guard.release().unwrap();
    }
}

#[test]
fn a_thread_takes_permits_several_times() {
    let client = client(memory());
    let semaphore = client.semaphore("gpu", 3);
    let (one, two) = (semaphore.acquire().unwrap(), semaphore.clone().permits(2).acquire().unwrap());
    assert!(semaphore.try_acquire().unwrap().is_none());
    drop((one, two));
    semaphore.set_limit(1).unwrap();
    assert_eq!(kind(client.semaphore("gpu", 2).acquire()), Some(ErrorKind::Misused));
    assert_eq!(held(&client), [""; 0]);
}

#[test]
fn threads_share_a_fair_mutex() {
    let client = client(memory());
    let fair = client.mutex("orders").fair();
    let counter = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    fair.run(|_| *counter.try_lock().unwrap() += 1).unwrap();
                }
            });
        }
    });
    assert_eq!(*counter.lock().unwrap(), 200);
    assert_eq!(held(&client), [""; 0]);
}
