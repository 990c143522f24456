//! A read of records and leases, if the process or the server is stopped between its statements.

use std::time::Duration;

use bandog_core::{Answer, Claim, ClaimId, ClientId, Holding, Key, Kind, Leases, Step, Verdict};

use super::options;
#[cfg(feature = "mysql")]
use super::options_of_mysql;
use crate::{
    Sql, context::Context, job::Query, options::SqlOptions, records::Read, session::Session, statements::Statements,
};

/// The ttl of the lease.
const TTL: Duration = Duration::from_secs(3);
/// The time for which a statement stops, in seconds. It is longer than the ttl.
const STOP: &str = "4";

/// Chooses a statement.
type Choice = fn(&mut Statements) -> &mut String;

/// Whether a read finds the lease that a live client holds, if a statement of the read takes longer than the ttl.
async fn finds_the_lease(options: SqlOptions, mut statements: Statements, stops: Choice, stop: (&str, &str)) -> bool {
    let (right, slow) = stop;
    let text = stops(&mut statements);
    assert!(text.contains(right), "{text:?} has no {right:?}");
    *text = text.replacen(right, &slow.replace("STOP", STOP), 1);
    let context = Context::new(options.clone(), statements);
    let mut session = Session::open(&context).await.expect("the server is up");
    let store = Sql::new(options).expect("the options are right");
    let claim = Claim::new(
        Key::new("k").expect("the name is right"),
        ClaimId { client: ClientId::random(), number: 1 },
        Kind::Mutex,
        TTL,
    );
    let answer = store.apply(&[Step::Claim(claim.clone())]).await.remove(0).expect("the server is up");
    assert!(matches!(answer, Answer::Claimed(Verdict::Granted { .. })), "{answer:?}");
    let read = Read { keys: vec![claim.key.clone()], holdings: vec![Holding { key: claim.key, id: claim.id }] };
    let reading = session.drive(|link| read.run(link, &context)).await.expect("the read succeeds");
    reading.held[0].clone().expect("the row is right")
}

#[tokio::test]
async fn a_stop_inside_a_read_ends_no_lease() {
    let cases: [(Choice, &str, &str); 3] = [
        (|texts| &mut texts.show, "\nwhere", ", pg_sleep(STOP)\nwhere"),
        (|texts| &mut texts.records, " where", ", pg_sleep(STOP) where"),
        (|texts| &mut texts.time, "select clock_timestamp()", "select clock_timestamp() from pg_sleep(STOP)"),
    ];
    for (statement, right, slow) in cases {
        let found = finds_the_lease(options(), Statements::postgres(), statement, (right, slow)).await;
        assert!(found, "{slow:?}: the lease of a live client was not found");
    }
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn a_stop_inside_a_read_on_mysql_ends_no_lease() {
    let cases: [(Choice, &str, &str); 3] = [
        (|texts| &mut texts.show, "order by", "and sleep(STOP) = 0 order by"),
        (|texts| &mut texts.records, "select", "do sleep(STOP); select"),
        (|texts| &mut texts.time, "select", "do sleep(STOP); select"),
    ];
    for (statement, right, slow) in cases {
        let found = finds_the_lease(options_of_mysql(), Statements::mysql(), statement, (right, slow)).await;
        assert!(found, "{slow:?}: the lease of a live client was not found");
    }
}
