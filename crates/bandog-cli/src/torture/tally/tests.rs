//! Tests of the counts, with locks of a store in memory.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bandog::{Client, ConnectOptions, Guard, SharedHold, backend::Kind};

use super::{
    super::{
        family::Family,
        plan::{Name, Plan},
    },
    Tally, Use,
};

/// A client of a new store, whose grants have one fence each.
async fn client() -> Client {
    ConnectOptions::parse("memory:").unwrap().local_turns(1).connect().await.unwrap()
}

/// The counts for one name. The locks in the store have other names, so the store grants them all at the same time.
fn tally(family: Family) -> Tally {
    let names = vec![Name { text: "name".into(), family, is_long: true }];
    let (prefix, hold) = (String::new(), Duration::ZERO);
    Tally::new(Arc::new(Plan { prefix, families: vec![family], names, hold, lease: None }))
}

/// The lock of this name, with this fence.
async fn guard(client: &Client, name: &str, fence: u64) -> Guard<SharedHold> {
    loop {
        let guard = client.mutex(name).lock().await.unwrap();
        if guard.fence().get() == fence {
            return guard.into();
        }
    }
}

/// The counts of losses that were reported, of losses that were not, and of fences that repeat.
fn counts(tally: &Tally) -> [u64; 3] {
    let figures = tally.figures();
    [figures.losses_reported, figures.losses_not_reported, figures.repeated_fences]
}

#[tokio::test]
async fn a_holder_that_was_notified_is_not_overtaken() {
    let (client, tally) = (client().await, tally(Family::Mutex));
    let lost = client.mutex("a").lease(Duration::from_millis(100)).lock().await.unwrap();
    let (first, lost) = tally.granted(0, 1, Kind::Mutex, lost.into());
    lost.lost().await;
    let (second, held) = tally.granted(0, 2, Kind::Mutex, guard(&client, "b", 2).await);
    assert_eq!((tally.ended(first, &lost), tally.ended(second, &held)), (Use::Lost, Use::Held));
    assert_eq!(counts(&tally), [1, 0, 0]);
}

#[tokio::test]
async fn a_holder_that_was_not_notified_counts_once() {
    let (client, tally) = (client().await, tally(Family::Mutex));
    let (first, one) = tally.granted(0, 1, Kind::Mutex, guard(&client, "a", 1).await);
    let (second, two) = tally.granted(0, 2, Kind::Mutex, guard(&client, "b", 2).await);
    assert_eq!(tally.ended(second, &two), Use::Held);
    let (third, three) = tally.granted(0, 3, Kind::Mutex, guard(&client, "c", 3).await);
    assert_eq!((tally.ended(first, &one), tally.ended(third, &three)), (Use::Lost, Use::Held));
    assert_eq!(counts(&tally), [0, 1, 0]);
    assert!(tally.figures().longest_overlap > Duration::ZERO);
    tally.released(Use::Lost, Err(bandog::Error::lost(&one.holding().key)));
    assert_eq!(counts(&tally), [0, 1, 0], "the release of a hold that is counted already");
}

/// The grant with the smaller fence was lost before its worker got it.
#[tokio::test]
async fn a_holder_that_comes_late_is_the_one_that_was_overtaken() {
    let (client, tally) = (client().await, tally(Family::Mutex));
    let (newer, new) = tally.granted(0, 1, Kind::Mutex, guard(&client, "a", 5).await);
    let (older, old) = tally.granted(0, 2, Kind::Mutex, guard(&client, "b", 1).await);
    assert_eq!((tally.ended(newer, &new), tally.ended(older, &old)), (Use::Held, Use::Lost));
    assert_eq!(counts(&tally), [0, 1, 0]);
}

#[tokio::test]
async fn the_release_shows_why_a_fence_is_too_small() {
    for (was_held, expected) in [(true, [0, 0, 1]), (false, [0, 1, 0])] {
        let (client, tally) = (client().await, tally(Family::Mutex));
        let (newer, new) = tally.granted(0, 1, Kind::Mutex, guard(&client, "a", 5).await);
        assert_eq!(tally.ended(newer, &new), Use::Held);
        let (older, old) = tally.granted(0, 2, Kind::Mutex, guard(&client, "b", 1).await);
        let ended = tally.ended(older, &old);
        assert!(matches!(ended, Use::Behind(_)), "{ended:?}");
        tally.released(ended, if was_held { Ok(()) } else { Err(bandog::Error::lost(&old.holding().key)) });
        assert_eq!(counts(&tally), expected);
    }
}

#[tokio::test]
async fn equal_fences_repeat() {
    let (client, tally) = (client().await, tally(Family::Mutex));
    for name in ["a", "b"] {
        let (number, guard) = tally.granted(0, 1, Kind::Mutex, guard(&client, name, 1).await);
        assert_eq!(tally.ended(number, &guard), Use::Held);
    }
    assert_eq!(counts(&tally), [0, 0, 1]);
}

#[tokio::test]
async fn only_as_many_holders_of_permits_are_overtaken_as_needed() {
    let (client, tally) = (client().await, tally(Family::Semaphore));
    let take = |number| Kind::Permits { take: NonZeroU32::new(number).unwrap(), of: NonZeroU32::new(3).unwrap() };
    let mut holds = Vec::new();
    for (worker, (name, permits)) in [("a", 1), ("b", 2), ("c", 1), ("d", 1)].into_iter().enumerate() {
        let fence = u64::try_from(worker).unwrap() + 1;
        holds.push(tally.granted(0, worker, take(permits), guard(&client, name, fence).await));
    }
    // The third holder overtakes the first one, and the fourth one overtakes the second.
    let ended: Vec<_> = holds.iter().map(|(number, guard)| tally.ended(*number, guard)).collect();
    assert_eq!(ended, [Use::Lost, Use::Lost, Use::Held, Use::Held]);
    assert_eq!(counts(&tally), [0, 2, 0]);
}

#[tokio::test]
async fn a_loss_that_the_release_finds_was_reported() {
    let (client, tally) = (client().await, tally(Family::Mutex));
    let (number, guard) = tally.granted(0, 1, Kind::Mutex, guard(&client, "a", 1).await);
    let ended = tally.ended(number, &guard);
    tally.released(ended, Err(bandog::Error::lost(&guard.holding().key)));
    tally.released(ended, Err(bandog::Error::unavailable("the answer is lost")));
    assert_eq!((counts(&tally), tally.figures().all_errors()), ([1, 0, 0], 1));
}
