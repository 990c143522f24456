//! The polls of the leases for which claims wait.

use crate::{
    claims::polls::claims_are_answered_by_polls,
    support::{SERVER, open, url},
};

/// The claims of a waiter, which the engine repeats each second, are answered with what the polls have seen.
#[tokio::test]
async fn a_claim_is_not_sent_again_while_a_poll_sees_the_lease() {
    let database = SERVER.new_database();
    let [holder, waiter] = [(); 2].map(|()| open(&url(&SERVER, &database)));
    let last = format!(
        "select max(query_start) from pg_stat_activity
        where datname = '{database}' and query like 'with locked%' and query like '%''busy''%'"
    );
    claims_are_answered_by_polls(&holder, &waiter, || SERVER.sql("postgres", &last)).await;
}
