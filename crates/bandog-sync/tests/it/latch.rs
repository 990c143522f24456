//! Latches in paused time: polls, outages, reconnections, and what stays in the store.

use std::time::Duration;

use bandog_conformance::wrap::{Counting, Delayed, Fate, Forgetful, Lossy, Stopped, Which, WithoutSubscriptions};
use bandog_core::{ErrorKind, Memory, Pattern, Records};
use bandog_sync::{Client, Latch};
use tokio::{
    task::JoinHandle,
    time::{self, Instant},
};

use crate::kit::{client, kind, memory, ms, soon};

fn waiting(latch: Latch) -> JoinHandle<bandog_core::Result<()>> {
    tokio::spawn(async move { latch.wait().await })
}

/// A client whose latch `start` is set, and a call that waits for it.
async fn set_and_wait(client: &Client) -> JoinHandle<bandog_core::Result<()>> {
    client.latch("start").set(1).await.unwrap();
    let waiter = waiting(client.latch("start"));
    client.idle().await;
    waiter
}

// Promise: CL2
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_polls_once_a_second() {
    let store = memory();
    let counts = Counting::new(WithoutSubscriptions::new(store.clone()));
    let (ours, theirs) = (client(counts.clone()), client(store));
    let waiter = set_and_wait(&ours).await;
    let before = counts.reads();
    time::sleep(ms(60_000)).await;
    let polls = counts.reads() - before;
    assert!((58..=122).contains(&polls), "{polls} polls in a minute");
    theirs.latch("start").count_down().await.unwrap();
    let opened = Instant::now();
    soon(waiter).await.unwrap().unwrap();
    assert!(opened.elapsed() <= ms(1_001), "{:?}", opened.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_notification_ends_the_wait_without_a_poll() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store));
    let waiter = set_and_wait(&ours).await;
    time::sleep(ms(60_000)).await;
    theirs.latch("start").count_down().await.unwrap();
    let opened = Instant::now();
    soon(waiter).await.unwrap().unwrap();
    assert_eq!(opened.elapsed(), ms(0));
}

// Promise: CL2
#[tokio::test(start_paused = true)]
async fn a_reconnection_makes_a_waiting_call_poll() {
    let store = memory();
    let ours = Forgetful::new(WithoutSubscriptions::new(store.clone()));
    let client = client(ours.clone());
    let waiter = set_and_wait(&client).await;
    for key in store.names(&Pattern::all()).await.unwrap() {
        let record = store.read(std::slice::from_ref(&key), &[]).await.unwrap().records.remove(0).unwrap().unwrap();
        let swap = bandog_core::Swap { to: None, ..bandog_core::Swap::new(key, Some(record.version), "") };
        store.swap(&[swap]).await.unwrap(); // The store has lost its data.
    }
    let lost = Instant::now();
    ours.reconnected();
    soon(waiter).await.unwrap().unwrap();
    assert_eq!(lost.elapsed(), ms(0));
}

// Promise: CL2
#[tokio::test(start_paused = true)]
async fn a_call_that_has_got_an_answer_waits_through_outages() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let (ours, theirs) = (client(wire.clone()), client(store));
    let waiter = set_and_wait(&ours).await;
    wire.always(Fate::RequestLost);
    time::sleep(Duration::from_secs(600)).await;
    theirs.latch("start").count_down().await.unwrap();
    time::sleep(Duration::from_secs(60)).await;
    assert!(!waiter.is_finished());
    wire.heal();
    soon(waiter).await.unwrap().unwrap();
}

// Promise: CL6
#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time_if_the_store_does_not_answer() {
    let (stopped, lossy) = (Stopped::new(memory()), Lossy::new(memory()));
    stopped.stop(Which::Requests);
    lossy.always(Fate::Refused);
    for client in [client(stopped), client(lossy.clone())] {
        let (latch, began) = (client.latch("start"), Instant::now());
        assert_eq!(kind(soon(latch.wait_for(ms(700))).await), Some(ErrorKind::Unavailable));
        assert!((700..=702).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        let began = Instant::now();
        assert_eq!(kind(soon(latch.wait()).await), Some(ErrorKind::Unavailable));
        assert!((5_000..=6_000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    }
    lossy.heal();
    let (latch, began) = (client(lossy).latch("start"), Instant::now());
    latch.set(1).await.unwrap();
    assert!(!soon(latch.wait_for(ms(12_345))).await.unwrap());
    assert!((12_345..=12_347).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert_eq!(kind(latch.wait_for(Duration::MAX).await), Some(ErrorKind::Misused));
}

// Promise: CL3
#[tokio::test(start_paused = true)]
async fn an_operation_without_an_answer_is_repeated_for_two_timeouts() {
    let wire = Lossy::new(memory());
    let client = client(wire.clone());
    let latch = client.latch("start");
    latch.set(9).await.unwrap();
    for (fate, maybe_applied) in [(Fate::Refused, false), (Fate::RequestLost, true), (Fate::ReplyLost, true)] {
        wire.always(fate);
        let began = Instant::now();
        let error = soon(latch.count_down()).await.unwrap_err();
        assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, maybe_applied), "{fate:?}");
        assert!((6_000..=6_100).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    }
    wire.heal();
    assert_eq!(latch.count().await.unwrap(), 8, "only the operations of the last round have reached the store");
    // An error that a later attempt does not know to be ambiguous is still ambiguous.
    wire.next([Fate::ReplyLost]);
    wire.always(Fate::Refused);
    assert!(soon(latch.count_down()).await.unwrap_err().maybe_applied());
    wire.heal();
    assert_eq!(latch.count().await.unwrap(), 7);
}

// Promise: CL3
#[tokio::test(start_paused = true)]
async fn an_operation_continues_while_others_change_the_latch() {
    let wire = Lossy::new(memory());
    let client = client(wire.clone());
    let latch = client.latch("start");
    latch.set(9).await.unwrap();
    wire.overtake(4_000);
    let began = Instant::now();
    assert_eq!(soon(latch.count_down()).await.unwrap(), 8);
    assert!(began.elapsed() > ms(9_000), "{:?}", began.elapsed());
    // The time without an answer begins with the last answer.
    wire.overtake(4_000);
    wire.always(Fate::RequestLost);
    let began = Instant::now();
    let changing = tokio::spawn({
        let latch = latch.clone();
        async move { latch.count_down().await }
    });
    while wire.lost() == 0 {
        time::sleep(ms(10)).await;
    }
    let answered = Instant::now();
    assert!(answered - began > ms(9_000), "{:?}", answered - began);
    let error = soon(changing).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true), "{error}");
    let without_answer = answered.elapsed().as_millis();
    assert!((6_000 - 10..=9_000).contains(&without_answer), "{without_answer} ms");
    assert_eq!(kind(soon(latch.count()).await), Some(ErrorKind::Unavailable));
    wire.heal();
    assert_eq!(latch.count().await.unwrap(), 8);
}

/// A latch with the count 100, whose client loses calls as the test says.
async fn lossy_latch(store: Memory) -> (Lossy<Memory>, Latch) {
    let wire = Lossy::new(store);
    let latch = client(wire.clone()).latch("start");
    latch.set(100).await.unwrap();
    (wire, latch)
}

/// Starts this number of calls that count down.
fn counting_down(latch: &Latch, calls: usize) -> Vec<JoinHandle<bandog_core::Result<u64>>> {
    let call = |latch: Latch| tokio::spawn(async move { latch.count_down().await });
    (0..calls).map(|_| call(latch.clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn operations_of_one_client_take_turns_after_a_refusal() {
    let wire = Lossy::new(memory());
    // An answer takes 50 ms on average.
    let latch = client(Delayed::new(wire.clone(), 1, ms(0), ms(100))).latch("start");
    latch.set(100).await.unwrap();
    for (refusals, at_least, at_most) in [(0, 0, 100), (20, 500, 2_000), (0, 0, 100)] {
        wire.overtake(refusals);
        let began = Instant::now();
        for call in counting_down(&latch, 20) {
            call.await.unwrap().unwrap();
        }
        let elapsed = began.elapsed().as_millis();
        assert!((at_least..=at_most).contains(&elapsed), "{refusals} refusals: {elapsed} ms");
    }
    assert_eq!(latch.count().await.unwrap(), 40);
}

#[tokio::test(start_paused = true)]
async fn operations_that_wait_for_their_turn_end_in_time() {
    let (wire, latch) = lossy_latch(memory()).await;
    wire.overtake(3);
    wire.always(Fate::RequestLost);
    let (calls, began) = (counting_down(&latch, 3), Instant::now());
    time::sleep(ms(2_000)).await;
    let late = counting_down(&latch, 3);
    let mut ambiguous = 0;
    for call in calls {
        let error = soon(call).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        ambiguous += usize::from(error.maybe_applied());
        assert!((6_000..=9_100).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    }
    assert!(ambiguous > 0);
    for call in late {
        assert_eq!(kind(soon(call).await.unwrap()), Some(ErrorKind::Unavailable));
        assert!((8_000..=11_100).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    }
    wire.heal();
    assert_eq!(latch.count_down().await.unwrap(), 99);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_operation_leaves_its_turn_to_the_next_one() {
    let (wire, latch) = lossy_latch(memory()).await;
    // The first operation has the turn, and its requests are lost. The second one waits.
    wire.overtake(1);
    wire.always(Fate::RequestLost);
    let mut calls = counting_down(&latch, 1);
    while wire.lost() == 0 {
        time::sleep(ms(1)).await;
    }
    calls.extend(counting_down(&latch, 1));
    time::sleep(ms(1)).await;
    assert_eq!(wire.lost(), 1, "the second operation did not wait");
    let (first, began) = (calls.remove(0), Instant::now());
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    wire.heal();
    assert_eq!(soon(calls.remove(0)).await.unwrap().unwrap(), 99);
    assert!(began.elapsed() < ms(1_000), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_not_repeated_when_the_store_has_forgotten_it() {
    let store = memory();
    let (wire, latch) = lossy_latch(store.clone()).await;
    wire.next([Fate::ReplyLost]);
    let call = counting_down(&latch, 1).remove(0);
    let count = async || client(store.clone()).latch("start").count().await.unwrap();
    while count().await == 100 {
        time::sleep(ms(1)).await;
    }
    // The process is stopped for a minute.
    time::advance(Duration::from_secs(60)).await;
    let error = soon(call).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true), "{error}");
    assert_eq!(count().await, 99);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_not_continued_when_the_store_has_forgotten_the_operation() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let stopped = Stopped::new(wire.clone());
    let latch = client(stopped.clone()).latch("start");
    latch.set(100).await.unwrap();
    wire.next([Fate::ReplyLost]);
    let call = counting_down(&latch, 1).remove(0);
    while wire.lost() == 0 {
        time::sleep(ms(1)).await;
    }
    // The second attempt has not reached the store when the process is stopped for a minute.
    stopped.stop(Which::Requests);
    stopped.until_held(1).await;
    stopped.go_on();
    time::advance(Duration::from_secs(60)).await;
    let error = soon(call).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true), "{error}");
    assert_eq!(client(store.clone()).latch("start").count().await.unwrap(), 99);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_may_have_been_applied_does_not_wait_for_its_turn() {
    let (wire, latch) = lossy_latch(memory()).await;
    wire.next([Fate::ReplyLost]);
    let (first, began) = (counting_down(&latch, 1).remove(0), Instant::now());
    while latch.count().await.unwrap() == 100 {
        time::sleep(ms(1)).await;
    }
    // The second operation keeps the turn, because its requests are lost.
    wire.next([Fate::RequestLost, Fate::Well]);
    wire.next([Fate::RequestLost; 60]);
    wire.overtake(1);
    let second = counting_down(&latch, 1).remove(0);
    assert_eq!(soon(first).await.unwrap().unwrap(), 99);
    assert!(began.elapsed() < ms(100), "{:?}", began.elapsed());
    assert_eq!(soon(second).await.unwrap().unwrap(), 98);
}

#[tokio::test(start_paused = true)]
async fn the_record_of_a_latch_does_not_grow_with_the_operations_of_a_client() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let (one, other) = (client(wire.clone()).latch("start"), client(store.clone()).latch("start"));
    let operations = async || {
        let record = store.read(&[crate::kit::key("latch/start")], &[]).await.unwrap().records.remove(0).unwrap();
        record.unwrap().value.lines().count() - 1
    };
    one.set(10_000).await.unwrap();
    for _ in 0..100 {
        one.count_down().await.unwrap();
        other.count_down().await.unwrap();
    }
    assert_eq!(operations().await, 2, "the last operation of each client");
    for call in counting_down(&one, 100) {
        call.await.unwrap().unwrap();
    }
    one.count_down().await.unwrap();
    assert_eq!(operations().await, 2);
    // An attempt without an answer can reach the store late. Until it cannot do so any more, its operation is kept, and
    // so are the later ones.
    wire.next([Fate::Late(ms(20_000))]);
    for _ in 0..10 {
        one.count_down().await.unwrap();
    }
    assert_eq!(operations().await, 11);
    time::sleep(ms(29_000)).await;
    assert_eq!(one.count().await.unwrap(), 10_000 - 311, "the late attempt changes nothing");
    one.count_down().await.unwrap();
    assert_eq!(operations().await, 12);
    time::sleep(ms(2_000)).await;
    one.count_down().await.unwrap();
    assert_eq!(operations().await, 1);
}

// Promise: CL3
#[tokio::test(start_paused = true)]
async fn an_operation_ends_within_three_timeouts() {
    // A backend may need several requests for one attempt. Here no attempt ends.
    let store = memory();
    let stopped = Stopped::new(store.clone());
    stopped.stop(Which::Answers);
    let latch = client(stopped).latch("start");
    let began = Instant::now();
    let error = soon(latch.set(3)).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true), "{error}");
    assert!((9_000..=9_002).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert_eq!(client(store).latch("start").count().await.unwrap(), 3);
}

// Promise: CL3
#[tokio::test(start_paused = true)]
async fn a_deletion_that_hangs_does_not_hide_the_answer() {
    let stopped = Stopped::new(memory());
    stopped.stop(Which::Deletions);
    let (latch, began) = (client(stopped.clone()).latch("start"), Instant::now());
    assert!(soon(latch.set(3)).await.unwrap());
    // The call waits for the deletion for one timeout.
    assert!((3_000..=3_002).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert_eq!(stopped.held(), 1);
    assert_eq!(latch.count().await.unwrap(), 3);
}

// Promise: CL6
#[tokio::test(start_paused = true)]
async fn waits_leave_no_subscription_and_do_not_delay_a_close() {
    let counts = Counting::new(memory());
    let client = client(counts.clone());
    let dropped = set_and_wait(&client).await;
    assert_eq!(counts.subscriptions(), 1);
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    client.idle().await;
    assert_eq!(counts.subscriptions(), 0);
    let (waiter, began) = (waiting(client.latch("start")), Instant::now());
    client.idle().await;
    client.close().await.unwrap();
    assert_eq!(began.elapsed(), ms(0));
    assert_eq!(kind(waiter.await.unwrap()), Some(ErrorKind::Closed));
}

#[tokio::test(start_paused = true)]
async fn the_records_of_open_latches_are_deleted_when_their_operations_are_forgotten() {
    let store: Memory = memory();
    let client = client(store.clone());
    for number in 0..10 {
        let latch = client.latch(format!("batch-{number}"));
        latch.set(1).await.unwrap();
        latch.count_down().await.unwrap();
    }
    client.latch("closed").set(1).await.unwrap();
    let names = async || store.names(&Pattern::all()).await.unwrap().len();
    assert_eq!(names().await, 11);
    time::sleep(Duration::from_secs(31)).await;
    client.latch("next").set(1).await.unwrap();
    let left: Vec<String> =
        store.names(&Pattern::all()).await.unwrap().into_iter().map(|key| key.to_string()).collect();
    assert_eq!(left, ["latch/closed", "latch/next"]);
    assert_eq!(client.latch("closed").count().await.unwrap(), 1);
}

// Promise: CL7
#[tokio::test(start_paused = true)]
async fn a_record_that_is_not_a_latch_is_corrupt_and_never_changed() {
    let store = memory();
    let client = client(store.clone());
    let key = crate::kit::key("latch/start");
    store.swap(&[bandog_core::Swap::new(key.clone(), None, "text")]).await.unwrap();
    let latch = client.latch("start");
    assert_eq!(kind(latch.set(1).await), Some(ErrorKind::Corrupt));
    assert_eq!(kind(latch.count_down().await), Some(ErrorKind::Corrupt));
    assert_eq!(kind(latch.wait().await), Some(ErrorKind::Corrupt));
    assert_eq!(kind(latch.delete().await), Some(ErrorKind::Corrupt));
    let record = store.read(&[key], &[]).await.unwrap().records.remove(0).unwrap();
    assert_eq!(record.unwrap().value, "text");
}
