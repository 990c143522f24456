//! An hour of the office, on a store in memory and under tokio's paused clock. No server is needed.

use std::collections::BTreeSet;
use std::time::Duration;

use bandog::testing::{Store, TestOutcome, TestScheduler};
use bandog_example_paused_time::{Office, RESERVED, report, reserve, reserve_within};
use tokio::time::Instant;

/// Real time that an hour of virtual time may take on a busy machine.
const A_MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_seat_is_free_again_after_a_quarter_of_an_hour() {
    let store = Store::new();
    let (ann, bob) = (store.client(), store.client()); // two processes
    let began = Instant::now();
    let seat = reserve(&ann, 7).await.unwrap().expect("the seat is free");
    assert!(reserve(&bob, 7).await.unwrap().is_none());
    assert!(reserve(&bob, 8).await.unwrap().is_some());

    let fence = reserve_within(&bob, 7, RESERVED * 4).await.unwrap().expect("it is free within the hour");
    assert!(seat.is_lost() && fence > seat.fence());
    let waited = began.elapsed();
    assert!(waited >= RESERVED && waited < RESERVED + Duration::from_secs(5), "bob has waited for {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn each_report_of_an_hour_is_sent_by_one_of_three_replicas() {
    let real = std::time::Instant::now();
    let test = TestScheduler::at("2026-03-08T06:00:30Z").replicas(3).share(Office::default());
    let test = test.start(|| vec![report::job()]).await.unwrap();
    test.advance_to("2026-03-08T07:00:30Z").await;
    let ticks = test.ticks("report");
    assert_eq!(ticks.len(), 60);
    assert_eq!(ticks.iter().collect::<BTreeSet<_>>().len(), 60, "a report was sent twice");
    assert!(test.runs().iter().all(|run| run.outcome == TestOutcome::Ok));
    test.stop().await.unwrap();
    assert!(real.elapsed() < A_MINUTE, "an hour has taken {:?}", real.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_report_whose_replica_crashes_is_sent_by_another_one() {
    let test = TestScheduler::at("2026-03-08T06:00:30Z").replicas(3).share(Office::default());
    let mut test = test.start(|| vec![report::job()]).await.unwrap();
    test.advance_to("2026-03-08T06:01:05Z").await;
    let first = test.runs()[0].clone();
    assert_eq!(first.outcome, TestOutcome::Running);

    test.crash(first.replica); // in the middle of the report
    test.advance_to("2026-03-08T06:05:30Z").await;
    let attempts: Vec<_> = test.runs().into_iter().filter(|run| run.tick == first.tick).collect();
    let [crashed, repeated] = &attempts[..] else { panic!("not two attempts: {attempts:#?}") };
    assert_eq!((&crashed.outcome, &repeated.outcome), (&TestOutcome::Dropped, &TestOutcome::Ok));
    assert_ne!(crashed.replica, repeated.replica);
    test.stop().await.unwrap();
}
