//! The setup of each test: a Redis server, a JVM with Redisson, and a client of bandog.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bandog::{Client, ConnectOptions, Guard, Mutex};
use bandog_testkit::{RedisServer, Reply, eventually};
use tokio::task::JoinHandle;

use crate::{
    neighbour::{Neighbour, PendingAnswer, Program, SOON},
    stage::Actors,
};

/// The default ttl of Redisson and of bandog. If a waiter gets the lock much sooner, it was notified, because neither
/// side polls within this time.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Maximum median time of a hand-over. A notification takes much less, even on a busy machine, and polling would take
/// much longer.
pub(crate) const PROMPT: Duration = Duration::from_millis(100);

pub(crate) struct Rig {
    pub(crate) server: Arc<RedisServer>,
    pub(crate) java: Neighbour,
    pub(crate) ours: Client,
    _actors: Actors,
}

impl Rig {
    /// Starts both sides with the same ttl.
    pub(crate) async fn start(ttl: Duration) -> Self {
        let actors = Actors::start(ttl, &[Program::Redisson4]);
        let server = Arc::clone(&actors.server);
        let ours = connect(&server, ttl).await;
        Self { server, java: actors.neighbours[0].clone(), ours, _actors: actors }
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
        subscribers(&self.server, &channel(name))
    }

    /// The owner of the lock: the only field of its hash.
    pub(crate) fn owner(&self, name: &str) -> Option<String> {
        self.server.hash(name).into_keys().next()
    }
}

/// The setup of a test that runs with different programs: a Redis server and two neighbours.
pub(crate) struct Pair {
    pub(crate) server: Arc<RedisServer>,
    pub(crate) one: Neighbour,
    pub(crate) two: Neighbour,
    _actors: Actors,
}

impl Pair {
    pub(crate) fn start(ttl: Duration, programs: [Program; 2]) -> Self {
        let actors = Actors::start(ttl, &programs);
        let [one, two] = [0, 1].map(|index: usize| actors.neighbours[index].clone());
        Self { server: Arc::clone(&actors.server), one, two, _actors: actors }
    }

    /// The neighbours in both orders; in one order only if they have the same program.
    pub(crate) fn both_ways(&self) -> Vec<(&Neighbour, &Neighbour)> {
        let ways = [(&self.one, &self.two), (&self.two, &self.one)];
        ways[..if self.one.program == self.two.program { 1 } else { 2 }].to_vec()
    }
}

/// Begins to wait, and returns when the neighbour has subscribed. No other neighbour begins or ends to wait meanwhile.
#[track_caller]
pub(crate) fn blocked(server: &RedisServer, begin: impl FnOnce() -> PendingAnswer) -> PendingAnswer {
    let before = subscriptions(server);
    let pending = begin();
    eventually(SOON, || subscriptions(server) > before);
    pending
}

/// Number of subscriptions of all channels and connections.
pub(crate) fn subscriptions(server: &RedisServer) -> usize {
    let channels = server.cmd(&["PUBSUB", "CHANNELS"]).texts();
    let channels: Vec<&str> = channels.iter().map(String::as_str).collect();
    let counts = server.cmd(&[&["PUBSUB", "NUMSUB"], &channels[..]].concat());
    let counts =
        counts.array().iter().filter_map(|part| if let Reply::Int(count) = part { Some(*count) } else { None });
    counts.map(|count| usize::try_from(count).expect("a number")).sum()
}

/// Waits until no neighbour is subscribed, so that an old subscription is not mistaken for a new one.
#[track_caller]
pub(crate) fn settle(server: &RedisServer) {
    eventually(SOON * 6, || match subscriptions(server) {
        0 => Ok(()),
        left => Err(format!("{left} subscriptions to {:?}", server.cmd(&["PUBSUB", "CHANNELS"]).texts())),
    });
}

/// Number of connections that are subscribed to a channel.
pub(crate) fn subscribers(server: &RedisServer, channel: &str) -> i64 {
    match server.cmd(&["PUBSUB", "NUMSUB", channel]).array() {
        [_, Reply::Int(count)] => *count,
        other => panic!("PUBSUB NUMSUB said {other:?}"),
    }
}

/// The owners that wait for a fair lock, in the order of their places.
pub(crate) fn fair_queue(server: &RedisServer, name: &str) -> Vec<String> {
    server.cmd(&["LRANGE", &format!("redisson_lock_queue:{}", tagged(name)), "0", "-1"]).texts()
}

/// Waits until this number of owners wait for a fair lock, and all owners of Java have subscribed. The owners of bandog
/// need no subscription while an earlier call of the same client waits or holds the lock.
#[track_caller]
pub(crate) fn wait_for_fair_queue(server: &RedisServer, name: &str, length: usize) {
    eventually(SOON, || {
        let queue = fair_queue(server, name);
        let is_ready =
            |owner: &String| is_ours(owner) || subscribers(server, &format!("{}:{owner}", channel(name))) == 1;
        queue.len() == length && queue.iter().all(is_ready)
    });
}

/// Whether an owner is one of bandog: its UUID is of version 8.
fn is_ours(owner: &str) -> bool {
    owner.as_bytes().get(14) == Some(&b'8')
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

/// Redisson's name for the channel of both kinds of semaphores.
pub(crate) fn semaphore_channel(name: &str) -> String {
    format!("redisson_sc:{}", tagged(name))
}

/// Redisson's name for the channel of a count-down latch, which always has its own braces.
pub(crate) fn latch_channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
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
