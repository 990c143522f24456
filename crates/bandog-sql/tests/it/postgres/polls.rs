//! The polls of the leases for which claims wait.

use bandog_core::{Answer, Claim, Leases, Notifier, Released, Step, Verdict};
use bandog_sql::Sql;
use bandog_testkit::eventually_async;
use tokio::sync::watch;

use super::SERVER;
use crate::suite::{SOON, claim, open, polls::claims_are_answered_by_polls};

/// The claims of a waiter, which the engine repeats each second, are answered with what the polls have seen.
#[tokio::test]
async fn a_claim_is_not_sent_again_while_a_poll_sees_the_lease() {
    let database = SERVER.new_database();
    let [holder, waiter] = [(); 2].map(|()| open(&SERVER.url(&database)));
    let last = format!(
        "select max(query_start) from pg_stat_activity
        where datname = '{database}' and query like 'with locked%' and query like '%''busy''%'"
    );
    claims_are_answered_by_polls(&holder, &waiter, || SERVER.sql("postgres", &last)).await;
}

/// Sends all steps in one call.
async fn apply(store: &Sql, claims: &[Claim], step: fn(Claim) -> Step) -> Vec<Answer> {
    let steps: Vec<_> = claims.iter().cloned().map(step).collect();
    eventually_async(SOON, async || store.apply(&steps).await.into_iter().collect::<Result<_, _>>()).await
}

/// A call that is refused while it waits leaves a note in each row, and a release notifies the clients that left one.
#[tokio::test]
async fn one_call_for_many_names_asks_for_notifications_and_another_sends_them() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let database = SERVER.new_database();
    let [holder, waiter] = [(); 2].map(|()| open(&SERVER.url(&database)));
    let noted =
        || SERVER.sql(&database, "select string_agg(name, ' ' order by name) from bandog.bandog_lease where wanted");
    let mut held = NAMES.map(claim);
    apply(&holder, &held, Step::Claim).await;
    // Nobody waits for the last name.
    let mut waits = Vec::new();
    for name in &NAMES[..2] {
        let (woken, notified) = watch::channel(());
        let subscription = waiter.subscribe(&claim(name), Notifier::new(move || woken.send_replace(()))).await.unwrap();
        waits.push((subscription, notified));
    }
    for _ in 0..3 {
        // A subscription, and in later rounds a claim beside it, has left the note.
        let refused = apply(&waiter, &NAMES.map(claim), Step::Claim).await;
        assert!(refused.iter().all(|answer| matches!(answer, Answer::Claimed(Verdict::Busy { .. }))), "{refused:?}");
        assert_eq!(noted(), "a b");
        waits.iter_mut().for_each(|(_, notified)| notified.mark_unchanged());
        let freed = apply(&holder, &held, Step::Release).await;
        assert!(freed.iter().all(|answer| matches!(answer, Answer::Released(Released::Freed { .. }))), "{freed:?}");
        assert_eq!(noted(), "");
        for (_, notified) in &mut waits {
            tokio::time::timeout(SOON, notified.changed()).await.unwrap().unwrap();
        }
        held = NAMES.map(claim);
        apply(&holder, &held, Step::Claim).await;
        assert_eq!(noted(), "");
    }
}
