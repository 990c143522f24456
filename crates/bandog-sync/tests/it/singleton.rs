//! Singleton tasks: a task that runs in one process (a *replica*) at a time. The replica that runs it is the *leader*.

use std::{
    cell::{Cell, RefCell},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bandog_conformance::wrap::{Fate, Lossy, Stopped, Which};
use bandog_core::{Clock, Error, ErrorKind, Fence, Memory, Result};
use bandog_sync::{Client, Guard};
use tokio::{task::JoinHandle, time};

use crate::kit::{client, held, kind, memory, ms, paused, soon};

/// The events of all runs, in order.
type Log = Arc<Mutex<Vec<Event>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Began { replica: usize, fence: Fence },
    Ended { replica: usize },
}

/// Exists while the task runs. Its drop adds the end of the run to the log.
struct Running {
    replica: usize,
    log: Log,
}

impl Running {
    fn begin(replica: usize, guard: &Guard, log: &Log) -> Self {
        log.lock().unwrap().push(Event::Began { replica, fence: guard.fence() });
        Self { replica, log: Arc::clone(log) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.log.lock().unwrap().push(Event::Ended { replica: self.replica });
    }
}

/// Starts a replica whose task runs until it is cancelled. The future of `singleton` must be `Send`, or this would not
/// compile.
fn spawn_replica(replica: usize, client: &Client, log: &Log) -> JoinHandle<Result<()>> {
    let (client, log) = (client.clone(), Arc::clone(log));
    tokio::spawn(async move {
        client
            .singleton("relay", async |guard| {
                let _running = Running::begin(replica, guard, &log);
                std::future::pending::<()>().await;
            })
            .await
    })
}

fn events(log: &Log) -> Vec<Event> {
    log.lock().unwrap().clone()
}

/// The replica that runs the task now.
fn leader(log: &Log) -> Option<usize> {
    match events(log).last()? {
        Event::Began { replica, .. } => Some(*replica),
        Event::Ended { .. } => None,
    }
}

/// Waits, in virtual time, until this replica runs the task.
async fn until_led_by(log: &Log, replica: usize) {
    soon(async {
        while leader(log) != Some(replica) {
            time::sleep(ms(1)).await;
        }
    })
    .await;
}

/// Checks that there was at most one run at a time, and that the fences rose.
#[track_caller]
fn assert_one_at_a_time(log: &Log) {
    let events = events(log);
    let mut fences = Vec::new();
    for pair in events.windows(2) {
        match (pair[0], pair[1]) {
            (Event::Began { replica: one, .. }, Event::Ended { replica: other }) => {
                assert_eq!(one, other, "{events:?}")
            }
            (Event::Ended { .. }, Event::Began { .. }) => {}
            _ => panic!("two at a time: {events:?}"),
        }
    }
    for event in &events {
        if let Event::Began { fence, .. } = event {
            fences.push(*fence);
        }
    }
    assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn one_replica_runs_the_task_and_another_takes_over_when_the_run_ends() {
    let (store, log) = (memory(), Log::default());
    let clients: Vec<_> = (0..3).map(|_| client(store.clone())).collect();
    let mut replicas: Vec<_> =
        clients.iter().enumerate().map(|(replica, client)| spawn_replica(replica, client, &log)).collect();
    time::sleep(Duration::from_secs(600)).await;
    assert_eq!(events(&log).len(), 1, "there must be only one run: {:?}", events(&log));
    for _ in 0..3 {
        let replica = leader(&log).unwrap();
        replicas[replica].abort();
        let before = events(&log).len();
        soon(async {
            while events(&log).len() < before + 1 {
                time::sleep(ms(1)).await;
            }
        })
        .await;
        replicas[replica] = spawn_replica(replica, &clients[replica], &log);
        time::sleep(ms(5_000)).await;
        assert_ne!(leader(&log), Some(replica), "a waiting replica must take over");
    }
    assert_one_at_a_time(&log);
}

/// If the leader loses the connection to the store, its task is cancelled before another replica begins. When the
/// connection is back, the old leader competes for the lock again.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_is_cancelled_before_the_next_begins() {
    let (store, log) = (memory(), Log::default());
    let wire = Stopped::new(store.clone());
    let (ours, theirs) = (client(wire.clone()), client(store));
    for round in 0..5 {
        let first = spawn_replica(0, &ours, &log);
        until_led_by(&log, 0).await;
        let second = spawn_replica(1, &theirs, &log);
        time::sleep(ms(2_000)).await;
        wire.stop(if round % 2 == 0 { Which::Requests } else { Which::Answers });
        until_led_by(&log, 1).await;
        wire.go_on();
        second.abort();
        until_led_by(&log, 0).await;
        first.abort();
        assert!(first.await.is_err() && second.await.is_err());
        ours.idle().await;
    }
    assert_one_at_a_time(&log);
}

/// An operator takes the lock from the leader. The leader's task is cancelled, and the leader waits for the lock again.
#[tokio::test(start_paused = true)]
async fn an_evicted_leader_is_cancelled_and_waits_again() {
    let (store, log) = (memory(), Log::default());
    let client = client(store);
    let running = spawn_replica(0, &client, &log);
    until_led_by(&log, 0).await;
    assert!(client.evict("relay").await.unwrap().is_some());
    soon(async {
        while events(&log).len() < 3 {
            time::sleep(ms(1)).await;
        }
    })
    .await;
    assert_one_at_a_time(&log);
    assert_eq!(leader(&log), Some(0), "there was no other replica");
    running.abort();
}

/// After an error, the lock is released immediately, so that another replica can run the task. The failed replica
/// retries after delays that grow up to 30 s.
#[tokio::test(start_paused = true)]
async fn an_error_gives_leadership_away_and_is_retried_after_a_delay() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    let begun = Arc::new(Mutex::new(Vec::new()));
    let failing = {
        let (ours, begun) = (ours.clone(), Arc::clone(&begun));
        tokio::spawn(async move {
            ours.singleton("relay", async |_: &Guard| -> Result<(), std::num::ParseIntError> {
                begun.lock().unwrap().push(time::Instant::now());
                "no number".parse::<u32>()?;
                Ok(())
            })
            .await
        })
    };
    time::sleep(Duration::from_secs(300)).await;
    assert_eq!(held(&store).await, [""; 0], "the lock must be free between two attempts");
    let times = begun.lock().unwrap().clone();
    let delays: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    let mut longest = 100;
    for delay in &delays {
        // Here a call of `lock()` takes no time, but timers are rounded up to milliseconds.
        assert!((longest / 2..=longest + 3).contains(delay), "{delays:?}");
        longest = (longest * 2).min(30_000);
    }
    assert_eq!(longest, 30_000, "{delays:?}");
    assert!(delays.windows(2).any(|pair| pair[0] * 2 != pair[1]), "the delays must be random: {delays:?}");

    let log = Log::default();
    let other = spawn_replica(1, &theirs, &log);
    until_led_by(&log, 1).await;
    let tries = begun.lock().unwrap().len();
    time::sleep(Duration::from_secs(300)).await;
    assert_eq!(begun.lock().unwrap().len(), tries, "the other replica runs the task now");
    failing.abort();
    other.abort();
}

/// After a run of 30 s or more, the next failure counts as the first one, so its delay is short.
#[tokio::test(start_paused = true)]
async fn after_a_long_run_earlier_failures_do_not_count() {
    let client = client(memory());
    let (ended, delays) = (Cell::new(time::Instant::now()), RefCell::new(Vec::new()));
    let task = client.singleton("relay", async |_| {
        delays.borrow_mut().push(ended.get().elapsed());
        let runs = delays.borrow().len();
        time::sleep(if runs == 8 { Duration::from_secs(31) } else { ms(1) }).await;
        ended.set(time::Instant::now());
        if runs == 10 { Ok(()) } else { Err("not yet") }
    });
    soon(task).await.unwrap();
    let delays = delays.into_inner();
    assert!(delays[7] > ms(3_000), "after seven failures: {delays:?}");
    assert!(delays[8] < ms(105) && delays[9] > ms(90), "after a long run: {delays:?}");
}

/// A panic of the task is handled like an error: the replica competes for the lock again.
#[tokio::test(start_paused = true)]
async fn a_panic_counts_as_a_failure() {
    let (store, runs) = (memory(), Cell::new(0));
    let client = client(store.clone());
    let task = client.singleton("relay", async |_| {
        runs.set(runs.get() + 1);
        match runs.get() {
            1 => panic!("at once"),
            2 => {
                time::sleep(ms(10)).await;
                panic!("after {} ms", 10)
            }
            _ => {}
        }
    });
    soon(task).await.unwrap();
    assert_eq!(runs.get(), 3);
    assert_eq!(held(&store).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_done_releases_the_lock_and_ends_the_call() {
    let (store, log) = (memory(), Log::default());
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    let done = ours.singleton("relay", async |guard| {
        drop(Running::begin(0, guard, &log));
    });
    done.await.unwrap();
    assert_eq!(held(&store).await, [""; 0]);
    let other = spawn_replica(1, &theirs, &log);
    until_led_by(&log, 1).await;
    other.abort();
}

/// If the client closes, `singleton` returns `Closed`, and the task is dropped. This test closes clients in three
/// states: the task runs, the call waits for the lock, and the call waits before a retry.
#[tokio::test(start_paused = true)]
async fn a_closed_client_ends_its_singletons() {
    let (store, log) = (memory(), Log::default());
    let (leads, waits, rests) = (client(store.clone()), client(store.clone()), client(store.clone()));
    let leading = spawn_replica(0, &leads, &log);
    until_led_by(&log, 0).await;
    let waiting = spawn_replica(1, &waits, &log);
    let resting = {
        let rests = rests.clone();
        tokio::spawn(async move { rests.singleton("fails", async |_| Err("always")).await })
    };
    time::sleep(Duration::from_secs(600)).await;
    for (client, call) in [(waits, waiting), (leads, leading), (rests, resting)] {
        let start = time::Instant::now();
        client.close().await.unwrap();
        assert_eq!(kind(soon(call).await.unwrap()), Some(ErrorKind::Closed));
        assert!(start.elapsed() < ms(10), "the call ended only after {:?}", start.elapsed());
    }
    assert_eq!(leader(&log), None);
    assert_eq!(events(&log).len(), 2);
    assert_eq!(held(&store).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_drops_its_task_and_releases_the_lock() {
    let (store, log) = (memory(), Log::default());
    let client = client(store.clone());
    let leading = spawn_replica(0, &client, &log);
    let waiting = spawn_replica(1, &client, &log);
    until_led_by(&log, 0).await;
    waiting.abort();
    assert!(waiting.await.is_err());
    leading.abort();
    assert!(leading.await.is_err());
    assert_eq!(leader(&log), None);
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

/// While the store has not answered yet, the call waits. An error that no retry can correct is returned immediately.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_waited_for_and_a_refusal_is_an_error() {
    let (wire, log) = (Lossy::new(memory()), Log::default());
    wire.always(Fate::Refused);
    let ours = client(wire.clone());
    let call = spawn_replica(0, &ours, &log);
    time::sleep(Duration::from_secs(60)).await;
    assert!(!call.is_finished());
    wire.heal();
    until_led_by(&log, 0).await;
    call.abort();

    let bad_name = ours.singleton("", async |_| ()).await;
    assert_eq!(kind(bad_name), Some(ErrorKind::Misused));
    let bad_ttl = ours.mutex("relay").watchdog(ms(1)).singleton(async |_| ()).await;
    assert_eq!(kind(bad_ttl), Some(ErrorKind::Misused));
}

/// `Mutex::singleton` uses the ttl of the mutex. After this time, a dead leader is replaced.
#[tokio::test(start_paused = true)]
async fn a_singleton_uses_the_ttl_of_its_mutex() {
    let client = client(memory());
    let left = Cell::new(Duration::ZERO);
    let relay = client.mutex("relay").watchdog(ms(5_000));
    let call = relay.singleton(async |guard| {
        left.set(guard.remaining());
    });
    call.await.unwrap();
    assert!(left.get() > ms(4_000) && left.get() < ms(5_000), "{left:?}");
}

/// The retries need the timers of a Tokio runtime.
#[test]
fn a_singleton_outside_a_runtime_is_misused() {
    let client = Client::over(Memory::new(Clock::system())).unwrap();
    let call = pin!(client.singleton("relay", async |_| ()));
    let Poll::Ready(Err(error)) = call.poll(&mut Context::from_waker(Waker::noop())) else { panic!("the call waits") };
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("Tokio runtime"), "{error}");
}

/// A task can return any type of error, can borrow local values, and can be a function.
#[tokio::test(start_paused = true)]
async fn tasks_of_every_kind_are_accepted() {
    async fn function(_: &Guard) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
    let client = paused().over(memory()).unwrap();
    client.singleton("function", function).await.unwrap();
    let counter = Cell::new(0);
    client
        .singleton("counts", async |guard: &Guard| -> Result<(), Error> {
            counter.set(counter.get() + 1);
            if counter.get() < 3 {
                Err(Error::lost(&guard.holding().key))?;
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(counter.get(), 3);
    let endless = client.singleton("endless", async |_| {
        loop {
            time::sleep(ms(100)).await;
        }
    });
    assert!(time::timeout(ms(60_000), endless).await.is_err());
}

/// An error that can never succeed ends the call at once, also if it is the source of another error. Other replicas run into it
/// too, and the lock is free. It is logged once, as an error.
// Promise: J22
#[tokio::test(start_paused = true)]
async fn an_error_that_can_never_succeed_ends_the_call() {
    #[derive(Debug)]
    struct Wrapped(Error);
    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the order was not paid")
        }
    }
    impl std::error::Error for Wrapped {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let (log, _guard) = bandog_testkit::LogCapture::of_thread("bandog");
    let store = memory();
    let client = client(store.clone());
    for (wanted, error) in [
        (ErrorKind::Unsupported, Error::new(ErrorKind::Unsupported, "no transactions here")),
        (ErrorKind::Misused, Error::misused("the name is empty")),
        (ErrorKind::Denied, Error::new(ErrorKind::Denied, "a right is missing")),
    ] {
        let runs = Cell::new(0);
        let task = async |_: &Guard| -> Result<(), Wrapped> {
            runs.set(runs.get() + 1);
            Err(Wrapped(error.clone()))
        };
        let ended =
            time::timeout(ms(60_000), client.singleton("relay", task)).await.expect("the call repeats the task");
        assert_eq!((kind(ended), runs.get()), (Some(wanted), 1));
        assert_eq!(held(&store).await, [""; 0]);
    }
    let lines = log.lines_with("it can never succeed");
    assert!(lines.len() == 3 && lines.iter().all(|line| line.starts_with("ERROR")), "{lines:?}");
    assert!(lines[0].contains("the order was not paid: no transactions here (Unsupported)"), "{lines:?}");

    let runs = Cell::new(0);
    let task = async |_: &Guard| {
        runs.set(runs.get() + 1);
        let refused = Error::new(ErrorKind::Denied, "a constraint refuses the commit").about_data();
        if runs.get() < 3 { Err(refused) } else { Ok(()) }
    };
    soon(client.singleton("relay", task)).await.unwrap();
    assert_eq!(runs.get(), 3, "other data can succeed");
}
