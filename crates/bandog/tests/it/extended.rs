//! Fixed leases that are extended, on real servers.
#![cfg(feature = "redis")]

use std::time::Duration;

use bandog::{Client, ErrorKind, Guard, SharedHold};
use bandog_testkit::{RedisCluster, RedisServer};

const LEASE: Duration = Duration::from_secs(5);
const EXTENDED: Duration = Duration::from_secs(600);

/// A guard of each kind of lock.
async fn leased(client: &Client) -> Vec<Guard<SharedHold>> {
    vec![
        client.mutex("mutex").lease(LEASE).lock().await.unwrap().into(),
        client.mutex("fair").fair().lease(LEASE).lock().await.unwrap().into(),
        client.rwlock("read").lease(LEASE).read().await.unwrap(),
        client.rwlock("write").lease(LEASE).write().await.unwrap().into(),
        client.semaphore("permits", 5).permits(2).lease(LEASE).acquire().await.unwrap(),
    ]
}

/// The store and the guard have the new end; a shorter time changes nothing; a lock that was taken away is lost.
async fn extends(url: &str) {
    let client = bandog::connect(url).await.unwrap();
    for guard in leased(&client).await {
        let name = guard.key().to_owned();
        for ttl in [EXTENDED, LEASE] {
            guard.extend(ttl).await.unwrap();
            assert!(guard.remaining() > EXTENDED / 2, "{name} on {url}: {:?}", guard.remaining());
            let row = client.show(&name).await.unwrap();
            assert!(row.holders[0].ttl.unwrap() > EXTENDED / 2, "{name} on {url}: {row:?}");
        }
        bandog::connect(url).await.unwrap().evict(&name).await.unwrap();
        assert_eq!(guard.extend(EXTENDED).await.unwrap_err().kind(), ErrorKind::Lost, "{name} on {url}");
        assert!(guard.is_lost());
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_lease_is_extended_on_redis_and_on_a_cluster() {
    let (server, cluster) = (RedisServer::start(), RedisCluster::start(3, 0));
    extends(&server.url()).await;
    extends(&cluster.url()).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_lease_is_extended_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    extends(&format!("sqlite:{}", directory.path().join("locks.db").display())).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_lease_is_extended_on_postgres() {
    let server = bandog_testkit::PostgresServer::start();
    let user = bandog_testkit::PostgresServer::LOCKS;
    extends(&format!("postgres://{user}@127.0.0.1:{}/{}", server.port(), server.new_database())).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn a_lease_is_extended_on_mariadb() {
    let server = bandog_testkit::MariaDbServer::start();
    let user = bandog_testkit::MariaDbServer::LOCKS;
    extends(&format!("mysql://{user}@127.0.0.1:{}/{}", server.port(), server.new_database())).await;
}

/// Holds are nodes of a session, so the client keeps the session until the end of the lease.
#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn a_lease_is_extended_on_zookeeper() {
    let server = bandog_testkit::ZooKeeperServer::start();
    let client = bandog::connect(format!("zookeeper://{}/locks?session=3s", server.addr())).await.unwrap();
    let guards = leased(&client).await;
    for guard in &guards {
        guard.extend(EXTENDED).await.unwrap();
    }
    tokio::time::sleep(LEASE).await;
    assert!(guards.iter().all(|guard| !guard.is_lost()));
}
