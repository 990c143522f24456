//! The setup of each test: a Redis server, a JVM with Redisson, and a client of bandog.

use std::time::{Duration, Instant};

use bandog::{Client, ConnectOptions, Guard, Mutex};
use bandog_testkit::{RedisServer, Reply, eventually};
use tokio::task::JoinHandle;

use crate::java::{Java, SOON};

/// The default ttl of Redisson and of bandog. If a waiter gets the lock much sooner, it was notified, because neither
/// side polls within this time.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Maximum median time of a hand-over. A notification takes much less, even on a busy machine, and polling would take
/// much longer.
pub(crate) const PROMPT: Duration = Duration::from_millis(100);

pub(crate) struct Rig {
    pub(crate) server: RedisServer,
    pub(crate) java: Java,
    pub(crate) ours: Client,
}

impl Rig {
    /// Starts both sides with the same ttl.
    pub(crate) async fn start(ttl: Duration) -> Self {
        let server = RedisServer::start();
        let java = Java::start(&server, ttl);
        let ours = connect(&server, ttl).await;
        Self { server, java, ours }
    }

    /// Starts a waiter for the lock on the Rust side, and returns when the waiter has subscribed.
    pub(crate) fn ours_waits(&self, name: &str) -> JoinHandle<(Guard, Instant)> {
        let before = self.subscribers(name);
        let waiting = waiting(self.ours.mutex(name));
        eventually(SOON, || self.subscribers(name) > before);
        waiting
    }

    /// Number of connections that are subscribed to the lock's channel.
    pub(crate) fn subscribers(&self, name: &str) -> i64 {
        match self.server.cmd(&["PUBSUB", "NUMSUB", &channel(name)]).array() {
            [_, Reply::Int(count)] => *count,
            other => panic!("PUBSUB NUMSUB said {other:?}"),
        }
    }

    /// The owner of the lock: the only field of its hash.
    pub(crate) fn owner(&self, name: &str) -> Option<String> {
        self.server.hash(name).into_keys().next()
    }
}

pub(crate) async fn connect(server: &RedisServer, ttl: Duration) -> Client {
    let options = ConnectOptions::parse(server.url()).expect("a URL");
    options.watchdog(ttl).connect().await.expect("the server answers")
}

/// Starts a task that waits for the lock. It returns the guard and the time of the grant.
fn waiting(mutex: Mutex) -> JoinHandle<(Guard, Instant)> {
    tokio::spawn(async move { (mutex.lock().await.expect("granted"), Instant::now()) })
}

/// Redisson's name for the channel of the notifications of releases.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{}", tagged(name))
}

/// Redisson's name for the key of the fencing token.
pub(crate) fn token(name: &str) -> String {
    format!("redisson_lock_token:{}", tagged(name))
}

/// The name with a hash tag of Redis.
fn tagged(name: &str) -> String {
    if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") }
}

/// Prints the median and the longest of these times.
pub(crate) fn show(what: &str, times: &mut [Duration]) {
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (middle, last) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{what}: median {:.1} ms, longest {:.1} ms of {}", ms(middle), ms(last), times.len());
}

/// The median of these times.
pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
