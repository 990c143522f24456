//! The rows of the tables.

use std::time::Duration;

use bandog_core::{Inspect, Key, Pattern, Records, Renewal, Row, Swap};
use bandog_testkit::{SqlServer, eventually_async};

use super::{Database, Place, SOON, claim, full, release, renew, take, try_take};

pub(crate) async fn a_release_without_waiters_notifies_no_one<D: Database>() {
    let place = Place::<D>::new();
    let (store, ours) = (place.store(), claim("k"));
    take(&store, &ours).await;
    assert!(try_take(&store, &claim("k")).await.unwrap().is_none());
    let wanted = place.sql("select count(*) from bandog_lease where wanted");
    assert_eq!(wanted, "0", "a try_lock has asked for a notification");
    release(&store, &ours).await;
    if D::TABLES.contains(&"bandog_channel") {
        assert_eq!(place.sql("select count(*) from bandog_channel"), "0", "a try_lock was notified");
    }
}

pub(crate) async fn names_that_differ_little_are_different_locks<D: Database>() {
    let store = Place::<D>::new().store();
    let long = "x".repeat(1024);
    for name in ["a", "A", "a ", " a", "ä", "a\u{308}", "🐕", "'; drop table bandog_lease; --", &long, &long[1..]] {
        let claim = claim(name);
        take(&store, &claim).await;
        assert_eq!(store.show(&claim.key).await.unwrap().name, name);
    }
}

pub(crate) async fn an_expired_lease_is_free<D: Database>() {
    let (store, mut ours, theirs) = (Place::<D>::new().store(), claim("k"), claim("k"));
    ours.ttl = Duration::from_millis(200);
    let mut old = take(&store, &ours).await;
    let mut new = eventually_async(SOON, async || try_take(&store, &theirs).await.unwrap()).await;
    assert!(new.take() > old.take());
    assert_eq!(renew(&store, &ours).await.unwrap(), Renewal::Gone);
    release(&store, &theirs).await;
    assert_eq!(store.show(&ours.key).await.unwrap(), Row::free(&ours.key));
}

pub(crate) async fn the_names_of_records_are_found_by_their_beginning<D: Database>() {
    let store = Place::<D>::new().store();
    let (last, long) = (format!("a/{}", char::MAX), format!("a/{}", "x".repeat(1022)));
    let all = ["A/1", "a", "a*1", "a/", "a/1", "a/2", "a0", "b/1", &last, &long];
    for name in all {
        let swapped = store.swap(&[Swap::new(Key::new(name).unwrap(), None, "text")]).await.unwrap();
        assert!(swapped.each[0].is_ok(), "{swapped:?}");
    }
    for (pattern, expected) in [
        (Pattern::all(), &all[..]),
        (Pattern::new("a/*"), &["a/", "a/1", "a/2", &last, &long]),
        (Pattern::new("a/?"), &["a/1", "a/2", &last]),
        (Pattern::new("a\\*?"), &["a*1"]),
        (Pattern::new("*/1"), &["A/1", "a/1", "b/1"]),
    ] {
        let mut found = store.names(&pattern).await.unwrap();
        let mut expected: Vec<_> = expected.iter().map(|name| Key::new(name).unwrap()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{}", pattern.as_str());
    }
}

/// The planner must not decide for a scan, also if it knows little about the tables.
pub(crate) async fn no_call_reads_the_rows_of_other_clients<D: Database>() {
    let server = SqlServer::<D>::start();
    let place = Place::on(&server);
    full::create(&place.url()).await;
    D::fill(&place, full::ROWS);
    for is_analyzed in [false, true] {
        if is_analyzed {
            place.sql(&format!("{} {}", D::ANALYZE, D::TABLES.join(", ")));
        }
        let before = D::rows_read(&place).await;
        full::use_all(&place.url()).await;
        let rows = D::rows_read(&place).await - before;
        assert!(rows < u64::from(full::ROWS), "{rows} rows were read, analyzed: {is_analyzed}");
    }
}
