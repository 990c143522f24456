//! The polls that replace notifications.

use std::time::{Duration, Instant};

use bandog_core::{Key, Notifier, Records, Swap};
use bandog_sync::Client;
use bandog_testkit::{MariaDb, MariaDbServer, eventually_async};
use mysql_async::prelude::Queryable;

use super::SERVER;
use crate::suite::{Database, SOON, open, open_with, polls::claims_are_answered_by_polls};

/// Hand-offs in a row, of which the median counts.
const HANDOFFS: usize = 9;

fn over(database: &str) -> Client {
    Client::options().over(open(&SERVER.url(database))).unwrap()
}

/// A hand-off that is due to a poll is quicker than the interval of one second in which the engine claims again.
// Promise: MY7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_held_briefly_is_handed_over_soon() {
    let database = SERVER.new_database();
    let (holder, waiter) = (over(&database), over(&database));
    let mut took = Vec::new();
    for round in 0..HANDOFFS {
        let name = format!("lock {round}");
        let guard = holder.mutex(&name).lock().await.unwrap();
        let waiting = tokio::spawn({
            let mutex = waiter.mutex(&name);
            async move {
                let guard = mutex.lock().await.unwrap();
                (Instant::now(), guard)
            }
        });
        let wanted = format!("select wanted from bandog_lease where name = '{name}'");
        eventually_async(SOON, async || SERVER.sql(&database, &wanted) == "1").await;
        let released = Instant::now();
        guard.release().await.unwrap();
        let (granted, guard) = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
        took.push(granted.saturating_duration_since(released));
        guard.release().await.unwrap();
    }
    took.sort();
    assert!(took[HANDOFFS / 2] < Duration::from_millis(500), "{took:?}");
    println!("hand-offs: {took:?}");
}

/// The server does not answer a poll, and the connection does not end. Then another connection is opened.
// Promise: MY7
#[tokio::test]
async fn a_poll_that_is_not_answered_is_given_up() {
    let (database, wire) = (SERVER.new_database(), SERVER.wire());
    let url = MariaDbServer::url_at(wire.port(), &database);
    let store = open_with(&url, Duration::from_secs(5));
    let subscription = store.subscribe_record(&Key::new("k").unwrap(), Notifier::new(|| {})).await.unwrap();
    let before = wire.accepted();
    wire.drop_replies(true);
    eventually_async(SOON, async || wire.accepted() > before).await;
    drop(subscription);
}

/// The claims of a waiter, which the engine repeats each second, are answered with what the polls have seen.
#[tokio::test]
async fn a_claim_is_not_sent_again_while_a_poll_sees_the_lease() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    let transactions = || server.status(&["Com_begin"]).to_string();
    let [holder, waiter] = [(); 2].map(|()| open(&server.url(&database)));
    claims_are_answered_by_polls(&holder, &waiter, transactions).await;
}

/// Rows that were changed by hand are not notified.
#[tokio::test]
async fn a_lease_that_an_operator_deletes_is_found_by_the_next_claims() {
    let database = SERVER.new_database();
    let (holder, waiter) = (over(&database), over(&database));
    let guard = holder.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = waiter.mutex("k");
        async move { mutex.lock().await.unwrap() }
    });
    eventually_async(SOON, async || SERVER.sql(&database, "select wanted from bandog_lease") == "1").await;
    SERVER.sql(&database, "update bandog_lease set owner = null, expires = null");
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().release().await.unwrap();
    drop(guard);
}

/// One record is notified all the time, and a hundred others are quiet: all of them are read together.
// Promise: MY7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_beside_a_busy_name_keep_their_interval() {
    const QUIET: usize = 100;
    const ROUNDS: u32 = 100;
    const INTERVAL: Duration = Duration::from_millis(10);
    let server = MariaDbServer::start();
    let database = server.new_database();
    let (store, mut hand) = (open(&server.url(&database)), MariaDb::connect(&server, &database).await);
    let busy = Key::new("busy").unwrap();
    let swap = Swap { notifies: true, ..Swap::new(busy.clone(), None, "text") };
    store.swap(&[swap]).await.unwrap();
    let (woken, mut notified) = tokio::sync::watch::channel(());
    let mut subscriptions = Vec::new();
    for number in 0..QUIET {
        let key = Key::new(format!("quiet {number}")).unwrap();
        subscriptions.push(store.subscribe_record(&key, Notifier::new(|| {})).await.unwrap());
    }
    let notifier = Notifier::new(move || woken.send_replace(()));
    subscriptions.push(store.subscribe_record(&busy, notifier).await.unwrap());
    // The first reading wakes no one up.
    let (polls, start) = (|| server.status(&["Com_select"]), Instant::now());
    let before = polls();
    for _ in 0..ROUNDS {
        notified.mark_unchanged();
        // As a swap by another client, but without queries.
        hand.query_drop("update bandog_channel set number = number + 1").await.unwrap();
        tokio::time::timeout(SOON, notified.changed()).await.unwrap().unwrap();
    }
    let (polls, took) = (polls() - before, start.elapsed());
    assert!(polls >= u64::from(ROUNDS) / 2, "{polls} polls have seen {ROUNDS} notifications");
    assert!(u128::from(polls) <= took.as_millis() / INTERVAL.as_millis() + 2, "{polls} polls in {took:?}");
}
