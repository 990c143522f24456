//! The number of requests, counted by the server: waiting clients, places and renewals are cheap.

use std::time::Duration;

use bandog_core::{Answer, Claim, ClaimId, ClientId, Key, Kind, Leases, Notifier, Renewal, Step, Verdict};
use bandog_testkit::ZooKeeperServer;
use futures_util::future::join_all;

use crate::{backend, client, soon};

/// How often a test repeats a call. It is greater than the number of pings and other requests in the same time.
const TIMES: u32 = 60;

pub(crate) fn claim(kind: Kind, name: &str, number: u64) -> Claim {
    Claim {
        joins: kind == Kind::Fair,
        ..Claim::new(
            Key::new(name).unwrap(),
            ClaimId { client: ClientId::random(), number },
            kind,
            Duration::from_secs(30),
        )
    }
}

/// The number of requests that the server has received.
pub(crate) fn received(server: &ZooKeeperServer) -> u32 {
    let answer = server.ask("srvr");
    let line = answer.lines().find_map(|line| line.strip_prefix("Received: "));
    line.expect("the server counts its requests").parse().unwrap()
}

pub(crate) async fn apply(backend: &impl Leases, claim: &Claim) -> Verdict {
    match backend.apply(&[Step::Claim(claim.clone())]).await.remove(0).unwrap() {
        Answer::Claimed(verdict) => verdict,
        Answer::Released(released) => panic!("{released:?}"),
    }
}

pub(crate) async fn granted(backend: &impl Leases, claim: &Claim) {
    let verdict = apply(backend, claim).await;
    assert!(matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
}

pub(crate) async fn refused(backend: &impl Leases, claim: &Claim) {
    let verdict = apply(backend, claim).await;
    assert!(matches!(verdict, Verdict::Busy { .. }), "{verdict:?}");
}

#[tokio::test]
async fn a_client_that_waits_behind_a_watched_node_sends_nothing() {
    let server = ZooKeeperServer::start();
    let (ours, theirs) = (backend(server.addr()), backend(server.addr()));
    let (held, waits) = (claim(Kind::Mutex, "orders", 1), claim(Kind::Mutex, "orders", 2));
    granted(&theirs, &held).await;
    refused(&ours, &waits).await;
    let _subscription = ours.subscribe(&waits, Notifier::new(|| {})).await.unwrap();
    let before = received(&server);
    for _ in 0..TIMES {
        refused(&ours, &waits).await;
    }
    let sent = received(&server) - before;
    assert!(sent < TIMES / 2, "{sent} requests");
}

#[tokio::test]
async fn a_renewal_lists_the_folder_of_its_places_once() {
    let server = ZooKeeperServer::start();
    let (ours, theirs) = (backend(server.addr()), backend(server.addr()));
    granted(&theirs, &claim(Kind::Fair, "orders", 1)).await;
    let places: Vec<_> = (2..2 + u64::from(TIMES)).map(|number| claim(Kind::Fair, "orders", number)).collect();
    for place in &places {
        refused(&ours, place).await;
    }
    let before = received(&server);
    let answers = ours.renew(&places).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Renewal::Waiting { is_next: false }))), "{answers:?}");
    let sent = received(&server) - before;
    assert!(sent < TIMES / 2, "{sent} requests");
}

#[tokio::test]
async fn renewals_one_after_the_other_share_a_proof_of_contact() {
    let server = ZooKeeperServer::start();
    let ours = backend(server.addr());
    let held = claim(Kind::Mutex, "orders", 1);
    granted(&ours, &held).await;
    let before = received(&server);
    let mut last = Duration::MAX;
    for _ in 0..TIMES {
        match ours.renew(std::slice::from_ref(&held)).await.remove(0).unwrap() {
            // The hold is valid for as long as the proof is.
            Renewal::Extended { valid_for } => last = last.min(valid_for),
            other => panic!("{other:?}"),
        }
    }
    let sent = received(&server) - before;
    assert!(sent < TIMES / 2, "{sent} requests");
    // Three fifths of the session, which lasts for 20 s.
    assert!(last < Duration::from_secs(12) && last > Duration::from_secs(10), "valid for {last:?}");
}

/// With a place for each call, a batch needs few round trips, whatever its size.
#[tokio::test]
async fn the_steps_of_one_name_are_answered_in_time_over_a_slow_network() {
    let server = ZooKeeperServer::start();
    let wire = server.wire();
    let (ours, theirs) = (backend(wire.addr()), backend(server.addr()));
    granted(&theirs, &claim(Kind::Fair, "orders", 1)).await;
    ours.ping().await.unwrap();
    // A round trip takes 100 ms. One after the other, the steps would take several times the timeout.
    wire.delay(Duration::from_millis(50));
    let steps: Vec<_> = (2..34).map(|number| Step::Claim(claim(Kind::Fair, "orders", number))).collect();
    let answers = ours.apply(&steps).await;
    let refused = |answer: &bandog_core::Result<Answer>| matches!(answer, Ok(Answer::Claimed(Verdict::Busy { .. })));
    assert!(answers.iter().all(refused), "{answers:?}");
    let ahead: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Ok(Answer::Claimed(Verdict::Busy { ahead, .. })) => *ahead,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ahead, (0..32).map(Some).collect::<Vec<_>>(), "the places are in the order of the steps");
}

/// The deletion of a node without a connection is reported with the next connection, which may be after a renewal.
#[tokio::test]
async fn the_first_renewal_after_a_reconnection_asks_for_each_node() {
    let server = ZooKeeperServer::start();
    let wire = server.wire();
    let ours = backend(wire.addr());
    let holds: Vec<_> = (0..TIMES).map(|number| claim(Kind::Mutex, &format!("lock{number}"), 1)).collect();
    for hold in &holds {
        granted(&ours, hold).await;
    }
    let renew = async || {
        let before = received(&server);
        let answers = ours.renew(&holds).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Renewal::Extended { .. }))), "{answers:?}");
        received(&server) - before
    };
    assert!(renew().await >= TIMES, "the first renewal asks for each node");
    let sent = renew().await;
    assert!(sent < TIMES / 2, "{sent} requests");
    let mut epoch = ours.profile().epoch;
    epoch.mark_unchanged();
    wire.cut();
    soon(epoch.changed()).await.unwrap();
    let sent = renew().await;
    assert!(sent >= TIMES, "{sent} requests");
    let sent = renew().await;
    assert!(sent < TIMES / 2, "{sent} requests");
}

/// Checks the requests and the fences of many calls that wait, each with a short turn.
macro_rules! check_turns {
    ($server:expr, $ours:expr, $theirs:expr) => {{
        let first = soon($ours).await.unwrap();
        let (fence, before) = (first.fence(), received($server));
        let turns = join_all((0..TIMES).map(async |_| {
            let guard = $ours.await.unwrap();
            let fence = guard.fence();
            guard.release().await.unwrap();
            fence
        }));
        let (mut fences, released) = soon(async { tokio::join!(turns, first.release()) }).await;
        released.unwrap();
        let sent = received($server) - before;
        assert!(sent < TIMES, "{sent} requests");
        fences.insert(0, fence);
        fences.push(soon($theirs).await.unwrap().fence());
        assert!(fences.is_sorted_by(|before, fence| before < fence), "{fences:?}");
    }};
}

#[tokio::test]
async fn waiting_calls_of_one_client_have_their_turns_in_one_hold() {
    let server = ZooKeeperServer::start();
    let (ours, theirs) = (client(server.addr()), client(server.addr()));
    check_turns!(&server, ours.mutex("orders").lock(), theirs.mutex("orders").lock());
    check_turns!(&server, ours.rwlock("catalogue").write(), theirs.rwlock("catalogue").write());
}
