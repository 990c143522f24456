//! Transactions of others that lock rows of a lock.

use std::time::Duration;

use bandog_core::{Answer, Claim, Kind, Leases, Released, Step, Verdict};
use bandog_testkit::{Postgres, eventually_async};

use super::SERVER;
use crate::suite::{Database, SOON, claim, open, release, take};

/// A step for the lock `k` is decided while another transaction changes the row, so its decision depends on that change.
// Promise: PG9
#[tokio::test]
async fn a_single_claim_or_release_does_not_overtake_a_transaction_that_grants_the_lock() {
    for is_held in [false, true] {
        let database = SERVER.new_database();
        let (store, ours) = (open(&SERVER.url(&database)), claim("k"));
        take(&store, &ours).await;
        if !is_held {
            release(&store, &ours).await;
        }
        let raw = Postgres::connect(&SERVER, &database).await;
        let theirs = claim("k").id;
        let grant = format!(
            "begin; update bandog.bandog_lease
            set owner = '{theirs}', expires = clock_timestamp() + interval '1 hour' where name = 'k'"
        );
        raw.batch_execute(&grant).await.unwrap();
        let steps = [if is_held { Step::Release(ours) } else { Step::Claim(ours) }];
        let is_waiting = async || {
            let waiting = "select from pg_locks where not granted and transactionid = pg_current_xact_id()::xid";
            (!raw.query(waiting, &[]).await.unwrap().is_empty()).then_some(())
        };
        let mut asking = std::pin::pin!(store.apply(&steps));
        // A step that does not skip the row waits for the other transaction, and then changes the row.
        let answered = tokio::select! {
            answers = &mut asking => Some(answers),
            () = eventually_async(SOON, is_waiting) => None,
        };
        raw.batch_execute("commit").await.unwrap();
        let answer = match answered {
            Some(mut answers) => answers.remove(0),
            None => asking.await.remove(0),
        };
        match answer {
            Ok(Answer::Claimed(Verdict::Busy { .. }) | Answer::Released(Released::NotHeld)) => {}
            Err(error) if is_held => assert!(!error.maybe_applied(), "{error}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(SERVER.sql(&database, "select owner from bandog.bandog_lease where name = 'k'"), theirs.to_string());
    }
}

/// A transaction of a user keeps the row of the fence, and the lease is held. Then a waiter need not poll for the end of
/// the transaction.
#[tokio::test]
async fn a_claim_of_a_held_lock_is_busy_for_its_lease_while_its_fence_is_kept() {
    for kind in [Kind::Mutex, Kind::Fair, Kind::Write] {
        let database = SERVER.new_database();
        let store = open(&SERVER.url(&database));
        let [ours, theirs] = [claim("k"), claim("k")].map(|claim| Claim { kind, joins: true, ..claim });
        take(&store, &ours).await;
        let raw = Postgres::connect(&SERVER, &database).await;
        raw.batch_execute("begin; select from bandog.bandog_fence for share").await.unwrap();
        let busy_for = async || match store.apply(&[Step::Claim(theirs.clone())]).await.remove(0).unwrap() {
            Answer::Claimed(Verdict::Busy { retry_after, .. }) => retry_after,
            answer => panic!("{answer:?}"),
        };
        assert!(busy_for().await > Duration::from_secs(1), "{kind:?}");
        release(&store, &ours).await;
        assert!(busy_for().await < Duration::from_secs(1), "{kind:?}: the end of the transaction is not notified");
        raw.batch_execute("rollback").await.unwrap();
        take(&store, &theirs).await;
    }
}
