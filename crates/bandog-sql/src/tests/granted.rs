//! Claims that were granted: they are answered whatever happens to the statements beside them, and what other transactions
//! can do with their rows.

use bandog_core::{Answer, Claim, ClaimId, ClientId, ErrorKind, Key, Kind, Leases, Renewal, Result, Step, Verdict};
use tokio::sync::oneshot;

use super::options;
use crate::{
    Sql,
    apply::Steps,
    fault::Fault,
    job::Request,
    leases::Context,
    mutexes,
    row::Row,
    session::{Link, Session},
    statements::Statements,
};

fn claim(name: &str) -> Claim {
    Claim {
        key: Key::new(name).expect("the name is right"),
        id: ClaimId { client: ClientId::random(), number: 1 },
        kind: Kind::Mutex,
        ttl: std::time::Duration::from_secs(60),
        fences: std::num::NonZeroU32::MIN,
        above: None,
        joins: false,
        offers: false,
    }
}

async fn hold(link: &Link, name: &str) -> std::result::Result<Vec<Row>, Fault> {
    link.begin(&link.statements.hold_leases, &[&vec![name]]).await
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
    steps.add(vec![Step::Claim(claim("known")), Step::Claim(claim("new"))], reply);
    let fault = session.drive(|link| steps.run(link, &context)).await.expect_err("the creation of rows fails");
    steps.finish(Some(fault.describe("db")));
    let answers = answers.try_recv().expect("the answers were sent");
    assert!(is_granted(&answers[0]), "{:?}: the client would not know its hold", answers[0]);
    let refused = answers[1].clone().expect_err("the lock has no row");
    assert!(refused.to_string().contains("zero"), "{refused}");
}

/// A node that writes records all the time keeps its own lease, and the lease is renewed meanwhile.
#[tokio::test]
async fn a_transaction_that_needs_a_hold_delays_no_renewal_of_it() {
    let options = options();
    let store = Sql::new(options.clone()).expect("the options are right");
    let ours = claim("k");
    assert!(is_granted(&store.apply(&[Step::Claim(ours.clone())]).await[0]));
    let context = Context::new(options, Statements::postgres());
    let open = async || Session::open(&context).await.expect("the server is up");
    let (mut node, mut renewing) = (open().await, open().await);
    let locked = node.drive(|link| hold(link, ours.key.as_str())).await;
    assert_eq!(locked.expect("the row is free").len(), 1);
    let renewed = renewing.drive(async |link| mutexes::renew(link, &[&ours]).await).await.expect("the server is up");
    assert_eq!(renewed, [Some(Renewal::Extended { valid_for: ours.ttl })]);
    let released = store.apply(&[Step::Release(ours.clone())]).await.remove(0);
    assert_eq!(released.expect_err("the node needs the hold").kind(), ErrorKind::Unavailable);
    node.roll_back().await.expect("the transaction can be rolled back");
    store.apply(&[Step::Release(ours)]).await.remove(0).expect("the row is free");
}
