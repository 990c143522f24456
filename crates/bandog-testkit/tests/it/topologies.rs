use std::time::{Duration, Instant};

use bandog_testkit::{RedisCluster, RedisServer, Reply, Sentinels, eventually};

use crate::SOON;

/// Timeout for a failover, which takes about two seconds on an idle machine.
const FAILOVER: Duration = Duration::from_secs(20);

#[test]
fn a_replica_copies_its_master_and_refuses_writes() {
    let master = RedisServer::start_with(&["--requirepass", "bone"]);
    let replica = RedisServer::replica_of(&master);
    let mut client = master.client();
    client.cmd(&["SET", "k", "v"]).unwrap();
    assert_eq!(client.cmd(&["WAIT", "1", "5000"]).unwrap().int(), 1);
    assert_eq!(replica.cmd(&["GET", "k"]).text(), "v");
    assert!(matches!(replica.cmd(&["SET", "k", "w"]), Reply::Error(text) if text.starts_with("READONLY")));
}

#[test]
fn the_stream_of_a_replica_can_be_delayed_and_stalled_and_lost() {
    let master = RedisServer::start();
    let replica = RedisServer::replica_of(&master);
    replica.stream().delay_replies(Duration::from_millis(300));
    let start = Instant::now();
    master.cmd(&["SET", "k", "v"]);
    assert!(replica.cmd(&["GET", "k"]).is_nil());
    eventually(SOON, || !replica.cmd(&["GET", "k"]).is_nil());
    assert!(start.elapsed() >= Duration::from_millis(300));
    replica.stream().stall(true);
    let mut client = master.client();
    client.cmd(&["SET", "late", "v"]).unwrap();
    assert_eq!(client.cmd(&["WAIT", "1", "50"]).unwrap().int(), 0);
    replica.stream().stall(false);
    replica.wait_until_equal(&master);
    // The replica has not got the last write when the machine of the master fails.
    master.cmd(&["SET", "lost", "v"]);
    replica.stream().refuse(true);
    replica.stream().lose_everything();
    master.kill();
    replica.cmd(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(replica.keys(), ["k", "late"]);
}

#[test]
fn sentinels_promote_a_replica_when_asked_and_when_the_master_is_killed() {
    let master = RedisServer::start();
    let replica = RedisServer::replica_of(&master);
    let start = Instant::now();
    let sentinels = Sentinels::start(3, &master, "orders");
    println!("three sentinels were ready after {:?}", start.elapsed());
    assert_eq!(sentinels.master(), master.addr());
    assert_eq!(sentinels.failover(), replica.addr());
    assert_eq!(replica.info("replication", "role"), "master");
    eventually(FAILOVER, || master.info("replication", "master_link_status") == "up");
    replica.kill();
    assert_eq!(sentinels.wait_for_failover(replica.addr()), master.addr());
}

#[test]
fn a_lost_machine_is_silent_and_is_replaced() {
    let master = RedisServer::start_on_machine(&[]);
    let replica = RedisServer::replica_of(&master);
    let sentinels = Sentinels::start(3, &master, "orders");
    let mut client = bandog_testkit::RawRedis::connect(master.outer_addr()).unwrap();
    assert_eq!(client.cmd(&["PING"]).unwrap().text(), "PONG");
    master.lose_machine();
    client.set_patience(Duration::from_millis(50)).unwrap();
    let silence = client.cmd(&["PING"]).unwrap_err();
    assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(sentinels.wait_for_failover(master.outer_addr()), replica.outer_addr());
}

#[test]
fn sentinels_with_a_password_know_each_other() {
    let master = RedisServer::start_with(&["--requirepass", "bone"]);
    let replica = RedisServer::replica_of(&master);
    let sentinels = Sentinels::start_with(2, &master, "orders", &["--requirepass", "watch"]);
    let mut stranger = bandog_testkit::RawRedis::connect(sentinels[0].addr()).unwrap();
    assert!(
        matches!(stranger.cmd(&["SENTINEL", "MASTERS"]).unwrap(), Reply::Error(text) if text.starts_with("NOAUTH"))
    );
    assert_eq!(sentinels.failover(), replica.addr());
    sentinels[0].restart();
    assert_eq!(sentinels.master(), replica.addr());
}

#[test]
fn a_cluster_serves_all_slots_and_replaces_a_killed_master() {
    let start = Instant::now();
    let cluster = RedisCluster::start(3, 1);
    println!("six nodes were ready after {:?}", start.elapsed());
    assert_eq!(cluster.len(), 6);
    for key in ["a", "b", "c", "d"] {
        let slot = cluster.slot(key);
        assert_eq!(cluster.master_of(slot).cmd(&["SET", key, "v"]).text(), "OK");
    }
    let slot = cluster.slot("a");
    let killed = cluster.master_of(slot);
    killed.kill();
    eventually(FAILOVER, || cluster.master_of(slot).port() != killed.port());
    eventually(FAILOVER, || cluster.is_ok());
}
