//! Claims that were granted: they are answered whatever happens to the statements beside them, and what other transactions
//! can do with their rows.

use std::time::{Duration, Instant};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, ErrorKind, Key, Kind, Leases, Released, Renewal, Result, Step, Verdict,
};
use bandog_testkit::eventually_async;
use tokio::sync::oneshot;

use super::options;
use crate::{
    Sql,
    apply::Steps,
    context::Context,
    decisions::Decision,
    fault::Fault,
    job::Request,
    mutexes,
    row::Row,
    session::{Link, Session},
    statements::Statements,
};

fn claim(name: &str) -> Claim {
    Claim::new(
        Key::new(name).expect("the name is right"),
        ClaimId { client: ClientId::random(), number: 1 },
        Kind::Mutex,
        Duration::from_secs(60),
    )
}

async fn hold(link: &Link, name: &str) -> std::result::Result<Vec<Row>, Fault> {
    link.begin(&link.statements.hold_leases, &[&vec![name]]).await
}

/// A deadline that does not pass during a test.
fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[cfg(feature = "mysql")]
fn late() -> bandog_core::Error {
    bandog_core::Error::unavailable("late")
}

fn is_granted(answer: &Result<Answer>) -> bool {
    matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. })))
}

#[tokio::test]
async fn a_granted_claim_is_answered_if_the_creation_of_rows_fails() {
    let options = options();
    // The rows of one name exist. The next process does not know it.
    let store = Sql::new(options.clone()).expect("the options are right");
    let earlier = claim("known");
    assert!(is_granted(&store.apply(&[Step::Claim(earlier.clone())]).await[0]));
    store.apply(&[Step::Release(earlier)]).await.remove(0).expect("the server is up");

    let mut statements = Statements::postgres();
    statements.insert = "select cardinality($1::text[]) / 0".into();
    let context = Context::new(options, statements);
    let mut session = Session::open(&context).await.expect("the server is up");
    let (reply, mut answers) = oneshot::channel();
    let mut steps = Steps::default();
    steps.add(vec![Step::Claim(claim("known")), Step::Claim(claim("new"))], soon(), reply);
    let fault = session.drive(|link| steps.run(link, &context)).await.expect_err("the creation of rows fails");
    steps.finish(Some(fault.describe("db")));
    let answers = answers.try_recv().expect("the answers were sent");
    assert!(is_granted(&answers[0]), "{:?}: the client would not know its hold", answers[0]);
    let refused = answers[1].clone().expect_err("the lock has no row");
    assert!(refused.to_string().contains("zero"), "{refused}");
}

/// A release and claims of other callers are executed together. The claims take longer, because they wait for the disk.
#[tokio::test]
async fn a_release_is_answered_before_the_claims_beside_it() {
    let options = options();
    let store = Sql::new(options.clone()).expect("the options are right");
    let ours = claim("ours");
    assert!(is_granted(&store.apply(&[Step::Claim(ours.clone())]).await[0]));

    let mut statements = Statements::postgres();
    // A claim that never ends.
    statements.claim = "select $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::boolean[], \
                        $7::boolean[], $8::text from pg_sleep(3600)"
        .into();
    let context = Context::new(options, statements);
    let mut session = Session::open(&context).await.expect("the server is up");
    let (mut steps, (reply, released), (others, mut claimed)) =
        (Steps::default(), oneshot::channel(), oneshot::channel());
    steps.add(vec![Step::Release(ours.clone())], soon(), reply);
    steps.add(vec![Step::Claim(claim("b")), Step::Claim(claim("c"))], soon(), others);
    let answers = tokio::select! {
        answers = released => answers.expect("the answers were sent"),
        ended = session.drive(|link| steps.run(link, &context)) => panic!("the claims have ended: {:?}", ended.is_ok()),
    };
    assert!(matches!(answers[..], [Ok(Answer::Released(Released::Freed { .. }))]), "{answers:?}");
    assert!(claimed.try_recv().is_err(), "the claims have no answer yet");
    session.discard();
    assert!(is_granted(&store.apply(&[Step::Claim(ours)]).await[0]), "the release was committed");
}

/// Adds a call of one step.
#[cfg(feature = "mysql")]
fn add(steps: &mut Steps, step: Step, deadline: Instant) -> oneshot::Receiver<Vec<Result<Answer>>> {
    let (reply, answers) = oneshot::channel();
    steps.add(vec![step], deadline, reply);
    answers
}

/// A new database of MariaDB in which these mutexes are held, a backend, and a session.
#[cfg(feature = "mysql")]
async fn on_mariadb(held: &[Claim]) -> (Sql, Context, Session) {
    let options = super::options_of_mysql();
    let store = Sql::new(options.clone()).expect("the options are right");
    let steps: Vec<_> = held.iter().cloned().map(Step::Claim).collect();
    assert!(store.apply(&steps).await.iter().all(is_granted));
    let context = Context::new(options, Statements::mysql());
    let session = Session::open(&context).await.expect("the server is up");
    (store, context, session)
}

/// On MariaDB claims wait for releases, also for those that arrive meanwhile, but not for long.
#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mariadb_claims_wait_for_two_rounds_of_releases() {
    let held = ["a", "b", "c"].map(claim);
    let (_, context, mut session) = on_mariadb(&held).await;
    let mut steps = Steps::default();
    let [first, second, third] = held;
    let mut claimed = vec![add(&mut steps, Step::Claim(claim("d")), soon())];
    for release in [first, second] {
        let name = release.key.to_string();
        let mut released = add(&mut steps, Step::Release(release), soon());
        session.drive(|link| steps.run(link, &context)).await.expect("the server is up");
        assert!(steps.keep_open_calls(late), "{name}: the claims were executed with the release");
        let answers = released.try_recv().expect("the answer was sent");
        assert!(matches!(answers[..], [Ok(Answer::Released(Released::Freed { .. }))]), "{name}: {answers:?}");
        claimed.push(add(&mut steps, Step::Claim(claim(&name)), soon()));
    }
    let mut released = add(&mut steps, Step::Release(third), soon());
    session.drive(|link| steps.run(link, &context)).await.expect("the server is up");
    assert!(steps.keep_open_calls(late), "the third release was executed with the claims");
    for answers in &mut claimed {
        assert!(is_granted(&answers.try_recv().expect("the answer was sent")[0]));
    }
    session.drive(|link| steps.run(link, &context)).await.expect("the server is up");
    assert!(!steps.keep_open_calls(late));
    released.try_recv().expect("the answer was sent").remove(0).expect("the lock is held");
}

/// A release of a locked row is repeated. The claims beside it are executed with the first repetition.
#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mariadb_claims_do_not_wait_for_a_release_whose_row_is_locked() {
    let ours = claim("a");
    let (_, context, mut session) = on_mariadb(std::slice::from_ref(&ours)).await;
    let mut node = Session::open(&context).await.expect("the server is up");
    assert_eq!(node.drive(|link| hold(link, "a")).await.expect("the row is free").len(), 1);

    let mut steps = Steps::default();
    let mut released = add(&mut steps, Step::Release(ours), soon());
    let mut claimed = add(&mut steps, Step::Claim(claim("b")), soon());
    for _ in 0..2 {
        assert!(claimed.try_recv().is_err(), "the claim was executed before the release");
        let fault = session.drive(|link| steps.run(link, &context)).await.expect_err("the row is locked");
        assert!(fault.is_transient());
    }
    assert!(is_granted(&claimed.try_recv().expect("the answer was sent")[0]));
    node.roll_back().await.expect("the transaction can be rolled back");
    session.drive(|link| steps.run(link, &context)).await.expect("the server is up");
    assert!(!steps.keep_open_calls(late));
    released.try_recv().expect("the answer was sent").remove(0).expect("the lock is held");
}

/// Otherwise a claim would be granted after its caller has stopped waiting.
#[cfg(feature = "mysql")]
#[tokio::test]
async fn a_claim_that_has_waited_until_its_deadline_is_not_executed() {
    let ours = claim("a");
    let (store, context, mut session) = on_mariadb(std::slice::from_ref(&ours)).await;
    let mut steps = Steps::default();
    let mut released = add(&mut steps, Step::Release(ours), soon());
    let mut claimed = add(&mut steps, Step::Claim(claim("b")), Instant::now());
    session.drive(|link| steps.run(link, &context)).await.expect("the server is up");
    assert!(!steps.keep_open_calls(late));
    released.try_recv().expect("the answer was sent").remove(0).expect("the lock is held");
    let refused = claimed.try_recv().expect("the answer was sent").remove(0).expect_err("the deadline has passed");
    assert!(refused.to_string().contains("late") && !refused.maybe_applied(), "{refused}");
    assert!(is_granted(&store.apply(&[Step::Claim(claim("b"))]).await[0]), "the claim was executed");
}

/// A claim of many names reads a row, and another client gets the lock before the claim has locked this row.
#[tokio::test]
async fn a_claim_of_many_names_sees_a_row_that_has_changed_since_its_statement_began() {
    let options = options();
    let store = Sql::new(options.clone()).expect("the options are right");
    for name in ["a", "b"] {
        let earlier = claim(name);
        assert!(is_granted(&store.apply(&[Step::Claim(earlier.clone())]).await[0]));
        store.apply(&[Step::Release(earlier)]).await.remove(0).expect("the server is up");
    }
    let mut statements = Statements::postgres();
    let reads = "where l.name = any ($1::text[]) and f.name = any ($1::text[]) for update";
    assert!(statements.claim.contains(reads));
    // The row is read, and then the statement waits.
    let waits = format!("where pg_advisory_xact_lock_shared(length(l.name)) is not null and {}", &reads[6..]);
    statements.claim = statements.claim.replace(reads, &waits);
    let context = Context::new(options.clone(), statements);
    let mut claiming = Session::open(&context).await.expect("the server is up");
    let other = Context::new(options, Statements::postgres());
    let mut other = Session::open(&other).await.expect("the server is up");
    other.drive(|link| link.execute("select pg_advisory_lock(1)")).await.expect("the server is up");

    let claims = [claim("a"), claim("b")].map(Step::Claim);
    let asked: Vec<_> = claims.iter().collect();
    let claimed = claiming.drive(async |link| Ok(mutexes::claim(link, &context, &asked).await));
    let before_its_end = async {
        eventually_async(Duration::from_secs(20), async || {
            let count = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
            let rows = other.drive(|link| link.query(count, &[])).await.expect("the server is up");
            rows[0].try_get::<i64>(0).expect("a number") == 1
        })
        .await;
        assert!(is_granted(&store.apply(&[Step::Claim(claim("a"))]).await[0]));
        other.drive(|link| link.execute("select pg_advisory_unlock(1)")).await.expect("the server is up");
    };
    let (claimed, ()) = futures_util::future::join(claimed, before_its_end).await;
    let decided = claimed.unwrap_or_else(|_: Fault| panic!("the server is up"));
    assert!(decided.failed.is_none());
    let [Some(Decision::Answer(a)), Some(Decision::Answer(b))] = &decided.decisions[..] else {
        panic!("{:?}", decided.decisions)
    };
    assert!(matches!(a, Answer::Claimed(Verdict::Busy { .. })), "{a:?}");
    assert!(matches!(b, Answer::Claimed(Verdict::Granted { .. })), "{b:?}");
}

#[tokio::test]
async fn the_commit_of_a_release_does_not_wait_for_the_disk_and_that_of_a_claim_does() {
    let context = Context::new(options(), Statements::postgres());
    let mut session = Session::open(&context).await.expect("the server is up");
    let claims = ["a", "b"].map(claim);
    for count in [1, 2] {
        let claimed: Vec<_> = claims.iter().take(count).cloned().map(Step::Claim).collect();
        let released: Vec<_> = claims.iter().take(count).cloned().map(Step::Release).collect();
        let (claimed, released) = (claimed.iter().collect::<Vec<_>>(), released.iter().collect::<Vec<_>>());
        let settings = session.drive(async |link| {
            link.execute("begin").await?;
            let granted = mutexes::claim(link, &context, &claimed).await;
            let before = setting(link).await?;
            let freed = mutexes::release(link, &released).await;
            let after = setting(link).await?;
            link.execute("commit").await?;
            assert!([&granted, &freed].iter().all(|decided| decided.decisions.iter().all(Option::is_some)));
            Ok((before, after, setting(link).await?))
        });
        let expected = ("on".to_owned(), "off".to_owned(), "on".to_owned());
        assert_eq!(settings.await.expect("the server is up"), expected, "{count} names");
    }
}

/// Whether the commit of the present transaction waits for the disk.
async fn setting(link: &Link) -> std::result::Result<String, Fault> {
    let rows = link.query("select current_setting('synchronous_commit')", &[]).await?;
    Ok(rows[0].try_get::<&str>(0)?.to_owned())
}

/// A node that writes records all the time keeps its own lease, and the lease is renewed meanwhile.
#[tokio::test]
async fn a_transaction_that_needs_a_hold_delays_no_renewal_of_it() {
    let options = options();
    let store = Sql::new(options.clone()).expect("the options are right");
    let ours = claim("k");
    assert!(is_granted(&store.apply(&[Step::Claim(ours.clone())]).await[0]));
    let context = Context::new(options, Statements::postgres());
    let mut node = Session::open(&context).await.expect("the server is up");
    let mut renewing = Session::open(&context).await.expect("the server is up");
    let locked = node.drive(|link| hold(link, ours.key.as_str())).await;
    assert_eq!(locked.expect("the row is free").len(), 1);
    let asked = [&ours];
    let renewed = renewing.drive(|link| mutexes::renew(link, &asked)).await.expect("the server is up");
    assert_eq!(renewed, [Some(Renewal::Extended { valid_for: ours.ttl })]);
    let released = store.apply(&[Step::Release(ours.clone())]).await.remove(0);
    assert_eq!(released.expect_err("the node needs the hold").kind(), ErrorKind::Unavailable);
    node.roll_back().await.expect("the transaction can be rolled back");
    store.apply(&[Step::Release(ours)]).await.remove(0).expect("the row is free");
}
