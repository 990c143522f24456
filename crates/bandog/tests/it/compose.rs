//! Several locks at once, elections and barriers over real stores.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bandog::{Client, ErrorKind, Leader, Observer, all, connect};
use bandog_testkit::eventually_async;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(30);
/// Maximum time until a notification arrives. Without notifications, the polls need up to a second. The test repeats the
/// measurement, because a loaded machine can be slow once.
const PROMPT: Duration = Duration::from_millis(300);

/// Awaits a future, and fails if it takes too long.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("a call took too long")
}

/// The text of the next leader, and the time until it was reported.
async fn changed(observer: &mut Observer) -> (Option<String>, Duration) {
    let start = Instant::now();
    let leader = soon(observer.changed()).await.unwrap();
    (leader.as_ref().map(Leader::text).map(ToOwned::to_owned), start.elapsed())
}

/// Several tasks of two clients take pairs of locks in opposite orders.
async fn opposite_orders(clients: [&Client; 2], other_store: [&Client; 2]) {
    let holders = Arc::new(AtomicUsize::new(0));
    let workers = (0..4).map(|worker| {
        let (near, far) = (clients[worker % 2], other_store[worker % 2]);
        let mut locks = vec![near.mutex("a"), near.mutex("b"), far.mutex("c")];
        locks.rotate_left(worker % 3);
        let holders = Arc::clone(&holders);
        tokio::spawn(async move {
            for _ in 0..20 {
                let guard = soon(all(&locks).lock()).await.unwrap();
                assert_eq!(holders.fetch_add(1, SeqCst), 0);
                tokio::task::yield_now().await;
                holders.fetch_sub(1, SeqCst);
                guard.release().await.unwrap();
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let guard = soon(all([clients[0].mutex("a"), clients[0].mutex("b")]).lock()).await.unwrap();
    assert!(all([clients[1].mutex("c"), clients[1].mutex("b")]).try_lock().await.unwrap().is_none());
    clients[1].evict("b").await.unwrap().unwrap();
    soon(guard.lost()).await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    eventually_async(SOON, async || !clients[1].show("a").await.unwrap().is_held()).await;
}

async fn leaders_follow_each_other(clients: [&Client; 2]) {
    let mut observer = clients[1].election("billing").observe();
    assert_eq!(changed(&mut observer).await.0, None);
    let mut prompt = 0;
    let mut present = soon(clients[0].election("billing").candidate("0").campaign()).await.unwrap();
    assert_eq!(changed(&mut observer).await.0.as_deref(), Some("0"));
    for round in 1..6 {
        let election = clients[round % 2].election("billing").candidate(round.to_string());
        let next = tokio::spawn(async move { soon(election.campaign()).await.unwrap() });
        let fence = present.fence();
        if round % 2 == 0 {
            drop(present)
        } else {
            present.resign().await.unwrap()
        }
        let start = Instant::now();
        let mut seen = changed(&mut observer).await.0;
        if seen.is_none() {
            seen = changed(&mut observer).await.0;
        }
        assert_eq!(seen, Some(round.to_string()));
        prompt += usize::from(start.elapsed() < PROMPT);
        present = next.await.unwrap();
        assert!(present.fence() > fence);
    }
    assert!(prompt >= 3, "only {prompt} of 5 changes were notified");
    // A deposed leader: its mutex is taken away, and the next leader is elected.
    clients[0].evict("election/billing").await.unwrap().unwrap();
    let next = soon(clients[0].election("billing").candidate("next").campaign()).await.unwrap();
    soon(present.lost()).await;
    assert_eq!(present.resign().await.unwrap_err().kind(), ErrorKind::Lost);
    let leader = clients[1].election("billing").leader().await.unwrap().unwrap();
    assert_eq!((leader.text(), leader.fence()), ("next", next.fence()));
    next.resign().await.unwrap();
    assert_eq!(clients[0].election("billing").leader().await.unwrap(), None);
}

async fn parties_meet(clients: [&Client; 2]) {
    const PHASES: usize = 20;
    let (done, leaders): (Arc<[AtomicUsize; PHASES]>, Arc<[AtomicUsize; PHASES]>) = Default::default();
    let start = Instant::now();
    let parties = (0..4).map(|party| {
        let barrier = clients[party % 2].barrier("phase", 4);
        let (done, leaders) = (Arc::clone(&done), Arc::clone(&leaders));
        tokio::spawn(async move {
            for phase in 0..PHASES {
                done[phase].fetch_add(1, SeqCst);
                let arrival = soon(barrier.wait()).await.unwrap();
                leaders[phase].fetch_add(usize::from(arrival.is_leader()), SeqCst);
                assert_eq!(done[phase].load(SeqCst), 4);
            }
        })
    });
    for party in parties.collect::<Vec<_>>() {
        party.await.unwrap();
    }
    assert!(leaders.iter().all(|leaders| leaders.load(SeqCst) == 1), "{leaders:?}");
    let took = start.elapsed();
    assert!(took < PROMPT * u32::try_from(PHASES).unwrap(), "{PHASES} phases took {took:?}, so the parties polled");
    // A party that is cancelled leaves.
    let leaving = clients[0].barrier("pair", 2);
    assert!(timeout(Duration::from_millis(200), leaving.wait()).await.is_err());
    clients[0].idle().await;
    assert!(timeout(Duration::from_millis(200), clients[1].barrier("pair", 2).wait()).await.is_err());
    clients[1].idle().await;
    let (one, two) = (clients[0].barrier("pair", 2), clients[1].barrier("pair", 2));
    let (one, two) = soon(async { tokio::join!(one.wait(), two.wait()) }).await;
    assert!(one.unwrap().is_leader() != two.unwrap().is_leader());
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_elections_and_barriers_work_on_redis() {
    let servers = [bandog_testkit::RedisServer::start(), bandog_testkit::RedisServer::start()];
    let urls = servers.each_ref().map(|server| format!("{}?prefix=shop:&watchdog=3s", server.url()));
    let [one, two] = [connect(&urls[0]).await.unwrap(), connect(&urls[0]).await.unwrap()];
    let other_store = [connect(&urls[1]).await.unwrap(), connect(&urls[1]).await.unwrap()];
    opposite_orders([&one, &two], other_store.each_ref()).await;
    leaders_follow_each_other([&one, &two]).await;
    parties_meet([&one, &two]).await;

    // The rights of docs/redis.md are enough.
    let rights = format!("redis://{}@{}", bandog_testkit::RedisServer::OPERATOR, servers[1].addr());
    let client = connect(rights).await.unwrap();
    client.election("billing").campaign().await.unwrap().resign().await.unwrap();
    assert!(client.barrier("phase", 1).wait().await.unwrap().is_leader());

    // A leader whose server dies is lost within its ttl, and an observer waits for the server.
    let leadership = one.election("billing").candidate("again").campaign().await.unwrap();
    let mut observer = two.election("billing").observe();
    assert_eq!(changed(&mut observer).await.0.as_deref(), Some("again"));
    servers[0].kill();
    soon(leadership.lost()).await;
    servers[0].restart();
    assert_eq!(changed(&mut observer).await.0, None, "the server has lost its data");
    drop(leadership);
    let next = soon(two.election("billing").candidate("next").campaign()).await.unwrap();
    assert_eq!(changed(&mut observer).await.0.as_deref(), Some("next"));
    next.resign().await.unwrap();
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_elections_and_barriers_work_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let urls = ["one", "two"].map(|file| format!("sqlite:{}?watchdog=3s", folder.path().join(file).display()));
    let [one, two] = [connect(&urls[0]).await.unwrap(), connect(&urls[0]).await.unwrap()];
    let other_store = [connect(&urls[1]).await.unwrap(), connect(&urls[1]).await.unwrap()];
    opposite_orders([&one, &two], other_store.each_ref()).await;
    leaders_follow_each_other([&one, &two]).await;
    parties_meet([&one, &two]).await;
}
