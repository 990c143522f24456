//! A process that a test kills. The test then checks that the children of this process have died, too.
//!
//! The thread that starts the children ends immediately after the start, like the thread of a test.

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
