//! The backend, and its implementation of [`Leases`].

mod renewals;
mod steps;

use std::{
    fmt,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Error, Key, Leases, Member, Notifier, Profile, QuorumNode, Renewal, Result, Step,
    Subscription, Verdict, messages::Sink,
};
#[cfg(feature = "grid")]
use bandog_core::{messages::Messages, queues::Queues, structures::Structures};
use bandog_redis_net::{Keys, ScriptForm, Servers, reply};
use redis::{Pipeline, Value};

use crate::{
    answers::{Renewed, misused, not_renewed, renewal},
    names::{self, ClaimChannel},
    options::{Format, RedisOptions},
    refusal, script, slots, uptime,
};

/// Maximum number of keys that one call of the script renews. A larger call would block the server for other clients
/// for too long.
const MAX_RENEWALS_PER_CALL: usize = 512;

/// The time for which a server can lose what it has answered. In an orderly failover, Sentinel promotes a replica some
/// seconds before the former master refuses writes. A server with `appendfsync everysec` loses up to 2 s in a crash.
const MAY_UNDO: Duration = Duration::from_secs(10);
/// Leases on one Redis server, or on the nodes of a Redis Cluster.
///
/// - The server's clock decides when a lease expires. The ttl is rounded up to whole milliseconds.
/// - A fence is the greater of two numbers: the last fence plus one, and the server's time in microseconds. So fences
///   also rise after the server has lost its data or a replica has taken over, if the clocks of the servers agree.
/// - A server without persistence loses its locks when it restarts. A replica that takes over might not have the latest
///   locks. In both cases two clients might hold the same lock. The client that took the lock later has the greater
///   fence.
/// - The key of the fencing token has no ttl. It stays in the store after a release, as in Redisson.
///
/// # Layout
/// The lock `N` is stored in the hash `N`. The only field of the hash is the id of the owner. The fencing token of the
/// lock is in the key `redisson_lock_token:{N}`. A release publishes `0` on the channel `redisson_lock__channel:{N}`.
/// If the name itself contains `{`, no braces are added. This is the layout of Redisson's RLock and RFencedLock.
///
/// A fair mutex has the same hash, and Redisson's queue: the list `redisson_lock_queue:{N}`, and the sorted set
/// `redisson_lock_timeout:{N}` with the time at which each claim in the queue is given up. A release publishes `0` on the
/// channel of the first claim in the queue only: `redisson_lock__channel:{N}:OWNER`.
///
/// A read-write lock is a hash with the field `mode` and a field for each owner, as in Redisson's RReadWriteLock. Each
/// hold of a reader has the key `{N}:OWNER:rwlock_timeout:1` with its own ttl. A release publishes `0` or `1` on the
/// channel `redisson_rwlock:{N}`.
///
/// A semaphore is the number of its free permits, in the string `N`. The sorted set `{N}:timeout` has the permits that
/// are taken, as in Redisson's RPermitExpirableSemaphore. A release publishes the number on `redisson_sc:{N}`. The
/// string has no ttl. So the name of a semaphore cannot be used for another kind of lock until the string is deleted.
///
/// Redisson does not know these further keys, which all have a ttl: `bandog:held:{N}` (the fences of single holds),
/// `bandog:writers:{N}`, `bandog:waiting:{N}` and `bandog:order:{N}` (the claims that have a place),
/// `bandog:stayed:{N}` (marks a long queue), and `bandog:limit:{N}` (the limit of a semaphore before its last change).
///
/// This is the default format. [`Layout::Setnx`](crate::Layout::Setnx) and [`Semaphores::Plain`](crate::Semaphores::Plain)
/// are other formats of mutexes and of semaphores. The file `docs/redis-keys.md` of the repository has their keys.
///
/// A client starves if it has waited for a lock for a second or more. Each claim of a starving client for the lock `N`
/// sets the string `bandog:starving:{N}` with a ttl of 3 s. The next release then reserves the lock for starving
/// clients for 250 ms.
///
/// The strings `bandog:setting:NAME` have settings that all clients share. Only a quorum writes such a setting: its
/// `max_ttl`.
///
/// The hash `bandog:client:UUID` contains a client's row in the registry, and has a ttl. The sorted set
/// `bandog:clients` is the index of all clients.
///
/// A record is a text with a version, in which a schedule keeps its state. The record `R` is the hash
/// `bandog:record:{R}`, its history is the hash `bandog:history:{R}`, and the set `bandog:records` contains the names
/// of all records. These three keys have no ttl.
///
/// The latch `N` is the string `N` with its count, without a ttl. An open latch has no key. The step that opens the latch
/// publishes `0` on the channel `redisson_countdownlatch__channel__{N}`, and the step that sets or deletes it publishes
/// `1`. The braces are always added. This is the layout of Redisson's RCountDownLatch. The sorted set `bandog:ops:{N}`
/// has the latest operations of bandog on the latch, so that a repeated operation counts once. It has a ttl.
///
/// # Rights
/// A user of mutexes needs the rights for the keys and channels above, and for the commands `EVALSHA`, `SCRIPT LOAD` (or
/// `EVAL` instead of both), `PTTL`, `HEXISTS`, `GET`, `TIME`, `SET`, `HSET`, `DEL`, `PEXPIRE`, `PUBLISH`, `SUBSCRIBE` and
/// `UNSUBSCRIBE`, and `SELECT` for a database other than 0. Without `PUBLISH` or `SUBSCRIBE`, locks work and waiters
/// poll.
///
/// Further commands are needed for:
/// - fair mutexes, read-write locks and semaphores: `HGET`, `HGETALL`, `HLEN`, `HDEL`, `ZADD`, `ZREM`, `ZRANGEBYSCORE`, `ZSCORE`,
///   `ZCOUNT`, `ZREMRANGEBYSCORE`, `ZCARD`, `ZRANK`, `ZINCRBY`, `INCRBY`, `LINDEX`, `LPOP`, `LRANGE`, `LREM` and `RPUSH`;
/// - the index of clients, which shows operators the waiters: `ZADD`, `ZREM` and `ZRANGEBYSCORE`;
/// - records: `HGET`, `HMGET`, `HGETALL`, `SADD`, `SREM` and `SSCAN`;
/// - latches: `DECRBY`, `ZADD`, `ZREM`, `ZSCORE` and `ZREMRANGEBYSCORE`;
/// - `show` and `list`: `HSCAN`, `SCAN`, `HMGET` and `ZRANGE`;
/// - `evict`: `HSCAN`;
/// - `check`: `INFO`, `CONFIG GET` and `ACL DRYRUN`.
///
/// # Connections
/// There are two connections, one for commands and one for subscriptions. Each is opened when it is first needed. A
/// broken connection is reopened automatically. If the server refuses the login, the client connects again only when
/// the next call is made.
///
/// Each connection runs on the Tokio runtime of the call that opened it. If that runtime ends, the next call opens the
/// connection again, on its own runtime.
pub struct Redis {
    pub(crate) format: Format,
    pub(crate) servers: Servers,
    #[cfg(feature = "grid")]
    objects: Arc<bandog_redis_data::RedisObjects>,
    /// Limits the warning that this user has no right to publish. The warning is logged once for each connection.
    publish_warned: Warned,
    /// Limits the warning that this user has no right to write the index of clients. The warning is logged once for
    /// each connection.
    pub(crate) index_warned: Warned,
}

/// Limits a warning to once for each connection. The value is the number of the last connection for which the warning
/// was logged.
#[derive(Default)]
pub(crate) struct Warned(AtomicU64);

impl Warned {
    /// Records a warning for the connection with this number. Returns whether it is the first warning for this
    /// connection.
    pub(crate) fn is_new(&self, connection: u64) -> bool {
        self.0.swap(connection, Ordering::Relaxed) != connection
    }
}

impl Redis {
    /// Creates a backend for this server. This does no I/O.
    ///
    /// # Errors
    /// As [`RedisOptions::check`].
    ///
    /// ```
    /// use bandog_redis::{Redis, RedisOptions};
    /// let redis = Redis::new(RedisOptions::from_url("redis://localhost")?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(options: RedisOptions) -> Result<Self> {
        let format = options.format;
        format.check()?;
        let servers = Servers::new(options.connection(), script::scripts(format))?;
        Ok(Self {
            format,
            servers,
            #[cfg(feature = "grid")]
            objects: Arc::new(bandog_redis_data::RedisObjects::new(options.connection())?),
            publish_warned: Warned::default(),
            index_warned: Warned::default(),
        })
    }
}

impl Backend for Redis {
    #[cfg(feature = "grid")]
    fn structures(&self) -> Option<Arc<dyn Structures>> {
        Some(self.objects.clone())
    }

    #[cfg(feature = "grid")]
    fn messages(&self) -> Option<Arc<dyn Messages>> {
        Some(self.objects.clone())
    }

    #[cfg(feature = "grid")]
    fn queues(&self) -> Option<Arc<dyn Queues>> {
        Some(self.objects.clone())
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("store", &self.servers.store()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Leases for Redis {
    async fn ping(&self) -> Result<()> {
        let mut ping = redis::pipe();
        ping.cmd("PING");
        let values = self.servers.call(Keys::None, ping).await.map_err(|error| error.during("connect"))?;
        match values.first() {
            // If only the right to run PING is missing, the server is reachable and the user is logged in.
            Some(Value::ServerError(error)) if !refusal::is_denied(error) => {
                Err(refusal::refused(error).during("connect"))
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let connection = self.connection_to_acknowledge();
        let placed = if self.format.in_cluster { slots::placed_steps(steps) } else { steps.into() };
        let (steps, original) = (&*placed, steps);
        let refused = steps.iter().zip(original).map(|(step, original)| misused(step, original, self.format));
        let mut answers: Vec<_> = refused.collect();
        let mut groups = script::groups(steps, &answers, self.format);
        let (mut fault, format) = (None, self.format);
        let deadline = self.servers.deadline();
        while !groups.is_empty() {
            let pack = |form| script::steps(steps, &groups, format, form);
            groups = match self.servers.call_scripts(deadline, Keys::OfScripts, pack).await {
                Ok(replies) => self.distribute(steps, groups, replies, &mut answers),
                Err(error) => {
                    fault = Some(error);
                    Vec::new()
                }
            };
        }
        self.name_other_kinds(steps, deadline, &mut answers).await;
        let missing_answer = |step: &Step| {
            let fault = fault.clone().unwrap_or_else(|| refusal::unexpected_reply(&Value::Nil));
            Err(fault.during(step.verb()).at(step.key()))
        };
        let answers = answers.into_iter().zip(original);
        let mut answers: Vec<_> =
            answers.map(|(answer, step)| answer.unwrap_or_else(|| missing_answer(step))).collect();
        let is_granted = |answer: &Result<Answer>| matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. })));
        if let Some(connection) = connection
            && answers.iter().any(is_granted)
        {
            let granted = answers.iter_mut().zip(steps).zip(original);
            let granted: Vec<_> = granted.filter(|((answer, _), _)| is_granted(answer)).collect();
            let claims: Vec<Claim> = granted.iter().map(|((_, step), _)| script::claim_of(step).clone()).collect();
            let acknowledged = self.acknowledged(&claims, connection, deadline).await;
            for (((answer, _), step), acknowledged) in granted.into_iter().zip(acknowledged) {
                if let Err(fault) = acknowledged {
                    *answer = Err(fault.during(step.verb()).at(step.key()));
                }
            }
        }
        answers
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let (connection, deadline) = (self.connection_to_acknowledge(), self.servers.deadline());
        let placed: Vec<Claim>;
        let claims = if self.format.in_cluster {
            placed = claims.iter().map(slots::placed_claim).collect();
            &placed
        } else {
            claims
        };
        let mut renewals = self.renew_in(claims, MAX_RENEWALS_PER_CALL, deadline).await;
        // The place of a waiting claim needs no acknowledgement.
        let is_hold = |renewed: &Result<Renewed>| matches!(renewed, Ok(Renewed { is_hold: true, .. }));
        if let Some(connection) = connection
            && renewals.iter().any(is_hold)
        {
            let held = renewals.iter_mut().zip(claims);
            let held: Vec<_> = held.filter(|(renewed, _)| is_hold(renewed)).collect();
            let held_claims: Vec<Claim> = held.iter().map(|(_, claim)| (*claim).clone()).collect();
            let acknowledged = self.acknowledged(&held_claims, connection, deadline).await;
            for ((renewed, claim), acknowledged) in held.into_iter().zip(acknowledged) {
                if let Err(fault) = acknowledged {
                    *renewed = Err(not_renewed(claim, fault));
                }
            }
        }
        renewals.into_iter().map(|renewed| Ok(renewed?.renewal)).collect()
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let placed = Claim { key: self.lock_key(&claim.key), ..claim.clone() };
        let subscription = self.servers.subscribe(&ClaimChannel(&placed).to_string(), Sink::of(notifier)).await;
        subscription.map_err(|error| error.during("subscribe").at(&claim.key))
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        let set = async {
            self.check_name(key)?;
            match self.ask(|form| script::set_limit(key, permits, self.format, form)).await? {
                Value::Int(0) => Ok(None),
                Value::Int(before) => Ok(Some(u32::try_from(before).unwrap_or(u32::MAX))),
                reply => Err(refusal::unexpected_reply(&reply)),
            }
        };
        set.await.map_err(|error| error.during("set_limit").at(key))
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.write_member(member, ttl).await.map_err(|error| error.during("register"))
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.delete_member(client).await.map_err(|error| error.during("deregister"))
    }

    fn profile(&self) -> Profile {
        Profile {
            store: self.servers.store(),
            timeout: self.servers.options().timeout(),
            kinds: self.format.kinds(),
            outlive_clients: self.format.kinds(),
            has_records: true,
            fence_survives_failover: true,
            may_undo: MAY_UNDO,
            checks_locks_in: None,
            completes_runs_in: None,
            expiry: "the Redis server's clock",
            max_steps: if self.servers.options().replicas() > 0 { 1 } else { Profile::MAX_STEPS },
            epoch: self.servers.epoch(),
        }
    }
}

#[async_trait]
impl QuorumNode for Redis {
    async fn uptime(&self) -> Result<Duration> {
        let mut pipe = redis::pipe();
        pipe.cmd("INFO").arg("server");
        let values = self.servers.call(Keys::None, pipe).await?;
        uptime::read(values.first(), &self.servers.store())
    }

    async fn setting(&self, name: &str, text: Option<&str>) -> Result<Option<String>> {
        let (mut pipe, key) = (redis::pipe(), format!("{}{name}", names::SETTING));
        if let Some(text) = text {
            pipe.cmd("SET").arg(&key).arg(text).arg("NX");
        }
        pipe.cmd("GET").arg(&key);
        let values = self.servers.call(Keys::FirstArguments, pipe).await?;
        if let Some(error) = values.iter().find_map(refusal::server_error) {
            return Err(refusal::refused(error));
        }
        Ok(values.last().and_then(reply::text))
    }
}

impl Redis {
    /// The key of a lock with this name.
    pub(crate) fn lock_key(&self, key: &Key) -> Key {
        if self.format.in_cluster { slots::lock_key(key) } else { key.clone() }
    }

    /// Refuses a name that cannot be used on a cluster.
    pub(crate) fn check_name(&self, key: &Key) -> Result<()> {
        if !self.format.in_cluster {
            return Ok(());
        }
        slots::check(key.as_str())?;
        slots::check_lock(key.as_str())
    }

    /// Sends the script that `pack` calls.
    pub(crate) async fn ask(&self, pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync) -> Result<Value> {
        self.ask_with_deadline(self.servers.deadline(), pack).await
    }

    /// Does the same as [`Redis::ask`], with a deadline instead of the timeout.
    pub(crate) async fn ask_with_deadline(
        &self,
        deadline: Instant,
        pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync,
    ) -> Result<Value> {
        last(self.servers.call_scripts(deadline, Keys::OfScripts, pack).await?.into_values()?)
    }

    /// Sends a command whose first argument is its key.
    pub(crate) async fn command(&self, pipe: Pipeline) -> Result<Value> {
        last(self.servers.call(Keys::FirstArguments, pipe).await?)
    }

    /// The number of the latest connection, if the replicas must acknowledge grants and renewals.
    fn connection_to_acknowledge(&self) -> Option<u64> {
        (self.servers.options().replicas() > 0).then(|| self.servers.connection())
    }

    /// Waits until the replicas have acknowledged the holds of these claims. `connection` is the number of the latest
    /// connection before the call that was answered. Returns one result for each claim. All errors are ambiguous, because
    /// the holds have been written.
    async fn acknowledged(&self, claims: &[Claim], connection: u64, deadline: Instant) -> Vec<Result<()>> {
        let (format, repeated): (_, Arc<[Claim]>) = (self.format, claims.into());
        let repeat = move |at: usize, form| {
            let claim = &repeated[at];
            script::renewal(claim.kind, &[claim], format, form)
        };
        let keys: Vec<_> = claims.iter().map(|claim| claim.key.as_str()).collect();
        let replies = self.servers.acknowledge(connection, &keys, repeat, deadline).await;
        claims.iter().zip(replies).map(|(claim, reply)| is_held(claim, reply?)).collect()
    }
}

/// Checks that a renewal that replicas have acknowledged found the hold. The place of a waiting claim is no hold. `reply`:
/// the reply to the renewal, if it was repeated for them.
fn is_held(claim: &Claim, reply: Option<Value>) -> Result<()> {
    let Some(reply) = reply else { return Ok(()) };
    let reply = match reply {
        Value::Array(mut replies) if replies.len() == 1 => replies.remove(0),
        reply => reply,
    };
    if renewal(claim, reply).map_err(Error::ambiguous)?.is_hold {
        return Ok(());
    }
    let message = "the node of the slot does not have the lock any more: it was released, or a replica has taken over";
    Err(Error::unavailable(message).ambiguous())
}

/// The last reply.
fn last(mut replies: Vec<Value>) -> Result<Value> {
    match replies.pop() {
        Some(Value::ServerError(error)) => Err(refusal::refused(&error)),
        Some(value) => Ok(value),
        None => Err(refusal::unexpected_reply(&Value::Nil)),
    }
}

#[cfg(test)]
mod tests;
