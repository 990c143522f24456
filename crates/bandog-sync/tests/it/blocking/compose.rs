//! Several locks at once, elections and barriers without async. They run in real time, on threads outside any runtime.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use bandog_conformance::wrap::{Fate, Lossy, WithoutSubscriptions};
use bandog_core::{ErrorKind, Key, Line, Pattern, Swap, Swapped};
use bandog_sync::blocking::{self, AnyLock, all};

use super::{client, held, memory};
use crate::kit::{kind, ms};

const LONG: Duration = Duration::from_secs(60);

fn shared<T: Send + Sync + 'static>() {}
fn sent<T: Send>() {}
fn readable<T: Sync>() {}

#[test]
fn handles_cross_threads_and_guards_can_be_read() {
    shared::<blocking::All>();
    shared::<blocking::Election>();
    sent::<blocking::Observer>();
    shared::<blocking::Barrier>();
    shared::<blocking::Leadership>();
    readable::<blocking::AllGuard>();
}

#[test]
fn threads_lock_several_locks_in_opposite_orders() {
    let (near, far) = (memory(), memory());
    let clients = [client(near.clone()), client(far.clone()), client(near), client(far)];
    let holders = AtomicUsize::new(0);
    thread::scope(|scope| {
        for worker in 0..4 {
            let mut locks = [clients[2 * (worker % 2)].mutex("a"), clients[2 * (worker % 2) + 1].mutex("b")];
            locks.rotate_left(worker / 2);
            let holders = &holders;
            scope.spawn(move || {
                for _ in 0..50 {
                    let guard = all(&locks).lock().unwrap();
                    assert_eq!(holders.fetch_add(1, SeqCst), 0);
                    thread::yield_now();
                    holders.fetch_sub(1, SeqCst);
                    guard.release().unwrap();
                }
            });
        }
    });
}

#[test]
fn a_thread_locks_several_locks_and_is_their_owner() {
    let client = client(memory());
    let locks = all([client.mutex("b"), client.mutex("a")]);
    let single = client.mutex("a").lock().unwrap();
    let guard = locks.try_lock().unwrap().unwrap();
    assert_eq!(
        (guard.fence(1), guard.fences().len()),
        (Some(single.fence()), 2),
        "the thread has one turn of each lock"
    );
    single.release().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(locks.try_lock().unwrap().is_none());
            assert!(locks.try_lock_for(ms(20)).unwrap().is_none());
        });
    });
    assert!(!guard.is_lost() && guard.remaining() > Duration::ZERO);
    let (lost, watched) = (guard.lost(), guard.lost());
    let watch = thread::spawn(move || watched.wait().unwrap());
    guard.release().unwrap();
    assert!(!lost.wait().unwrap() && !watch.join().unwrap(), "released locks are not lost");
    assert_eq!(locks.run(|guard| guard.fences().len()).unwrap(), 2);
    let lost = locks.run(|guard| {
        let lost = guard.lost();
        guard.lose(1);
        assert!(lost.wait().unwrap() && guard.is_lost());
    });
    assert_eq!(kind(lost), Some(ErrorKind::Lost));
    assert_eq!(held(&client), [""; 0]);
    assert_eq!(kind(all([client.mutex("a"), client.mutex("a")]).lock()), Some(ErrorKind::Misused));
}

#[test]
fn the_guard_of_several_locks_has_the_guards_of_the_single_ones() {
    let client = client(memory());
    let catalogue = client.rwlock("catalogue");
    let guard = all([AnyLock::read(&catalogue), client.mutex("orders").into()]).lock().unwrap();
    assert_eq!(guard.guards().iter().map(|guard| guard.name()).collect::<Vec<_>>(), ["catalogue", "orders"]);
    assert_eq!(guard.guards().iter().map(|guard| guard.fence()).collect::<Vec<_>>(), guard.fences());
    guard.release().unwrap();
    let guard = all([AnyLock::write(&catalogue), client.mutex("orders").into()]).lock().unwrap();
    assert_eq!(kind(guard.fence_sql()), Some(ErrorKind::Unsupported), "memory is no database");
    assert_eq!(kind(guard.guards()[0].fence_sql()), Some(ErrorKind::Unsupported));
    drop(guard);
    assert_eq!(held(&client), [""; 0]);
}

#[test]
fn a_thread_swaps_reads_and_subscribes_to_records() {
    let client = client(memory());
    assert!(client.profile().has_records);
    let (records, news) = (client.records(), Key::new("news").unwrap());
    let mut notifications = records.subscribe(&news).unwrap();
    notifications.wait().unwrap();
    assert!(!notifications.wait_for(Duration::ZERO).unwrap() && !notifications.wait_for(ms(20)).unwrap());
    assert_eq!(kind(notifications.wait_for(Duration::MAX)), Some(ErrorKind::Misused));
    let lines = vec![Line { slot: "1".into(), value: "first".into() }];
    let swap = Swap { notifies: true, lines: lines.clone(), ..Swap::new(news.clone(), None, "first") };
    assert!(matches!(records.swap(&[swap]).unwrap().each[..], [Ok(Swapped::Done(Some(_)))]));
    assert!(notifications.wait_for(LONG).unwrap());
    let read = records.read(std::slice::from_ref(&news), &[]).unwrap().records.remove(0).unwrap().unwrap();
    assert_eq!(read.value, "first");
    assert_eq!(records.history(&news).unwrap(), lines);
    assert_eq!(records.names(&Pattern::all()).unwrap(), [news]);
    client.close().unwrap();
    assert_eq!(kind(notifications.wait()), Some(ErrorKind::Closed));
}

/// The campaign, the observer and the barrier have timers, which the waiting thread replaces.
#[test]
fn a_thread_campaigns_observes_and_resigns() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(WithoutSubscriptions::new(store)));
    let election = ours.election("billing").candidate("one");
    let mut observer = theirs.election("billing").observe();
    assert_eq!(observer.changed().unwrap(), None);
    assert_eq!(observer.changed_for(ms(20)).unwrap(), None, "nothing has changed");
    let leadership = election.campaign().unwrap();
    let seen = observer.changed_for(LONG).unwrap().flatten().unwrap();
    assert_eq!((seen.text(), seen.fence()), ("one", leadership.fence()));
    assert!(theirs.election("billing").campaign_for(ms(50)).unwrap().is_none());

    let waits = theirs.election("billing").candidate("two");
    let (elected, leaders) = mpsc::channel();
    let candidate = thread::spawn(move || {
        elected.send(waits.campaign().unwrap()).unwrap();
    });
    let lost = leadership.lost();
    assert!(leaders.recv_timeout(ms(50)).is_err());
    leadership.resign().unwrap();
    assert!(!lost.wait().unwrap());
    let second = leaders.recv_timeout(LONG).unwrap();
    candidate.join().unwrap();
    assert!(second.fence() > seen.fence() && !second.is_lost());
    assert_eq!(ours.election("billing").leader().unwrap().map(|leader| leader.fence()), Some(second.fence()));
    second.resign().unwrap();
    assert_eq!(held(&ours), [""; 0]);
}

#[test]
fn threads_meet_at_a_barrier() {
    const PHASES: usize = 10;
    let store = memory();
    let clients = [client(store.clone()), client(WithoutSubscriptions::new(store.clone())), client(store)];
    assert!(clients[0].barrier("phase", 3).wait_for(ms(50)).unwrap().is_none());
    clients[0].idle().unwrap();
    let leaders: Arc<[AtomicUsize; PHASES]> = Arc::default();
    thread::scope(|scope| {
        for client in &clients {
            let leaders = &leaders;
            scope.spawn(move || {
                let barrier = client.barrier("phase", 3);
                for phase in &leaders[..3] {
                    phase.fetch_add(usize::from(barrier.wait_for(LONG).unwrap().unwrap().is_leader()), SeqCst);
                }
            });
        }
    });
    assert!(leaders[..3].iter().all(|leaders| leaders.load(SeqCst) == 1), "{leaders:?}");
    thread::scope(|scope| {
        for client in [&clients[0], &clients[2], &clients[2]] {
            let leaders = &leaders;
            scope.spawn(move || {
                let barrier = client.barrier("phase", 3);
                for phase in &leaders[3..] {
                    phase.fetch_add(usize::from(barrier.wait().unwrap().is_leader()), SeqCst);
                }
            });
        }
    });
    assert!(leaders.iter().all(|leaders| leaders.load(SeqCst) == 1), "{leaders:?}");
}

/// Another thread closes the client while a thread is in a pause before a retry.
#[test]
fn a_closed_client_ends_calls_that_pause() {
    let wire = Lossy::new(memory());
    let client = client(wire.clone());
    client.ready().unwrap();
    wire.always(Fate::Refused);
    let start = Instant::now();
    let barrier = client.barrier("phase", 2);
    let waits = thread::spawn(move || barrier.wait());
    let mut observer = client.election("billing").observe();
    let observes = thread::spawn(move || observer.changed());
    thread::sleep(ms(300)); // Both threads have failed and wait before a retry. Nothing depends on it.
    client.close().unwrap();
    assert_eq!(kind(waits.join().unwrap()), Some(ErrorKind::Closed));
    assert_eq!(kind(observes.join().unwrap()), Some(ErrorKind::Closed));
    assert!(start.elapsed() < LONG);
}

#[test]
fn blocking_calls_in_async_code_are_refused() {
    let client = client(memory());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert_eq!(kind(all([client.mutex("a")]).lock()), Some(ErrorKind::Misused));
        assert_eq!(kind(client.election("e").campaign()), Some(ErrorKind::Misused));
        assert_eq!(kind(client.election("e").campaign_for(ms(1))), Some(ErrorKind::Misused));
        assert_eq!(kind(client.election("e").leader()), Some(ErrorKind::Misused));
        assert_eq!(kind(client.election("e").observe().changed()), Some(ErrorKind::Misused));
        assert_eq!(kind(client.barrier("b", 1).wait()), Some(ErrorKind::Misused));
        assert_eq!(kind(client.records().names(&Pattern::all())), Some(ErrorKind::Misused));
    });
    // Async calls outside a runtime have no timer.
    let client = client.to_async();
    let no_runtime = futures_util::FutureExt::now_or_never(client.barrier("b", 1).wait()).unwrap();
    assert_eq!(kind(no_runtime), Some(ErrorKind::Misused));
    let no_runtime = futures_util::FutureExt::now_or_never(client.election("e").campaign()).unwrap();
    assert_eq!(kind(no_runtime), Some(ErrorKind::Misused));
}
