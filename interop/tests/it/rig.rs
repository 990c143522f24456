//! A Redis, a JVM and a client of ours.

use std::time::{Duration, Instant};

use bandog::{Client, ConnectOptions, Guard, Mutex};
use bandog_testkit::{RedisServer, Reply, eventually};
use tokio::task::JoinHandle;

use crate::java::{Java, SOON};

/// Redisson's default and ours. What is served much sooner was told, since neither side polls by then.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Well above what a bell takes on a busy machine, well below what a look at the clock would take.
pub(crate) const PROMPT: Duration = Duration::from_millis(100);

pub(crate) struct Rig {
    pub(crate) server: RedisServer,
    pub(crate) java: Java,
    pub(crate) ours: Client,
}

impl Rig {
    /// Both sides with the same ttl.
    pub(crate) async fn start(ttl: Duration) -> Self {
        let server = RedisServer::start();
        let java = Java::start(&server, ttl);
        let ours = connect(&server, ttl).await;
        Self { server, java, ours }
    }

    /// Begins to wait for the lock from our side, and returns when its bell is connected.
    pub(crate) fn ours_waits(&self, name: &str) -> JoinHandle<(Guard, Instant)> {
        let before = self.listeners(name);
        let waiting = waiting(self.ours.mutex(name));
        eventually(SOON, || self.listeners(name) > before);
        waiting
    }

    /// How many connections listen to the lock's channel.
    pub(crate) fn listeners(&self, name: &str) -> i64 {
        match self.server.cmd(&["PUBSUB", "NUMSUB", &channel(name)]).array() {
            [_, Reply::Int(count)] => *count,
            other => panic!("PUBSUB NUMSUB said {other:?}"),
        }
    }

    /// The one field of the lock's hash: who holds it.
    pub(crate) fn owner(&self, name: &str) -> Option<String> {
        self.server.hash(name).into_keys().next()
    }
}

pub(crate) async fn connect(server: &RedisServer, ttl: Duration) -> Client {
    let options = ConnectOptions::parse(server.url()).expect("a URL");
    options.watchdog(ttl).connect().await.expect("the server answers")
}

fn waiting(mutex: Mutex) -> JoinHandle<(Guard, Instant)> {
    tokio::spawn(async move { (mutex.lock().await.expect("granted"), Instant::now()) })
}

/// Redisson's name for the channel on which a release is told.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{}", tagged(name))
}

/// Redisson's name for the key of the fencing token.
pub(crate) fn token(name: &str) -> String {
    format!("redisson_lock_token:{}", tagged(name))
}

fn tagged(name: &str) -> String {
    if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") }
}

/// Prints times; the run shows them at its end.
pub(crate) fn show(what: &str, times: &mut [Duration]) {
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (middle, last) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{what}: median {:.1} ms, longest {:.1} ms of {}", ms(middle), ms(last), times.len());
}

/// The middle of some times.
pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
