//! Many calls for one name: the order of their places, and nodes that stay behind.

use std::{
    env,
    num::NonZeroU32,
    time::{Duration, Instant},
};

use bandog_core::{Answer, Claim, ClientId, ErrorKind, Kind, Leases, Released, Renewal, Step, Verdict};
use bandog_sync::{Client, Guard};
use bandog_testkit::{ZooKeeperServer, eventually_async};
use bandog_zookeeper::{ZooKeeper, ZooKeeperOptions};
use futures_util::future::join_all;
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{sleep_until, timeout},
};

use crate::{
    SOON, backend, connected, neighbour, nodes,
    requests::{apply, claim, granted, refused},
    soon,
};

/// The number of calls of [`a_crowd_of_calls_leaves_no_node`]. The long form has 10,000.
const CALLS: &str = "BANDOG_CROWD";
/// The number of calls without this variable.
const FEW: usize = 600;
/// The number of calls that begin at once.
const PORTION: usize = 300;
/// The time in which calls are dropped or time out, for each call.
const PER_CALL: Duration = Duration::from_millis(5);

/// The folder of the lock does not exist, and the calls are more than Tokio polls at once.
// Promise: K1
#[tokio::test]
async fn places_have_the_order_of_their_claims_also_in_a_new_folder() {
    const CLAIMS: u64 = 400;
    let server = ZooKeeperServer::start();
    // A busy machine needs seconds for all of them.
    let url = format!("zookeeper://{}/locks?session=20s", server.addr());
    let ours = ZooKeeper::new(ZooKeeperOptions::from_url(&url).unwrap().timeout(SOON));
    let java = neighbour(&server).await;
    ours.ping().await.unwrap();
    let client = ClientId::random();
    let steps: Vec<_> =
        (1..=CLAIMS).map(|number| Step::Claim(of(client, claim(Kind::Fair, "orders", number)))).collect();
    // Each step is a request of its own, as in a burst of calls.
    let requests = join_all(steps.iter().map(|step| ours.apply(std::slice::from_ref(step)))).await;
    for (at, answers) in requests.into_iter().enumerate() {
        match &answers[0] {
            Ok(Answer::Claimed(Verdict::Granted { .. })) if at == 0 => {}
            Ok(Answer::Claimed(Verdict::Busy { ahead, .. })) if at > 0 => {
                assert_eq!(*ahead, u32::try_from(at - 1).ok(), "claim {at}");
            }
            other => panic!("claim {at}: {other:?}"),
        }
    }
    assert_eq!(nodes(&java, "orders").await.len(), steps.len());
}

/// The renewal takes longer than the claim, because it deletes permits one by one.
// Promise: Z6
#[tokio::test]
async fn a_claim_that_gets_a_new_node_during_a_renewal_keeps_the_node() {
    let server = ZooKeeperServer::start();
    let (ours, theirs, java) = (backend(server.addr()), backend(server.addr()), neighbour(&server).await);
    let many = NonZeroU32::new(20).unwrap();
    let permits = claim(Kind::Permits { take: many, of: many }, "gpus", 1);
    let place = claim(Kind::Fair, "orders", 2);
    granted(&theirs, &claim(Kind::Mutex, "orders", 3)).await;
    granted(&ours, &permits).await;
    refused(&ours, &place).await;
    // The nodes of the place and of the permits are deleted.
    let mut queue = nodes(&java, "orders").await;
    queue.sort_by_key(|node| node[node.len() - 10..].to_owned());
    java.delete(&format!("/locks/orders/{}", queue[1]), None).await.unwrap();
    for lease in java.list_children("/locks/gpus/leases").await.unwrap() {
        java.delete(&format!("/locks/gpus/leases/{lease}"), None).await.unwrap();
    }
    let both = [place.clone(), permits];
    let (renewals, verdict) = tokio::join!(ours.renew(&both), apply(&ours, &place));
    assert!(renewals.iter().all(|renewal| matches!(renewal, Ok(Renewal::Gone))), "{renewals:?}");
    assert!(matches!(verdict, Verdict::Busy { .. }), "{verdict:?}");
    assert_eq!(nodes(&java, "orders").await.len(), 2);
    let released = ours.apply(&[Step::Release(place)]).await.remove(0).unwrap();
    assert!(matches!(released, Answer::Released(Released::LeftQueue)), "{released:?}");
    assert_eq!(nodes(&java, "orders").await.len(), 1);
}

/// Half of the calls wait to the end. The others are dropped or time out while they wait.
// Promise: Z6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_calls_leaves_no_node() {
    let calls = env::var(CALLS).map_or(FEW, |calls| calls.parse().unwrap());
    let server = ZooKeeperServer::start();
    let java = neighbour(&server).await;
    let ours: Vec<_> = (0..3).map(|_| patient_client(&server)).collect();
    let (began, (first_turn, first)) = (Instant::now(), oneshot::channel());
    let (mut set, mut dropped) = (JoinSet::new(), Vec::new());
    for number in 0..calls {
        if number % PORTION == 0 {
            // A call fails if its first request has no answer for long. Each answer names all nodes.
            for client in &ours {
                connected(client).await;
            }
        }
        let mutex = ours[number % ours.len()].mutex("orders");
        let mutex = if number % 5 == 0 { mutex } else { mutex.fair() };
        // A different time for each call, in no order.
        let time = PER_CALL * u32::try_from(number * 7919 % calls).unwrap();
        match number % 4 {
            0 => {
                let handle = set.spawn(async move { Some(mutex.lock().await.unwrap()) });
                dropped.push((began + time, handle));
            }
            1 => drop(set.spawn(async move {
                match mutex.try_lock_for(time).await {
                    Ok(guard) => guard,
                    // The time is shorter than a round trip.
                    Err(error) if error.kind() == ErrorKind::Unavailable => None,
                    Err(error) => panic!("{error}"),
                }
            })),
            _ => drop(set.spawn(async move { Some(mutex.lock().await.unwrap()) })),
        }
    }
    dropped.sort_by_key(|(time, _)| *time);
    // The first turn ends after all drops.
    let drops = async {
        for (time, handle) in dropped {
            sleep_until(time.into()).await;
            handle.abort();
        }
        let guard: Guard = first.await.unwrap();
        guard.release().await.unwrap();
    };
    let turns = async {
        let (mut served, mut first_turn) = (0, Some(first_turn));
        while let Some(ended) = set.join_next().await {
            match ended {
                Ok(Some(guard)) => {
                    served += 1;
                    match first_turn.take() {
                        Some(first_turn) => first_turn.send(guard).unwrap(),
                        None => guard.release().await.unwrap(),
                    }
                }
                Ok(None) => {}
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
        }
        served
    };
    let at_most = SOON + PER_CALL * u32::try_from(calls).unwrap() * 2;
    let ((), served) = timeout(at_most, async { tokio::join!(drops, turns) }).await.expect("the calls are not served");
    assert!(served >= calls / 2, "{served} of {calls} calls had a turn");
    // The clients are open, and so are their sessions.
    eventually_async(SOON, async || {
        let left = nodes(&java, "orders").await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    for client in ours {
        soon(client.mutex("orders").try_lock()).await.unwrap().expect("the lock is free").release().await.unwrap();
        soon(client.close()).await.unwrap();
    }
}

/// A client whose requests can take long, because each answer names all nodes.
fn patient_client(server: &ZooKeeperServer) -> Client {
    let url = format!("zookeeper://{}/locks?session={}s", server.addr(), SOON.as_secs());
    let backend = ZooKeeper::new(ZooKeeperOptions::from_url(&url).unwrap().timeout(SOON / 2));
    Client::options().over(backend).unwrap()
}

fn of(client: ClientId, mut claim: Claim) -> Claim {
    claim.id.client = client;
    claim
}
