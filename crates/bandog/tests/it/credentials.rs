//! The program gives the credentials of each connection, and they change while locks are held.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog::{ConnectOptions, Credentials, ErrorKind};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async};

const SOON: Duration = Duration::from_secs(30);

/// Holds a lock while the user is replaced by another one. `replace` makes a user, deletes the one before, and ends its
/// connections.
async fn survives(url: &str, replace: impl Fn(&str, &str)) {
    let current = Arc::new(Mutex::new(Credentials::new("nobody", "wrong")));
    let give = {
        let current = current.clone();
        move || {
            let given = current.lock().unwrap().clone();
            async { Ok::<_, io::Error>(given) }
        }
    };
    let client = ConnectOptions::parse(url).unwrap().credentials(give).connect_lazy().unwrap();
    let refused = client.mutex("orders").try_lock().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{url}: {refused}");
    assert!(refused.to_string().contains("the credentials that the program gave"), "{url}: {refused}");

    replace("till1", "one");
    *current.lock().unwrap() = Credentials::new("till1", "one");
    let take = async |name: &str| {
        let guard = client.mutex(name).try_lock_for(SOON).await?;
        guard.ok_or_else(|| bandog::Error::unavailable("the lock is busy"))
    };
    let guard = eventually_async(SOON, async || take("orders").await).await;
    replace("till2", "two");
    *current.lock().unwrap() = Credentials::new("till2", "two");
    eventually_async(SOON, async || take("other").await).await.release().await.unwrap();
    assert!(!guard.is_lost(), "{url}");
    guard.release().await.unwrap();
    client.close().await.unwrap();
}

fn replace_user<'a>(servers: impl IntoIterator<Item = &'a RedisServer>, user: &str, password: &str) {
    for server in servers {
        let rights = ["ACL", "SETUSER", user, "on", "resetpass", &format!(">{password}"), "~*", "&*", "+@all"];
        assert_eq!(server.cmd(&rights).text(), "OK");
        if user == "till2" {
            assert_eq!(server.cmd(&["ACL", "DELUSER", "till1"]).int(), 1);
        }
    }
}

#[tokio::test]
async fn a_lock_on_redis_survives_a_change_of_the_user() {
    let server = RedisServer::start();
    survives(&format!("redis://{}", server.addr()), |user, password| replace_user([&server], user, password)).await;
}

#[tokio::test]
async fn a_lock_on_a_cluster_survives_a_change_of_the_user() {
    let cluster = RedisCluster::start(3, 0);
    let nodes: Vec<_> = cluster.addrs().into_iter().map(|addr| cluster.node_at(addr.port())).collect();
    survives(&cluster.url(), |user, password| replace_user(nodes.iter().copied(), user, password)).await;
}

#[tokio::test]
async fn a_lock_on_a_quorum_survives_a_change_of_the_user() {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let hosts = servers.each_ref().map(|server| server.addr().to_string()).join(",");
    let url = format!("redis+quorum://{hosts}?max_ttl=5s&watchdog=5s");
    survives(&url, |user, password| replace_user(&servers, user, password)).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_lock_on_postgres_survives_a_change_of_the_user() {
    let server = bandog_testkit::PostgresServer::start();
    let database = server.new_database();
    survives(&format!("postgres://nobody@127.0.0.1:{}/{database}", server.port()), |user, password| {
        server.sql("postgres", &format!("create role {user} superuser login password '{password}'"));
        if user == "till2" {
            server.sql("postgres", "alter role till1 nologin");
            server.end_sessions(&database);
        }
    })
    .await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn a_lock_on_mariadb_survives_a_change_of_the_user() {
    let server = bandog_testkit::MariaDbServer::start();
    let database = server.new_database();
    survives(&format!("mysql://nobody@127.0.0.1:{}/{database}", server.port()), |user, password| {
        server.sql("mysql", &format!("create user {user}@'%' identified by '{password}'"));
        server.sql("mysql", &format!("grant all on {database}.* to {user}@'%'"));
        if user == "till2" {
            server.sql("mysql", "drop user till1@'%'");
            server.end_sessions(&database);
        }
    })
    .await;
}

/// A server of ZooKeeper knows each user of the scheme `digest`.
#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn a_user_of_zookeeper_is_the_one_that_the_program_gives() {
    let server = bandog_testkit::ZooKeeperServer::start();
    let url = |login: &str| format!("zookeeper://{login}{}/locks?acl=creator", server.addr());
    let joe = bandog::connect(url("joe:secret@")).await.unwrap();
    let held = joe.mutex("orders").lock().await.unwrap();
    let client = |give: fn() -> io::Result<Credentials>| {
        let options = ConnectOptions::parse(url("nobody:x@")).unwrap();
        options.credentials(move || std::future::ready(give())).connect_lazy().unwrap()
    };
    let stranger = client(|| Ok(Credentials::password("secret")));
    assert_eq!(stranger.mutex("orders").try_lock().await.unwrap_err().kind(), ErrorKind::Denied);
    let same = client(|| Ok(Credentials::new("joe", "secret")));
    assert!(same.mutex("orders").try_lock().await.unwrap().is_none());
    let failing = client(|| Err(io::Error::other("no token")));
    let refused = failing.mutex("orders").try_lock().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let text = refused.to_string();
    assert!(text.contains("the program's function for credentials failed") && text.contains("no token"), "{text}");
    held.release().await.unwrap();
}
