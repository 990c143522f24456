//! A process for a test that kills it, and then checks that its children have died, too.
//!
//! It starts the children from a thread that then ends, like the thread of a test.

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
