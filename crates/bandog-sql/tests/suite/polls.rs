//! Claims that are answered with what a poll has seen.

use bandog_core::{Claim, Leases, Notifier};
use bandog_sql::Sql;
use bandog_testkit::eventually_async;

use super::{SOON, claim, release, take, try_take};

/// Checks which claims are sent to the server while a subscriber waits. `sent`: a text that changes with each claim.
pub(crate) async fn claims_are_answered_by_polls(holder: &Sql, waiter: &Sql, sent: impl Fn() -> String + Sync) {
    let (ours, theirs) = (claim("k"), claim("k"));
    take(holder, &ours).await;
    let (woken, mut notified) = tokio::sync::watch::channel(());
    assert!(try_take(waiter, &theirs).await.unwrap().is_none());
    let notifier = Notifier::new(move || woken.send_replace(()));
    let subscription = waiter.subscribe(&theirs, notifier).await.unwrap();
    let is_answered_by_polls = async || {
        let before = sent();
        assert!(try_take(waiter, &theirs).await.unwrap().is_none());
        sent() == before
    };
    // Another claim is sent, and so is one that leaves a note.
    for other in [claim("k"), Claim { offers: true, ..theirs.clone() }] {
        eventually_async(SOON, is_answered_by_polls).await;
        let before = sent();
        assert!(try_take(waiter, &other).await.unwrap().is_none());
        assert_ne!(sent(), before, "{other:?} was not sent");
    }
    eventually_async(SOON, is_answered_by_polls).await;
    notified.mark_unchanged();
    release(holder, &ours).await;
    tokio::time::timeout(SOON, notified.changed()).await.unwrap().unwrap();
    // The notification has made the polls before it void. For a moment, the lock is kept for claims that starve.
    let before = sent();
    let granted = try_take(waiter, &theirs).await.unwrap();
    assert_ne!(sent(), before, "the claim after a notification was not sent");
    if granted.is_none() {
        eventually_async(SOON, async || try_take(waiter, &theirs).await.unwrap()).await;
    }
    drop(subscription);
}
