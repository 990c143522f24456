//! Claims and releases of many names share transactions, and none of them fails because of another one.

use bandog_core::{Answer, Claim, Fence, Inspect, Kind, Leases, Released, Step, Verdict};
use bandog_testkit::ZooKeeperServer;
use bandog_zookeeper::ZooKeeper;
use futures_util::{FutureExt, future::join_all};
use zookeeper_client::{Acls, CreateMode};

use crate::{
    SOON, backend, eventually_async, neighbour, nodes,
    requests::{claim, granted, received},
    soon,
};

const NAMES: u32 = 32;

fn name(number: u32) -> String {
    format!("lock{number}")
}

/// A claim for each name.
fn claims(kind: Kind, number: u64, name: impl Fn(u32) -> String) -> Vec<Claim> {
    (0..NAMES).map(|at| claim(kind, &name(at), number)).collect()
}

/// Sends all claims in one call, and returns their fences.
async fn hold_all(backend: &ZooKeeper, claims: &[Claim]) -> Vec<Fence> {
    let steps: Vec<_> = claims.iter().cloned().map(Step::Claim).collect();
    let answers = soon(backend.apply(&steps)).await;
    let fences = answers.into_iter().map(|answer| match answer.unwrap() {
        Answer::Claimed(Verdict::Granted { mut fences, .. }) => fences.take().unwrap(),
        other => panic!("{other:?}"),
    });
    fences.collect()
}

/// Sends all releases in one call.
async fn release_all(backend: &ZooKeeper, claims: &[Claim]) -> Vec<Released> {
    let steps: Vec<_> = claims.iter().cloned().map(Step::Release).collect();
    let answers = soon(backend.apply(&steps)).await;
    let released = answers.into_iter().map(|answer| match answer.unwrap() {
        Answer::Released(released) => released,
        Answer::Claimed(verdict) => panic!("{verdict:?}"),
    });
    released.collect()
}

fn freed(answers: &[Released]) -> usize {
    answers.iter().filter(|answer| matches!(answer, Released::Freed { .. })).count()
}

#[tokio::test]
async fn claims_and_releases_of_many_names_share_requests() {
    let server = ZooKeeperServer::start();
    let ours = backend(server.addr());
    for kind in [Kind::Mutex, Kind::Read, Kind::Write] {
        let name = |at: u32| format!("{kind:?}{at}");
        // The first claim of a name creates its folder.
        let first = claims(kind, 1, name);
        let first_fences = hold_all(&ours, &first).await;
        assert_eq!(freed(&release_all(&ours, &first).await), first.len());
        let before = received(&server);
        let second = claims(kind, 2, name);
        let second_fences = hold_all(&ours, &second).await;
        let (claimed, before) = (received(&server) - before, received(&server));
        assert!(claimed < NAMES / 4, "{claimed} requests");
        // The fence of each grant is the one that the server stores.
        for (fence, claim) in second_fences.iter().zip(&second) {
            let row = ours.show(&claim.key).await.unwrap();
            assert_eq!(row.holder().unwrap().last_fence, Some(*fence));
        }
        assert!(first_fences.iter().zip(&second_fences).all(|(first, second)| first < second));
        let before = received(&server).max(before);
        assert_eq!(freed(&release_all(&ours, &second).await), second.len());
        let released = received(&server) - before;
        assert!(released < NAMES / 4, "{released} requests");
    }
}

/// A transaction with a part that ZooKeeper refuses changes nothing.
#[tokio::test]
async fn a_refused_part_fails_no_other_part() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, backend(server.addr()));
    let first = claims(Kind::Mutex, 1, name);
    let first_fences = hold_all(&ours, &first).await;
    // Another program deletes the nodes of two holds.
    for name in [name(3), name(17)] {
        let node = nodes(&java, &name).await.remove(0);
        java.delete(&format!("/locks/{name}/{node}"), None).await.unwrap();
    }
    assert_eq!(freed(&release_all(&ours, &first).await), first.len() - 2);
    // ZooKeeper deletes one folder, as it does with an empty folder at times. Another folder is replaced by one that this
    // client may not use.
    for name in [name(3), name(17)] {
        java.delete(&format!("/locks/{name}"), None).await.unwrap();
    }
    let owner = zookeeper_client::Client::connector().with_auth("digest", b"joe:secret");
    let owner = owner.connect(&server.addr().to_string()).await.unwrap();
    let private = CreateMode::Persistent.with_acls(Acls::creator_all());
    owner.create(&format!("/locks/{}", name(17)), b"", &private).await.unwrap();
    let second = claims(Kind::Mutex, 2, name);
    let steps: Vec<_> = second.iter().cloned().map(Step::Claim).collect();
    let answers = soon(ours.apply(&steps)).await;
    for (at, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(Answer::Claimed(Verdict::Granted { mut fences, .. })) => {
                assert!(fences.take() > Some(first_fences[at]));
                assert_ne!(at, 17);
            }
            Err(error) => assert!(at == 17 && error.kind() == bandog_core::ErrorKind::Denied, "{error}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(freed(&release_all(&ours, &second).await), second.len() - 1);
    for at in (0..NAMES).filter(|at| *at != 17) {
        assert!(nodes(&java, &name(at)).await.is_empty(), "lock{at}");
    }
}

/// The node that each transaction writes is that of the session. Another program can delete it.
#[tokio::test]
async fn claims_without_the_node_of_their_session_are_granted() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, backend(server.addr()));
    let first = claims(Kind::Mutex, 1, name);
    hold_all(&ours, &first).await;
    release_all(&ours, &first).await;
    let sessions = "/locks/%bandog/sessions";
    for session in java.list_children(sessions).await.unwrap() {
        java.delete(&format!("{sessions}/{session}"), None).await.unwrap();
    }
    let second = claims(Kind::Mutex, 2, name);
    hold_all(&ours, &second).await;
    assert_eq!(freed(&release_all(&ours, &second).await), second.len());
}

/// All names of this test together do not fit into one transaction.
#[tokio::test]
async fn long_names_are_sent_in_several_transactions() {
    let server = ZooKeeperServer::start();
    let ours = backend(server.addr());
    // Each character has four bytes, and twelve in a path.
    let name = |at: u32| format!("{}{at:02}", "🐕".repeat(255));
    for number in 1..3 {
        let before = received(&server);
        let claims = claims(Kind::Mutex, number, name);
        hold_all(&ours, &claims).await;
        assert_eq!(freed(&release_all(&ours, &claims).await), claims.len());
        let sent = received(&server) - before;
        assert!(number == 1 || (5..NAMES).contains(&sent), "{sent} requests");
    }
}

/// The future that sends a batch can be dropped before it has done so.
#[tokio::test]
async fn a_dropped_call_does_not_hold_up_the_calls_beside_it() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, backend(server.addr()));
    for kept in [claim(Kind::Mutex, "kept", 1), claim(Kind::Mutex, "dropped", 1)] {
        granted(&ours, &kept).await;
        ours.apply(&[Step::Release(kept)]).await.remove(0).unwrap();
    }
    let (dropped, kept) = (claim(Kind::Mutex, "dropped", 2), claim(Kind::Mutex, "kept", 2));
    let steps = [dropped.clone(), kept.clone()].map(Step::Claim);
    let (mut first, second) = (ours.apply(&steps[..1]), ours.apply(&steps[1..]));
    let mut second = second.boxed();
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    drop(first);
    let answer = soon(second).await.remove(0).unwrap();
    assert!(matches!(answer, Answer::Claimed(Verdict::Granted { .. })), "{answer:?}");
    // The release of the dropped claim leaves nothing behind.
    soon(ours.apply(&[Step::Release(dropped), Step::Release(kept)])).await;
    eventually_async(SOON, async || nodes(&java, "dropped").await.is_empty() && nodes(&java, "kept").await.is_empty())
        .await;
}

/// Connections are cut while batches are sent. No claim is granted twice, and nothing stays behind.
#[tokio::test]
async fn batches_whose_answers_are_lost_leave_nothing() {
    let server = ZooKeeperServer::start();
    let wire = server.wire();
    let (java, ours) = (neighbour(&server).await, backend(wire.addr()));
    let first = claims(Kind::Mutex, 1, name);
    hold_all(&ours, &first).await;
    release_all(&ours, &first).await;
    for number in 2..12 {
        let claims = claims(Kind::Mutex, number, name);
        let steps: Vec<_> = claims.iter().cloned().map(Step::Claim).collect();
        wire.drop_replies(true);
        let sent = ours.apply(&steps);
        let (answers, ()) = futures_util::join!(soon(sent), async {
            eventually_async(SOON, async || !nodes(&java, &name(0)).await.is_empty()).await;
            wire.cut();
            wire.drop_replies(false);
        });
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
        let steps: Vec<_> = claims.into_iter().map(Step::Release).collect();
        eventually_async(SOON, async || ours.apply(&steps).await.into_iter().collect::<Result<Vec<_>, _>>()).await;
        join_all((0..NAMES).map(async |at| assert!(nodes(&java, &name(at)).await.is_empty(), "lock{at}"))).await;
    }
}
