//! A process that is killed, to see that what it started dies with it.
//!
//! It starts everything from a thread that ends, since that is what a test's thread does.

use std::process::Command;
use std::thread;
use std::time::Duration;

use bandog_testkit::{Process, RedisServer};

fn main() {
    let started = thread::spawn(|| {
        let mut sleeper = Command::new("sleep");
        (RedisServer::start(), Process::spawn(sleeper.arg("1000")))
    });
    let Ok((redis, process)) = started.join() else {
        return;
    };
    println!("started {} {}", redis.pid(), process.pid());
    loop {
        thread::sleep(Duration::from_secs(1000));
    }
}
