use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use bandog_testkit::{RedisServer, Reply, eventually, is_alive};

use crate::SOON;

#[test]
fn a_server_answers_raw_commands() {
    let redis = RedisServer::start();
    assert_eq!(redis.cmd(&["SET", "k", "v", "PX", "60000"]).text(), "OK");
    assert_eq!(redis.cmd(&["GET", "k"]).text(), "v");
    assert!(redis.cmd(&["GET", "none"]).is_nil());
    assert_eq!(redis.cmd(&["HSET", "h", "a", "1", "b", "2"]).int(), 2);
    assert_eq!(redis.hash("h")["b"], "2");
    assert_eq!(redis.keys(), ["h", "k"]);
    assert!((1..=60_000).contains(&redis.pttl("k")));
    assert_eq!(redis.calls("get"), 2);
    assert!(matches!(redis.cmd(&["NONSENSE"]), Reply::Error(_)));
}

#[test]
fn a_server_with_a_password_answers_the_testkit_and_refuses_other_clients() {
    let redis = RedisServer::start_with(&["--requirepass", "bone"]);
    assert_eq!(redis.cmd(&["PING"]).text(), "PONG");
    let mut other_client = bandog_testkit::RawRedis::connect(redis.addr()).unwrap();
    let refusal = other_client.cmd(&["PING"]).unwrap();
    assert!(matches!(refusal, Reply::Error(text) if text.starts_with("NOAUTH")));
}

#[test]
fn pushed_messages_can_be_read() {
    let redis = RedisServer::start();
    let mut subscriber = redis.client();
    subscriber.cmd(&["SUBSCRIBE", "c"]).unwrap();
    redis.cmd(&["PUBLISH", "c", "woof"]);
    assert_eq!(subscriber.read().unwrap().texts(), ["message", "c", "woof"]);
}

#[test]
fn a_killed_server_refuses_connections_and_a_restarted_server_is_empty() {
    let redis = RedisServer::start();
    let (port, pid) = (redis.port(), redis.pid());
    redis.cmd(&["SET", "k", "v"]);
    redis.kill();
    assert!(!is_alive(pid));
    let refusal = TcpStream::connect(redis.addr()).unwrap_err();
    assert_eq!(refusal.kind(), io::ErrorKind::ConnectionRefused);
    redis.restart();
    assert_eq!(redis.port(), port);
    assert!(redis.keys().is_empty());
}

#[test]
fn a_paused_server_answers_after_it_is_resumed() {
    let redis = RedisServer::start();
    let mut client = redis.client();
    redis.pause();
    client.set_patience(Duration::from_millis(20)).unwrap();
    client.cmd(&["PING"]).unwrap_err();
    redis.resume();
    client.set_patience(SOON).unwrap();
    assert_eq!(client.read().unwrap().text(), "PONG");
}

#[test]
fn flush_scripts_deletes_all_scripts() {
    let redis = RedisServer::start();
    let sha = redis.cmd(&["SCRIPT", "LOAD", "return 1"]).text().to_owned();
    assert_eq!(redis.cmd(&["EVALSHA", &sha, "0"]).int(), 1);
    redis.flush_scripts();
    let refusal = redis.cmd(&["EVALSHA", &sha, "0"]);
    assert!(matches!(refusal, Reply::Error(text) if text.starts_with("NOSCRIPT")));
}

#[test]
fn kill_clients_closes_the_connections_of_all_clients() {
    let redis = RedisServer::start();
    let (mut client, mut subscriber) = (redis.client(), redis.client());
    subscriber.cmd(&["SUBSCRIBE", "c"]).unwrap();
    client.cmd(&["PING"]).unwrap();
    redis.kill_clients();
    client.cmd(&["PING"]).unwrap_err();
    subscriber.read().unwrap_err();
}

#[test]
fn dropping_a_paused_server_kills_it() {
    let redis = RedisServer::start();
    let pid = redis.pid();
    redis.pause();
    drop(redis);
    assert!(!is_alive(pid));
}

#[test]
fn servers_that_start_together_have_different_ports() {
    let start = Instant::now();
    let starters: Vec<_> = (0..8).map(|_| thread::spawn(RedisServer::start)).collect();
    let servers: Vec<_> = starters.into_iter().map(|one| one.join().unwrap()).collect();
    let mut ports: Vec<_> = servers.iter().map(RedisServer::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 8);
    println!("eight servers were ready after {:?}", start.elapsed());
}

#[test]
#[should_panic(expected = "Bad directive or wrong number of arguments")]
fn the_panic_of_a_server_that_cannot_start_contains_its_log() {
    let _ = RedisServer::start_with(&["--no-such-option", "1"]);
}

#[test]
fn no_other_server_gets_the_port_of_a_killed_server() {
    let redis = RedisServer::start();
    redis.kill();
    let others = [(); 3].map(|()| RedisServer::start());
    assert!(others.iter().all(|other| other.port() != redis.port()));
    redis.restart();
    eventually(SOON, || redis.cmd(&["PING"]).text() == "PONG");
}
