//! Semaphores: the limit, the order of the calls inside a client, and what remains after a dropped call.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
};

use bandog_conformance::wrap::{Counting, Delayed, Fate, Lossy};
use bandog_core::{Answer, Claim, ClaimId, ClientId, ErrorKind, Kind, Leases, Notifier, Step, Verdict};
use tokio::{task::yield_now, time};

use crate::kit::{client, held, key, kind, memory, ms, soon};

#[tokio::test(start_paused = true)]
async fn the_permits_in_use_never_exceed_the_limit() {
    let store = memory();
    let (used, clients) = (Arc::new(AtomicU32::new(0)), [client(store.clone()), client(store.clone())]);
    let mut tasks = Vec::new();
    for number in 0..32_u32 {
        let take = number % 3 + 1;
        let semaphore = clients[number as usize % 2].semaphore("gpu", 5).permits(take);
        let used = Arc::clone(&used);
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let guard = semaphore.acquire().await.unwrap();
                assert!(used.fetch_add(take, SeqCst) + take <= 5, "more permits than the limit");
                time::sleep(ms(u64::from(number % 4))).await;
                used.fetch_sub(take, SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(held(&store).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_client_are_served_in_their_order() {
    let client = client(memory());
    let semaphore = client.semaphore("gpu", 3);
    let (one, two) = (semaphore.acquire().await.unwrap(), semaphore.clone().permits(2).acquire().await.unwrap());
    let big = tokio::spawn({
        let semaphore = semaphore.clone().permits(3);
        async move { semaphore.acquire().await }
    });
    yield_now().await;
    let small = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    yield_now().await;
    drop(one);
    client.idle().await;
    assert!(!small.is_finished(), "a call was passed over");
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    drop(two);
    let big = soon(big).await.unwrap().unwrap();
    assert!(!small.is_finished());
    drop(big);
    drop(soon(small).await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_permit_goes_to_the_next_call_without_a_request() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    let semaphore = client.semaphore("gpu", 1);
    let guard = semaphore.acquire().await.unwrap();
    let next = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    yield_now().await;
    client.idle().await;
    assert_eq!(store.claims(), 1, "a call that waits for a permit of its own client claims nothing");
    let before = store.calls();
    guard.release().await.unwrap();
    let next = soon(next).await.unwrap().unwrap();
    assert_eq!(store.calls(), before);
    next.release().await.unwrap();
}

/// A call for all permits must not wait forever while another client takes one permit after another.
// Promise: K8
#[tokio::test(start_paused = true)]
async fn a_call_for_many_permits_does_not_starve() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    for offset in 0..4 {
        let semaphore = theirs.semaphore("gpu", 4);
        tokio::spawn(async move {
            time::sleep(ms(offset * 7)).await;
            loop {
                let guard = semaphore.acquire().await.unwrap();
                time::sleep(ms(30)).await;
                drop(guard);
            }
        });
    }
    time::sleep(ms(100)).await;
    let all = time::timeout(ms(10_000), ours.semaphore("gpu", 4).permits(4).acquire()).await.unwrap().unwrap();
    all.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn wrong_numbers_of_permits_are_refused_at_the_first_call() {
    let client = client(memory());
    for semaphore in
        [client.semaphore("gpu", 0), client.semaphore("gpu", 3).permits(4), client.semaphore("gpu", 3).permits(0)]
    {
        assert_eq!(kind(semaphore.acquire().await), Some(ErrorKind::Misused));
        assert_eq!(kind(semaphore.try_acquire().await), Some(ErrorKind::Misused));
    }
    let guard = client.semaphore("gpu", 3).acquire().await.unwrap();
    let error = client.semaphore("gpu", 4).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains('3') && error.to_string().contains('4'), "{error}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_new_limit_wakes_the_calls_that_wait() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    let guard = theirs.semaphore("gpu", 1).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let semaphore = ours.semaphore("gpu", 1);
        async move { semaphore.acquire().await }
    });
    yield_now().await;
    ours.idle().await;
    theirs.semaphore("gpu", 1).set_limit(2).await.unwrap();
    let second = time::timeout(ms(10), waiting).await.unwrap().unwrap().unwrap();
    assert!(ours.semaphore("gpu", 2).try_acquire().await.unwrap().is_none());
    drop((guard, second));
    assert_eq!(kind(ours.semaphore("gpu", 2).set_limit(0).await), Some(ErrorKind::Misused));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_no_permits_behind() {
    for cancel_at in 0..80 {
        let store = memory();
        let client = client(Delayed::new(store.clone(), cancel_at, ms(30), ms(30)));
        let semaphore = client.semaphore("gpu", 2).permits(2);
        drop(time::timeout(ms(cancel_at), semaphore.acquire()).await);
        client.idle().await;
        assert_eq!(held(&store).await, [""; 0], "dropped after {cancel_at} ms");
    }
}

/// The release of the permits has no answer. It is repeated, and the permits become free.
#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_is_repeated() {
    for fate in [Fate::ReplyLost, Fate::RequestLost] {
        let store = memory();
        let wire = Lossy::new(store.clone());
        let client = client(wire.clone());
        let guard = client.semaphore("gpu", 2).permits(2).acquire().await.unwrap();
        wire.next([fate]);
        drop(guard);
        soon(client.idle()).await;
        assert_eq!(held(&store).await, [""; 0], "{fate:?}");
    }
}

/// A call that starved and was dropped must not keep its place in the store.
#[tokio::test(start_paused = true)]
async fn a_starving_call_that_is_dropped_leaves_no_place_behind() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    let guard = theirs.semaphore("gpu", 2).acquire().await.unwrap();
    let starving = ours.semaphore("gpu", 2).permits(2);
    assert!(starving.try_acquire_for(ms(2500)).await.unwrap().is_none());
    ours.idle().await;
    assert!(theirs.semaphore("gpu", 2).try_acquire().await.unwrap().is_some());
    drop(guard);
    store.set_limit(&key("gpu"), NonZeroU32::MIN).await.unwrap();
}

/// The first call waits for three permits, and leaves. The call behind it wants one permit, which is free, so it does not
/// wait for a poll. The place of the first call ends, too, so other clients get permits again.
#[tokio::test(start_paused = true)]
async fn a_call_that_leaves_makes_room_for_a_smaller_call_behind_it() {
    let store = memory();
    let (theirs, ours) = (client(store.clone()), client(store.clone()));
    let held = theirs.semaphore("gpu", 4).permits(2).acquire().await.unwrap();
    let acquire = |permits| {
        let semaphore = ours.semaphore("gpu", 4).permits(permits);
        tokio::spawn(async move { semaphore.acquire().await })
    };
    let big = acquire(3);
    time::sleep(ms(3000)).await; // The call starves, so its claim has a place.
    let small = acquire(1);
    time::sleep(ms(3000)).await;
    assert!(!small.is_finished());
    assert!(theirs.semaphore("gpu", 4).try_acquire().await.unwrap().is_none());
    big.abort();
    let start = time::Instant::now();
    let small = soon(small).await.unwrap().unwrap();
    assert!(start.elapsed() < ms(5), "{:?}", start.elapsed());
    ours.idle().await;
    assert!(theirs.semaphore("gpu", 4).try_acquire().await.unwrap().is_some());
    drop((held, small));
}

/// While a starving call has a place, calls for fewer permits are refused. Its grant wakes them.
#[tokio::test(start_paused = true)]
async fn the_grant_of_a_starving_call_notifies_other_clients_if_permits_remain() {
    let store = memory();
    let claim = |take, offers| {
        let kind = Kind::Permits { take: NonZeroU32::new(take).unwrap(), of: NonZeroU32::new(4).unwrap() };
        let id = ClaimId { client: ClientId::random(), number: 1 };
        let (ttl, fences) = (ms(30_000), NonZeroU32::MIN);
        Claim { fences, joins: true, offers, ..Claim::new(key("gpu"), id, kind, ttl) }
    };
    for (take, notified) in [(3, 1), (4, 0)] {
        let (holder, starving, other) = (claim(2, false), claim(take, true), claim(1, false));
        for claim in [&holder, &starving] {
            store.apply(&[Step::Claim(claim.clone())]).await.remove(0).unwrap();
        }
        store.apply(&[Step::Release(holder)]).await.remove(0).unwrap();
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let notifier = Notifier::new(move || {
            counted.fetch_add(1, SeqCst);
        });
        let subscription = store.subscribe(&other, notifier).await.unwrap();
        let answer = store.apply(&[Step::Claim(starving.clone())]).await.remove(0).unwrap();
        assert!(matches!(answer, Answer::Claimed(Verdict::Granted { .. })), "{answer:?}");
        assert_eq!(count.load(SeqCst), notified, "{take} permits");
        drop(subscription);
        store.apply(&[Step::Release(starving)]).await.remove(0).unwrap();
    }
}

/// All free permits are claimed in one round trip, and not in one round trip each.
#[tokio::test(start_paused = true)]
async fn free_permits_are_claimed_together() {
    let store = Counting::new(memory());
    let client = client(Delayed::new(store.clone(), 1, ms(10), ms(10)));
    client.ready().await.unwrap();
    let (start, before) = (time::Instant::now(), store.calls());
    let workers: Vec<_> = (0..64)
        .map(|_| {
            let semaphore = client.semaphore("gpu", 8);
            tokio::spawn(async move {
                let guard = semaphore.acquire().await.unwrap();
                let acquired = start.elapsed();
                time::sleep(ms(5000)).await;
                drop(guard);
                acquired
            })
        })
        .collect();
    time::sleep(ms(100)).await;
    assert_eq!(store.grants(), 8);
    assert!(store.claims() <= 10, "{} claims", store.claims());
    let calls = store.calls() - before;
    assert!(calls <= 4, "{calls} round trips");
    let mut times = Vec::new();
    for worker in workers {
        times.push(soon(worker).await.unwrap());
    }
    assert!(times[..8].iter().all(|time| *time <= ms(60)), "{times:?}");
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}
