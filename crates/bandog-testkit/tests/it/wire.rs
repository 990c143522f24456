use std::io;
use std::net::TcpStream;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use bandog_testkit::{RawRedis, RedisServer, Wire, eventually};

use crate::SOON;

/// Connects to the server through the proxy.
fn dial(wire: &Wire) -> RawRedis {
    let mut client = RawRedis::connect(wire.addr()).unwrap();
    assert_eq!(client.cmd(&["PING"]).unwrap().text(), "PONG");
    client
}

/// The durations of this number of round trips, sorted.
fn round_trips(client: &mut RawRedis, times: usize) -> Vec<Duration> {
    let mut took: Vec<_> = (0..times)
        .map(|_| {
            let start = Instant::now();
            client.cmd(&["PING"]).unwrap();
            start.elapsed()
        })
        .collect();
    took.sort();
    took
}

/// Asserts that no data comes. The timeout is short, because a test that passes always waits until the timeout.
fn says_nothing(client: &mut RawRedis) {
    client.set_patience(Duration::from_millis(30)).unwrap();
    let error = client.read().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
    client.set_patience(SOON).unwrap();
}

#[test]
fn a_wire_without_faults_forwards_all_bytes_and_counts_connections() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    let long = "x".repeat(20 << 20); // This is more than all buffers between client and server can hold.
    client.cmd(&["SET", "k", &long]).unwrap();
    assert_eq!(client.cmd(&["GET", "k"]).unwrap().text(), long);
    let other = dial(&wire);
    assert_eq!((wire.accepted(), wire.open()), (2, 2));
    drop((client, other));
    eventually(SOON, || wire.open() == 0);
    assert_eq!(wire.lost(), 0);
}

#[test]
fn open_connections_are_stalled_while_new_ones_work() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut first = dial(&wire);
    wire.stall_open(true);
    first.send(&["SET", "k", "late"]).unwrap();
    drop(first); // The client gives up, and repeats its request.
    assert_eq!(dial(&wire).cmd(&["SET", "k", "soon"]).unwrap().text(), "OK");
    assert_eq!(redis.cmd(&["GET", "k"]).text(), "soon");
    wire.stall_open(false);
    eventually(SOON, || redis.cmd(&["GET", "k"]).text() == "late");
}

#[test]
fn a_rate_limits_all_connections_together_in_both_directions() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let (mut client, mut other) = (dial(&wire), dial(&wire));
    let long = "x".repeat(100_000);
    wire.rate(NonZeroU64::new(1_000_000));
    let start = Instant::now();
    client.send(&["SET", "k", &long]).unwrap();
    other.cmd(&["SET", "k", &long]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(190), "{:?}", start.elapsed());
    assert_eq!(client.read().unwrap().text(), "OK");
    let start = Instant::now();
    assert_eq!(client.cmd(&["GET", "k"]).unwrap().text(), long);
    assert!(start.elapsed() >= Duration::from_millis(95), "{:?}", start.elapsed());
    wire.rate(None);
    let start = Instant::now();
    redis.cmd(&["SETRANGE", "k", "20000000", "x"]);
    assert_eq!(client.cmd(&["GET", "k"]).unwrap().text().len(), 20_000_001);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}: it needs 20 s with the limit", start.elapsed());
}

#[test]
fn a_wire_without_faults_adds_less_than_half_a_millisecond() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let direct = round_trips(&mut redis.client(), 500)[250];
    let through = round_trips(&mut dial(&wire), 500)[250];
    println!("median round trip: direct {direct:?}, through the wire {through:?}");
    assert!(through < direct + Duration::from_micros(500));
}

#[test]
fn a_delay_is_exact_to_half_a_millisecond() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    wire.delay(Duration::from_millis(4));
    let took = round_trips(&mut client, 200);
    println!("round trip at 4 ms each way: {:?} {:?} {:?}", took[0], took[100], took[199]);
    assert!(took[0] >= Duration::from_millis(8));
    // Only the fastest round trip is checked, because a busy machine can slow the other round trips down.
    assert!(took[0] < Duration::from_micros(8500));
}

#[test]
fn delayed_bytes_keep_their_order_and_delays_do_not_add_up() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    wire.delay(Duration::from_millis(50));
    let start = Instant::now();
    for i in 0..20 {
        client.send(&["ECHO", &i.to_string()]).unwrap();
        thread::sleep(Duration::from_millis(1));
        if i == 10 {
            wire.delay(Duration::from_millis(1));
        }
    }
    for i in 0..20 {
        assert_eq!(client.read().unwrap().text(), i.to_string());
    }
    assert!(start.elapsed() < Duration::from_millis(500));
}

#[test]
fn replies_can_be_delayed_without_requests() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    wire.delay_replies(Duration::from_millis(200));
    let start = Instant::now();
    client.send(&["SET", "k", "v"]).unwrap();
    eventually(SOON, || redis.keys() == ["k"]);
    assert!(start.elapsed() < Duration::from_millis(200));
    client.read().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[test]
fn a_cut_resets_both_sides_and_new_connections_are_accepted() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    wire.cut();
    assert_eq!(wire.open(), 0);
    let error = client.read().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    dial(&wire);
    let clients = |kind| redis.cmd(&["CLIENT", "LIST", "TYPE", kind]).text().lines().count();
    eventually(SOON, || clients("normal") == 1);
}

#[test]
fn a_wire_that_refuses_connections_keeps_open_ones() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    wire.refuse(true);
    let refusal = TcpStream::connect(wire.addr()).unwrap_err();
    assert_eq!(refusal.kind(), io::ErrorKind::ConnectionRefused);
    client.cmd(&["PING"]).unwrap();
    wire.refuse(false);
    dial(&wire);
}

#[test]
fn with_dropped_replies_the_server_executes_commands() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    wire.drop_replies(true);
    client.send(&["SET", "k", "v"]).unwrap();
    eventually(SOON, || wire.lost() == "+OK\r\n".len() as u64);
    assert_eq!(redis.cmd(&["GET", "k"]).text(), "v");
    says_nothing(&mut client);
    // The connection has lost data, so it is reset. A new connection works.
    wire.drop_replies(false);
    let error = client.read().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    dial(&wire);
}

#[test]
fn with_dropped_requests_the_server_executes_nothing() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    let mut idle = dial(&wire);
    wire.drop_requests(true);
    client.send(&["SET", "k", "v"]).unwrap();
    eventually(SOON, || wire.lost() > 0);
    says_nothing(&mut client);
    assert!(redis.cmd(&["GET", "k"]).is_nil());
    wire.drop_requests(false);
    client.read().unwrap_err();
    // A connection without losses continues.
    assert_eq!(idle.cmd(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn a_stall_delays_all_data_and_loses_none() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    let leaver = dial(&wire);
    wire.stall(true);
    client.send(&["SET", "k", "v"]).unwrap();
    drop(leaver);
    let mut late = RawRedis::connect(wire.addr()).unwrap();
    late.send(&["PING"]).unwrap();
    says_nothing(&mut client);
    assert_eq!(wire.open(), 3);
    assert!(redis.cmd(&["GET", "k"]).is_nil());
    wire.stall(false);
    assert_eq!(client.read().unwrap().text(), "OK");
    assert_eq!(late.read().unwrap().text(), "PONG");
    eventually(SOON, || wire.open() == 2);
}

#[test]
fn connections_through_the_wire_fail_while_the_server_is_down() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    redis.kill();
    client.read().unwrap_err();
    RawRedis::connect(wire.addr()).unwrap().cmd(&["PING"]).unwrap_err();
    redis.restart();
    dial(&wire);
}

#[test]
fn a_connection_that_is_reset_during_a_stall_ends_after_the_stall() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    wire.stall(true);
    let broken = TcpStream::connect(wire.addr()).unwrap();
    set_socket_linger(&broken, Some(Duration::ZERO)).unwrap();
    eventually(SOON, || wire.open() == 1);
    drop(broken);
    assert_eq!(wire.open(), 1);
    wire.stall(false);
    eventually(SOON, || wire.open() == 0);
}

#[test]
fn dropping_a_wire_closes_its_connections_and_its_port() {
    let redis = RedisServer::start();
    let wire = redis.wire();
    let mut client = dial(&wire);
    let addr = wire.addr();
    drop(wire);
    client.read().unwrap_err();
    TcpStream::connect(addr).unwrap_err();
}
