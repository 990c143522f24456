//! PgBouncer between the client and the server.

use bandog_core::{ErrorKind, Leases, Notifier, Renewal};
use bandog_testkit::{PgBouncer, PostgresServer, eventually_async};

use super::SERVER;
use crate::suite::{SOON, claim, open, release, renew, take, try_take};

fn url_of(pooler: &PgBouncer, database: &str, options: &str) -> String {
    format!("{}{options}", PostgresServer::url_at(pooler.port(), database))
}

// Promise: PG18
#[tokio::test]
async fn a_pooler_is_refused_with_words_and_changes_nothing() {
    for mode in ["transaction", "statement", "session"] {
        let (database, pooler) = (SERVER.new_database(), PgBouncer::start(&SERVER, mode));
        for _ in 0..3 {
            let error = try_take(&open(&url_of(&pooler, &database, "")), &claim("k")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{mode}: {error}");
            assert!(error.to_string().contains("pooler=session") && !error.to_string().contains("PASSWORD"), "{error}");
        }
        // A setting would stay in a session that other clients of the pooler use.
        let schemas = "select count(*) from pg_namespace where nspname = 'bandog'";
        assert_eq!(SERVER.sql(&database, schemas), "0", "{mode}");
    }
}

// Promise: PG18
#[tokio::test]
async fn locks_work_over_a_pooler_in_the_mode_session() {
    let (database, pooler) = (SERVER.new_database(), PgBouncer::start(&SERVER, "session"));
    let (one, two) = (url_of(&pooler, &database, "?pooler=session"), SERVER.url(&database));
    let (one, two) = (open(&one), open(&two));
    let (ours, theirs) = (claim("k"), claim("k"));
    take(&one, &ours).await;
    assert!(try_take(&two, &theirs).await.unwrap().is_none());
    assert!(matches!(renew(&one, &ours).await.unwrap(), Renewal::Extended { .. }));
    let (woken, notified) = tokio::sync::watch::channel(false);
    let subscription = one
        .subscribe(
            &ours,
            Notifier::new(move || {
                let _ = woken.send(true);
            }),
        )
        .await
        .unwrap();
    release(&two, &theirs).await; // It holds nothing, so nothing is notified.
    release(&one, &ours).await;
    eventually_async(SOON, async || *notified.borrow()).await;
    drop(subscription);
    take(&two, &theirs).await;
}

/// The URL says `session`, and the pooler has another mode.
#[tokio::test]
async fn a_wrong_promise_about_the_mode_is_no_silent_success() {
    let (database, pooler) = (SERVER.new_database(), PgBouncer::start(&SERVER, "statement"));
    let store = open(&url_of(&pooler, &database, "?pooler=session"));
    assert!(store.ping().await.is_err());
}
