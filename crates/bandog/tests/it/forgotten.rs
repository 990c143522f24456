//! Many old names are forgotten while other clients work.

use std::time::{Duration, Instant};

use bandog::{Client, Pattern};
use bandog_testkit::{PostgresServer, RedisServer, Reply};
use tokio::sync::watch;

/// Number of old names.
const NAMES: usize = 100_000;
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);
/// Maximum time for one lock and its release, which a forget must not delay.
const PATIENCE: Duration = Duration::from_secs(20);

/// Locks and releases the names one after another until the forget has ended. Half of them are old. Returns the number.
async fn traffic(client: Client, mut ends: watch::Receiver<bool>) -> usize {
    let mut turns = 0;
    while !*ends.borrow_and_update() {
        let name = if turns % 2 == 0 { format!("live-{}", turns % 8) } else { format!("old-{}", turns * 37 % NAMES) };
        let began = Instant::now();
        let guard = client.mutex(&name).lock().await.unwrap();
        assert!(guard.fence().get() > 1_600_000_000_000_000);
        guard.release().await.unwrap();
        assert!(began.elapsed() < PATIENCE, "{name} was locked after {:?}", began.elapsed());
        turns += 1;
    }
    turns
}

async fn forgets_beside_traffic(url: &str, left: impl FnOnce() -> usize) {
    let (client, other) = (bandog::connect(url).await.unwrap(), bandog::connect(url).await.unwrap());
    let held = other.mutex("old-held").lock().await.unwrap();
    let (end, ends) = watch::channel(false);
    let traffic = tokio::spawn(traffic(other.clone(), ends));
    let forgotten = client.forget_unused(Pattern::new("old-*"), MONTH).await.unwrap();
    end.send_replace(true);
    let turns = traffic.await.unwrap();
    assert!(!held.is_lost());
    held.release().await.unwrap();
    // Names that were locked before the search has come to them stay.
    let (left, turned) = (left(), turns / 2 + 1);
    assert!(forgotten + left >= NAMES && left <= turned && forgotten <= NAMES, "{forgotten} {left} {turns}");
    assert_eq!(client.forget_unused(Pattern::new("*"), MONTH).await.unwrap(), 0);
}

// Promise: L31
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_names_are_forgotten_on_redis_beside_live_traffic() {
    let redis = RedisServer::start();
    let plant =
        "for i = 0, ARGV[1] - 1 do redis.call('set', 'redisson_lock_token:{old-' .. i .. '}', '1600000000000000') end";
    redis.cmd(&["EVAL", plant, "0", &NAMES.to_string()]);
    let count = "local n = 0 for i = 0, ARGV[1] - 1 do n = n + redis.call('exists', 'redisson_lock_token:{old-' .. i .. '}') end return n";
    let left = || match redis.cmd(&["EVAL", count, "0", &NAMES.to_string()]) {
        Reply::Int(number) => number.try_into().unwrap(),
        reply => panic!("{reply:?}"),
    };
    forgets_beside_traffic(&redis.url(), left).await;
}

// Promise: L31
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_names_are_forgotten_on_postgres_beside_live_traffic() {
    let postgres = PostgresServer::start();
    let database = postgres.new_database();
    let url = format!("postgres://{}@{}/{database}", PostgresServer::LOCKS, postgres.addr());
    bandog::connect(&url).await.unwrap().close().await.unwrap();
    let plant = "set search_path = bandog; insert into bandog_fence select 'old-' || i, 1600000000000000 from generate_series(0, 99999) i;
        insert into bandog_lease (name) select 'old-' || i from generate_series(0, 99999) i";
    postgres.sql(&database, plant);
    let count = "select count(*) from bandog.bandog_fence where name like 'old-%'";
    let left = || postgres.sql(&database, count).trim().parse().unwrap();
    forgets_beside_traffic(&url, left).await;
}
