//! A machine that was suspended. Its clock has advanced during that time, but its timers have not.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Wake, Waker},
    time::{Duration, Instant},
};

use bandog_core::{Clock, ErrorKind, Memory};
use bandog_sync::Client;

use crate::kit::{kind, soon};

/// After the suspension, a guard reports its loss at the first check. A future that waits for the loss resolves within
/// about a second, because the engine reads the clock each second. The store's clock has advanced, too, so it has
/// already granted the lock to another client.
// Promise: L20
#[tokio::test]
async fn a_suspended_holder_sees_its_loss_at_once() {
    static SLEPT: AtomicU64 = AtomicU64::new(0);
    let clock = Clock::system_and(&SLEPT);
    let store = Memory::new(clock);
    let ours = Client::options().clock(clock).over(store.clone()).unwrap();
    let guard = ours.mutex("orders").lock().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    // When the client is registered, the engine has nothing to do for ten seconds.
    while ours.members().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    // The test cannot see whether the engine sleeps. If it does not sleep yet, the test proves less, but it does not
    // fail.
    tokio::time::sleep(Duration::from_millis(50)).await;
    SLEPT.fetch_add(60_000_000_000, Relaxed);
    let woke = Instant::now();
    assert!(guard.is_lost() && guard.remaining().is_zero());
    let theirs = Client::options().clock(clock).over(store).unwrap();
    let next = theirs.mutex("orders").try_lock().await.unwrap().expect("the lease has expired");
    assert!(next.fence() > guard.fence());
    soon(lost).await.unwrap();
    assert!(woke.elapsed() < Duration::from_secs(2), "lost after {:?}", woke.elapsed());
    assert_eq!(kind(guard.release().await), Some(ErrorKind::Lost));
    assert!(!next.is_lost());
}

/// A call whose first poll happens when this waker is woken: inside the engine, which is then in the middle of its work.
struct CallsInside {
    slept: &'static AtomicU64,
    call: Mutex<Pin<Box<dyn Future<Output = bool> + Send>>>,
}

impl Wake for CallsInside {
    fn wake(self: Arc<Self>) {
        self.slept.fetch_add(1_000_000_000, Relaxed);
        let is_ready = self.call.lock().unwrap().as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_ready);
    }
}

/// The engine is stopped for a second in the middle of its work, and a call arrives after that. Its limit counts from its
/// arrival.
#[tokio::test]
async fn a_call_that_arrives_while_the_engine_works_waits_until_its_limit() {
    static SLEPT: AtomicU64 = AtomicU64::new(0);
    const LIMIT: Duration = Duration::from_millis(100);
    let clock = Clock::system_and(&SLEPT);
    let client = Client::options().clock(clock).on_current_runtime().over(Memory::new(clock)).unwrap();
    let busy = client.mutex("busy").lock().await.unwrap();
    client.idle().await;
    let mutex = client.mutex("busy");
    let call = Box::pin(async move { mutex.try_lock_for(LIMIT).await.unwrap().is_some() });
    let inside = Arc::new(CallsInside { slept: &SLEPT, call: Mutex::new(call) });
    let free = client.mutex("free");
    let mut first = Box::pin(free.lock());
    assert!(first.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&inside)))).is_pending());
    while SLEPT.load(Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    let arrived = clock.now();
    drop(first.await.unwrap());
    let is_granted = std::future::poll_fn(|cx| inside.call.lock().unwrap().as_mut().poll(cx)).await;
    let waited = clock.now().since(arrived);
    // The call has arrived a little earlier than the clock was read.
    assert!(!is_granted && waited >= LIMIT / 2, "the call waited {waited:?}");
    busy.release().await.unwrap();
}
