//! Another program, which writes keys of its own, and now and then a key of an object of ours of another type.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bandog_testkit::RawRedis;

/// Interval of its commands.
const INTERVAL: Duration = Duration::from_millis(20);
/// Number of names that it shares with the storm: those of `Kind::Strange`.
const NAMES: u8 = 4;

/// A thread that writes to these servers, until it is dropped.
#[derive(Debug)]
pub(crate) struct Stranger {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stranger {
    pub(crate) fn start(servers: Vec<SocketAddr>, seed: u64) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let has_ended = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut connections: Vec<Option<RawRedis>> = servers.iter().map(|_| None).collect();
            while !has_ended.load(Relaxed) {
                thread::sleep(INTERVAL);
                let at = random.usize(..servers.len());
                // The server is killed and stopped from time to time.
                let connection = connections[at].take().or_else(|| RawRedis::connect(servers[at]).ok());
                connections[at] =
                    connection.and_then(|mut connection| write(&mut connection, &mut random).ok().map(|()| connection));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

/// One command. An error of the server is an answer, too.
fn write(connection: &mut RawRedis, random: &mut fastrand::Rng) -> std::io::Result<()> {
    let name = match random.u8(..4) {
        0 => format!("other:{}", random.u8(..)),
        _ => format!("storm:strange.{}", random.u8(..NAMES)),
    };
    let command: &[&str] = match random.u8(..9) {
        0 => &["SET", &name, "x"],
        1 => &["RPUSH", &name, "x"],
        2 => &["HSET", &name, "7", "x"],
        3 => &["ZADD", &name, "1", "x"],
        4 => &["SADD", &name, "x"],
        5 => &["PEXPIRE", &name, "20"],
        _ => &["DEL", &name],
    };
    connection.cmd(command).map(drop)
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
