//! Deadlocks between locks: owners in a circle, each of which waits for a lock that the next one holds.

mod programs;
mod without;

use std::{thread, time::Duration};

use bandog_core::{Error, ErrorKind, Memory};
use bandog_sync::{Client, Guard, Owner};
use bandog_testkit::LogCapture;
use tokio::{
    task::JoinHandle,
    time::{self, Instant},
};

use crate::kit::{client, kind, memory, ms, paused, soon};

/// Maximum time between the begin of a deadlock and its report.
const LIMIT: Duration = Duration::from_secs(2);

/// Takes a lock for an owner.
async fn hold(client: &Client, owner: &Owner, name: &str) -> Guard {
    client.mutex(name).by(owner).lock().await.unwrap()
}

/// Starts a task that waits for a lock for an owner.
fn wait_for(client: &Client, owner: &Owner, name: &str) -> JoinHandle<Result<Guard, Error>> {
    let mutex = client.mutex(name).by(owner);
    tokio::spawn(async move { mutex.lock().await })
}

/// The error of a call that is part of a deadlock. The texts must be in the error, in this order.
fn assert_deadlock(result: Result<Guard, Error>, texts: &[&str]) {
    let error = result.expect_err("the call got the lock");
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    assert!(!error.is_retryable() && !error.maybe_applied());
    let text = error.to_string();
    let mut rest = text.as_str();
    for part in texts {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} is not in {text:?}"));
        rest = &rest[at + part.len()..];
    }
}

/// Two owners of these clients lock two names in opposite orders. Both calls report the deadlock. After both have
/// released their locks, both can take both locks.
async fn two_owners_report(one: &Client, other: &Client, fair: bool) {
    let mutex = |client: &Client, name: &str| match fair {
        true => client.mutex(name).fair(),
        false => client.mutex(name),
    };
    let (first, second) = (one.owner(), other.owner());
    let a = mutex(one, "a").by(&first).lock().await.unwrap();
    let b = mutex(other, "b").by(&second).lock().await.unwrap();
    let (wants_b, wants_a) = (mutex(one, "b").by(&first), mutex(other, "a").by(&second));
    let waits = tokio::spawn(async move { wants_b.lock().await });
    time::sleep(ms(3000)).await;
    let began = Instant::now();
    let closes = tokio::spawn(async move { wants_a.lock().await });
    assert_deadlock(soon(waits).await.unwrap(), &["lock \"b\"", "deadlock", "\"b\"", "\"a\"", "(Deadlock)"]);
    assert_deadlock(soon(closes).await.unwrap(), &["lock \"a\"", "deadlock", "\"a\"", "\"b\"", "(Deadlock)"]);
    assert!((ms(800)..LIMIT).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert!(!a.is_lost() && !b.is_lost(), "both keep their locks");
    drop(b);
    let both = (a, soon(mutex(one, "b").by(&first).lock()).await.unwrap());
    drop(both);
    let _b = soon(mutex(other, "b").by(&second).lock()).await.unwrap();
    let _a = soon(mutex(other, "a").by(&second).lock()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_owners_of_one_client_report() {
    let client = client(memory());
    two_owners_report(&client, &client, false).await;
    two_owners_report(&client, &client, true).await;
}

// Promise: K18
#[tokio::test(start_paused = true)]
async fn two_clients_report() {
    let store = memory();
    for fair in [false, true] {
        two_owners_report(&client(store.clone()), &client(store.clone()), fair).await;
    }
}

/// The error names the programs of the circle, the log does not repeat it, and the rows of the registry name
/// no blocked calls afterwards.
// Promise: K18
#[tokio::test(start_paused = true)]
async fn three_clients_report_who_they_are() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let store = memory();
    let clients = ["ann", "ben", "cid"].map(|name| paused().program(name).over(store.clone()).unwrap());
    let owners = clients.each_ref().map(Client::owner);
    let mut guards = Vec::new();
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        guards.push(hold(&clients[at], &owners[at], name).await);
    }
    let mut calls = Vec::new();
    for (at, name) in ["b", "c", "a"].into_iter().enumerate() {
        calls.push(wait_for(&clients[at], &owners[at], name));
        time::sleep(ms(700)).await;
    }
    let began = Instant::now();
    let expected = [
        [
            "this owner waits for \"b\", held by ben",
            "waits for \"c\", held by cid",
            "waits for \"a\", held by this owner",
        ],
        [
            "this owner waits for \"c\", held by cid",
            "waits for \"a\", held by ann",
            "waits for \"b\", held by this owner",
        ],
        [
            "this owner waits for \"a\", held by ann",
            "waits for \"b\", held by ben",
            "waits for \"c\", held by this owner",
        ],
    ];
    for (call, texts) in calls.into_iter().zip(expected) {
        assert_deadlock(soon(call).await.unwrap(), &texts);
    }
    assert!(began.elapsed() + ms(700) < LIMIT, "{:?}", began.elapsed());
    let lines: Vec<_> = log.take("WARN").into_iter().filter(|line| line.contains("deadlock")).collect();
    assert_eq!(lines, [""; 0]);
    time::sleep(ms(15_000)).await;
    let members = bandog_core::Inspect::members(&store).await.unwrap();
    assert!(members.iter().all(|member| member.blocked.calls.is_empty()), "{members:?}");
    drop(guards);
}

/// A writer waits for all readers, so one reader of the circle is enough. Readers do not wait for readers.
// Promise: K18
#[tokio::test(start_paused = true)]
async fn readers_and_writers_report() {
    let store = memory();
    let (one, other) = (client(store.clone()), client(store.clone()));
    let (first, second) = (one.owner(), other.owner());
    let _reads = one.rwlock("a").by(&first).read().await.unwrap();
    let _bystander = client(store).rwlock("a").read().await.unwrap();
    let _holds = hold(&other, &second, "b").await;
    let waits = wait_for(&one, &first, "b");
    let writer = other.rwlock("a").by(&second);
    let writes = tokio::spawn(async move { writer.write().await.map(Guard::from) });
    assert_deadlock(soon(waits).await.unwrap(), &["\"b\"", "\"a\""]);
    assert_deadlock(soon(writes).await.unwrap(), &["\"a\"", "\"b\""]);
}

/// An owner that waits for a lock that it holds as another kind of mutex waits for itself.
#[tokio::test(start_paused = true)]
async fn an_owner_that_waits_for_itself_is_a_circle_of_one() {
    let client = client(memory());
    let owner = client.owner();
    let _held = hold(&client, &owner, "a").await;
    let _other = hold(&client, &owner, "b").await;
    let result = soon(client.mutex("a").fair().by(&owner).lock()).await;
    assert_deadlock(result, &["this owner waits for \"a\", held by this owner"]);
}

/// `all` with owners takes the names of a client in order, but a lock that the owner has taken before can be in a circle.
#[tokio::test(start_paused = true)]
async fn calls_for_several_locks_report() {
    let client = client(memory());
    let (first, second) = (client.owner(), client.owner());
    let _b = hold(&client, &first, "b").await;
    let _c = hold(&client, &second, "c").await;
    let waits = wait_for(&client, &first, "c");
    let both = bandog_sync::all(["a", "b"].map(|name| client.mutex(name).by(&second)));
    assert_eq!(kind(soon(both.lock()).await), Some(ErrorKind::Deadlock));
    assert_deadlock(soon(waits).await.unwrap(), &["\"c\"", "\"b\""]);
    assert!(client.mutex("a").try_lock().await.unwrap().is_some(), "`a` must be free again");
}

/// A call whose future is dropped leaves the circle, also after the deadlock was found.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_the_circle() {
    let store = memory();
    for dropped_after in (0..1500).step_by(50) {
        let (one, other) = (client(store.clone()), client(store.clone()));
        let (first, second) = (one.owner(), other.owner());
        let (a, b) = (hold(&one, &first, "a").await, hold(&other, &second, "b").await);
        let waits = wait_for(&one, &first, "b");
        let closes = wait_for(&other, &second, "a");
        time::sleep(ms(dropped_after)).await;
        waits.abort();
        let _ = waits.await;
        drop(a);
        let end = kind(soon(closes).await.unwrap());
        assert!(matches!(end, None | Some(ErrorKind::Deadlock)), "{end:?} after {dropped_after} ms");
        drop(b);
        for name in ["a", "b"] {
            assert!(soon(one.mutex(name).lock()).await.is_ok());
        }
        other.close().await.unwrap();
        one.close().await.unwrap();
    }
}

/// A client that closes answers also the calls of a deadlock that was just found.
#[tokio::test(start_paused = true)]
async fn a_client_can_close_at_any_time() {
    for closed_after in (450..1500).step_by(50) {
        let client = client(memory());
        let (first, second) = (client.owner(), client.owner());
        let _held = (hold(&client, &first, "a").await, hold(&client, &second, "b").await);
        let calls = [wait_for(&client, &first, "b"), wait_for(&client, &second, "a")];
        time::sleep(ms(closed_after)).await;
        soon(client.close()).await.unwrap();
        for call in calls {
            let kind = kind(soon(call).await.unwrap());
            assert!(matches!(kind, Some(ErrorKind::Closed | ErrorKind::Deadlock)), "{kind:?} after {closed_after} ms");
        }
    }
}

/// Threads of one client report each other by name.
#[test]
fn threads_of_one_client_are_named() {
    let client = Client::options().over(Memory::new(bandog_core::Clock::system())).unwrap().blocking().unwrap();
    let barrier = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        for [name, other, mine, theirs] in [["one", "two", "a", "b"], ["two", "one", "b", "a"]] {
            let (client, barrier) = (&client, &barrier);
            let report = move || {
                let _guard = client.mutex(mine).lock().unwrap();
                barrier.wait();
                let text = client.mutex(theirs).lock().unwrap_err().to_string();
                let circle = format!(
                    "this thread waits for {theirs:?}, held by thread {other:?} of this client, which waits for \
                     {mine:?}, held by this thread; release a lock of this thread"
                );
                assert!(text.contains(&circle), "{text}");
            };
            thread::Builder::new().name(name.into()).spawn_scoped(scope, report).unwrap();
        }
    });
}

/// A blocking call has its thread as its owner.
// Promise: K18
#[test]
fn threads_report() {
    let store = Memory::new(bandog_core::Clock::system());
    let clients = [(); 2].map(|()| Client::options().over(store.clone()).unwrap().blocking().unwrap());
    let barrier = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        for (client, [mine, theirs]) in clients.iter().zip([["a", "b"], ["b", "a"]]) {
            let barrier = &barrier;
            scope.spawn(move || {
                let guard = client.mutex(mine).lock().unwrap();
                barrier.wait();
                let result = client.mutex(theirs).lock();
                assert_eq!(kind(result), Some(ErrorKind::Deadlock));
                assert!(!guard.is_lost());
            });
        }
    });
}
