//! Java and Rust sell from one stock on a real Redis, and one of them is killed.

use std::fs;
use std::process::Command;
use std::time::Duration;

use bandog_testkit::{Process, RedisServer, eventually};

/// Timeout for expected events. A test reaches it only if it fails.
const SOON: Duration = Duration::from_secs(120);
/// Number of apples, so that both sellers are at work for some time.
const STOCK: usize = 600;

/// The seller in Rust.
fn rust(server: &RedisServer) -> Process {
    seller(Command::new(env!("CARGO_BIN_EXE_bandog-example-redisson-neighbour")).arg(server.url()))
}

/// The seller in Java, which Maven has built.
fn java(server: &RedisServer) -> Process {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/java/target");
    let jars = fs::read_to_string(format!("{built}/classpath"));
    let jars = jars.unwrap_or_else(|error| panic!("no Java side ({error}); `cargo xtask interop` builds it"));
    let mut java = Command::new("java");
    java.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]);
    seller(java.args([&format!("{built}/classes:{}", jars.trim()), "shop.Seller", &server.url()]))
}

fn seller(command: &mut Command) -> Process {
    let process = Process::spawn(command);
    process.stdout_line("ready", SOON);
    process
}

/// The number of apples that a process has sold.
fn sold(process: &Process) -> usize {
    process.stdout().iter().filter(|line| line.contains("has sold an apple")).count()
}

fn open(server: &RedisServer) {
    server.cmd(&["HSET", "stock", "apple", &STOCK.to_string()]);
}

fn check_empty(server: &RedisServer) {
    assert_eq!(server.cmd(&["HGET", "stock", "apple"]).text(), "0");
}

#[test]
fn java_and_rust_sell_each_apple_once() {
    let server = RedisServer::start();
    let mut sellers = [java(&server), rust(&server)];
    open(&server);
    for seller in &mut sellers {
        assert!(seller.wait(SOON).success());
    }
    let [java, rust] = sellers.map(|seller| sold(&seller));
    assert!(java > 0 && rust > 0, "only one of them has sold: {java}, {rust}");
    assert_eq!(java + rust, STOCK, "{java} by Java, {rust} by Rust");
    check_empty(&server);
}

#[test]
fn rust_goes_on_after_the_jvm_was_killed() {
    let server = RedisServer::start();
    let (java, rust) = (java(&server), rust(&server));
    after_a_death(&server, java, rust);
}

#[test]
fn java_goes_on_after_the_process_of_rust_was_killed() {
    let server = RedisServer::start();
    let (java, rust) = (java(&server), rust(&server));
    after_a_death(&server, rust, java);
}

/// Kills one of two sellers, which may have the lock. The other one sells the rest.
fn after_a_death(server: &RedisServer, mut killed: Process, mut other: Process) {
    open(server);
    eventually(SOON, || sold(&killed) > 20);
    killed.kill();
    killed.wait(SOON);
    assert!(other.wait(SOON).success());
    let all = sold(&killed) + sold(&other);
    // The killed seller may have written the number, and not yet the line.
    assert!(all == STOCK || all + 1 == STOCK, "{all} of {STOCK}");
    check_empty(server);
}
