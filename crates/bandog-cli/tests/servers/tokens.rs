//! Locks that pass from one command to another by their tokens, over servers.

use bandog_testkit::{PostgresServer, RedisCluster, RedisServer, ZooKeeperServer};

use crate::{help::Place, mysql, postgres, token};

// Promise: L30
#[test]
fn a_token_releases_a_lock_on_redis() {
    let redis = RedisServer::start();
    token::is_passed_on(&Place::new(), &["--url", &redis.url()]);
}

// Promise: L30
#[test]
fn a_token_releases_a_lock_on_a_cluster() {
    let cluster = RedisCluster::start(3, 0);
    token::is_passed_on(&Place::new(), &["--url", &cluster.url()]);
}

// Promise: L30
#[test]
fn a_token_releases_a_lock_on_postgres() {
    token::is_passed_on(&Place::new(), &["--url", &postgres::url()]);
}

// Promise: L30
#[test]
fn a_token_releases_a_lock_on_mariadb() {
    token::is_passed_on(&Place::new(), &["--url", &mysql::url()]);
}

/// A hold is a node of the session, which ends with the command.
// Promise: L30
#[test]
fn zookeeper_keeps_no_lock_without_its_client() {
    let (server, place) = (ZooKeeperServer::start(), Place::new());
    let url = format!("zookeeper://{}/locks", server.addr());
    let refused = place.run(&["acquire", "x", "--lease", "1h", "--url", &url]);
    refused.assert_ended(64, &["only while its client is connected", "use `bandog lock`"]);
    assert_eq!(place.show("x", &["--url", &url])["held"], false);
}

/// A row of ShedLock's table outlives the client, too.
#[test]
fn a_token_releases_a_lock_in_the_table_of_shedlock() {
    let (server, place) = (PostgresServer::start(), Place::new());
    let database = server.new_database();
    server.sql(
        &database,
        "create table public.shedlock (name text primary key, lock_until timestamp not null, locked_at timestamp not null,
         locked_by varchar(255) not null); grant all on public.shedlock to public",
    );
    let url = format!("postgres://{}@127.0.0.1:{}/{database}?layout=shedlock", PostgresServer::LOCKS, server.port());
    let store = ["--url", url.as_str()];
    let token = token::acquire(&place, "x", &store);
    let lock = [&["lock", "x", "--wait", "0s"][..], &store, &["--", "true"]].concat();
    place.run(&lock).assert_ended(75, &["\"x\""]);
    place.run(&[&["extend", "x", "--lease", "2h", "--token", &token][..], &store].concat()).assert_ended(0, &[]);
    place.run(&[&["release", "x", "--token", &token][..], &store].concat()).assert_ended(0, &[]);
    place.run(&lock).assert_ended(0, &[]);
    place.run(&[&["release", "x", "--token", &token][..], &store].concat()).assert_ended(75, &["does not hold"]);
}
