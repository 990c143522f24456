//! The rows of the tables.

use std::time::Duration;

use bandog_core::{Answer, Inspect, Leases, Renewal, Row, Step, Verdict};
use bandog_testkit::eventually_async;
use mysql_async::prelude::Queryable;

use crate::support::{SERVER, SOON, claim, open, release, renew, take, try_take, url};

#[tokio::test]
async fn a_release_without_waiters_notifies_no_one() {
    let database = SERVER.new_database();
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
    take(&store, &ours).await;
    assert!(try_take(&store, &claim("k")).await.unwrap().is_none());
    release(&store, &ours).await;
    assert_eq!(SERVER.sql(&database, "select count(*) from bandog_channel"), "0", "a try_lock was notified");
}

#[tokio::test]
async fn long_lists_lock_no_other_rows() {
    const NAMES: usize = 1500;
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    let claims: Vec<_> = (0..NAMES).map(|n| claim(&format!("name {n}"))).collect();
    let steps: Vec<_> = claims.iter().cloned().map(Step::Claim).collect();
    assert!(
        store.apply(&steps).await.iter().all(|answer| matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. }))))
    );
    let others: Vec<_> = ["a", "name 15x", "z"].map(claim).to_vec();
    for other in &others {
        take(&store, other).await;
    }
    let opts = mysql_async::OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(SERVER.port());
    let opts = opts.user(Some("locks")).pass(Some("PASSWORD")).db_name(Some(&database));
    let mut raw = mysql_async::Conn::new(opts).await.unwrap();
    let locks = "start transaction; select * from bandog_lease where name in ('a', 'name 15x', 'z') for update";
    raw.query_drop(locks).await.unwrap();
    for renewal in store.renew(&claims).await {
        assert!(matches!(renewal.unwrap(), Renewal::Extended { .. }));
    }
    let waits = "select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT'";
    assert_eq!(SERVER.sql("mysql", waits), "0");
    raw.query_drop("rollback").await.unwrap();
}

#[tokio::test]
async fn the_time_zones_of_the_server_do_not_matter() {
    let database = SERVER.new_database();
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
    take(&store, &ours).await;
    let utc =
        "select expires > utc_timestamp() + interval 50 second and expires < utc_timestamp() + interval 61 second";
    assert_eq!(SERVER.sql(&database, &format!("{utc} from bandog_lease")), "1");
    SERVER.sql(&database, "set global time_zone = '+11:00'");
    let (later, theirs) = (open(&url(&SERVER, &database)), claim("k"));
    assert!(try_take(&later, &theirs).await.unwrap().is_none(), "the lock was granted twice");
    assert!(matches!(renew(&later, &ours).await.unwrap(), Renewal::Extended { .. }));
    assert_eq!(SERVER.sql(&database, &format!("{utc} from bandog_lease")), "1");
    SERVER.sql(&database, "set global time_zone = 'SYSTEM'");
}

#[tokio::test]
async fn names_that_differ_little_are_different_locks() {
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    let long = "x".repeat(1024);
    for name in ["a", "A", "a ", " a", "ä", "a\u{308}", "🐕", "'; drop table bandog_lease; --", &long, &long[1..]] {
        let claim = claim(name);
        take(&store, &claim).await;
        assert_eq!(store.show(&claim.key).await.unwrap().name, name);
    }
}

#[tokio::test]
async fn an_expired_lease_is_free() {
    let database = SERVER.new_database();
    let (store, mut ours, theirs) = (open(&url(&SERVER, &database)), claim("k"), claim("k"));
    ours.ttl = Duration::from_millis(200);
    let mut old = take(&store, &ours).await;
    let mut new = eventually_async(SOON, async || try_take(&store, &theirs).await.unwrap()).await;
    assert!(new.take() > old.take());
    assert_eq!(renew(&store, &ours).await.unwrap(), Renewal::Gone);
    release(&store, &theirs).await;
    assert_eq!(store.show(&ours.key).await.unwrap(), Row::free(&ours.key));
}
