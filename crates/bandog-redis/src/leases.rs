//! The backend, and its implementation of [`Leases`].

use std::{
    fmt,
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, ClientId, Error, Key, Kind, Leases, Member, Notifier, Profile, Released, Renewal, Result, Step,
    Subscription,
};
use redis::{Pipeline, Value};

use crate::{
    answers::{misused, not_renewed, queued, renewal, verdict},
    link::Link,
    names::ClaimChannel,
    options::RedisOptions,
    refusal,
    script::{self, Group, ScriptForm},
    subscriptions::Subscriptions,
};

/// Maximum number of keys that one call of the script renews. A larger call would block the server for other clients
/// for too long.
const MAX_RENEWALS_PER_CALL: usize = 512;

/// Minimum timeout of a request.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
/// Maximum timeout of a request.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Leases on one Redis server.
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
/// are other formats of mutexes and of semaphores. The file `docs/redis.md` of the repository has their keys.
///
/// A client starves if it has waited for a lock for a second or more. Each claim of a starving client for the lock `N`
/// sets the string `bandog:starving:{N}` with a ttl of 3 s. The next release then reserves the lock for starving
/// clients for 250 ms.
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
    pub(crate) options: RedisOptions,
    pub(crate) link: Link,
    pub(crate) subscriptions: Subscriptions,
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
    /// `ErrorKind::Misused` if the timeout is not between 1 ms and one day, or if the layouts do not fit together.
    ///
    /// ```
    /// use bandog_redis::{Redis, RedisOptions};
    /// let redis = Redis::new(RedisOptions::from_url("redis://localhost")?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(options: RedisOptions) -> Result<Self> {
        if !(MIN_TIMEOUT..=MAX_TIMEOUT).contains(&options.timeout) {
            return Err(Error::misused(format!(
                "the timeout is {:?}; it must be between 1 ms and 1 day",
                options.timeout
            )));
        }
        options.format.check()?;
        let (link, subscriptions) = (Link::new(options.clone()), Subscriptions::new(options.clone()));
        Ok(Self { options, link, subscriptions, publish_warned: Warned::default(), index_warned: Warned::default() })
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("store", &self.options.store()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Leases for Redis {
    async fn ping(&self) -> Result<()> {
        let mut ping = redis::pipe();
        ping.cmd("PING");
        let values = self.link.call(ping).await.map_err(|error| error.during("connect"))?;
        match values.first() {
            // If only the right to run PING is missing, the server is reachable and the user is logged in.
            Some(Value::ServerError(error)) if !refusal::is_denied(error) => {
                Err(refusal::refused(error).during("connect"))
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let kinds = self.options.format.kinds();
        let mut answers: Vec<_> = steps.iter().map(|step| misused(step, kinds)).collect();
        let mut groups = script::groups(steps, &answers, self.options.format);
        let (mut fault, format) = (None, self.options.format);
        let deadline = Instant::now() + self.options.timeout;
        while !groups.is_empty() {
            groups = match self.link.call_scripts(deadline, |form| script::steps(steps, &groups, format, form)).await {
                Ok(values) => self.distribute(steps, groups, values, &mut answers),
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
        answers.into_iter().zip(steps).map(|(answer, step)| answer.unwrap_or_else(|| missing_answer(step))).collect()
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.renew_in(claims, MAX_RENEWALS_PER_CALL, Instant::now() + self.options.timeout).await
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let subscription = self.subscriptions.subscribe(&ClaimChannel(claim).to_string(), notifier).await;
        subscription.map_err(|error| error.during("subscribe").at(&claim.key))
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        let set = async {
            match self.ask(|form| script::set_limit(key, permits, self.options.format, form)).await? {
                Value::Int(0) => Ok(None),
                Value::Int(before) => Ok(Some(u32::try_from(before).unwrap_or(u32::MAX))),
                reply => Err(refusal::unexpected_reply(&reply)),
            }
        };
        set.await.map_err(|error| error.during("set_limit").at(key))
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.register(member, ttl).await.map_err(|error| error.during("announce"))
    }

    async fn withdraw(&self, client: ClientId) -> Result<()> {
        self.deregister(client).await.map_err(|error| error.during("withdraw"))
    }

    fn profile(&self) -> Profile {
        Profile {
            store: self.options.store(),
            timeout: self.options.timeout,
            kinds: self.options.format.kinds(),
            fence_survives_failover: true,
            expiry: "the Redis server's clock",
            epoch: self.link.epoch(),
        }
    }
}

impl Redis {
    /// Sends the command that `pack` returns.
    pub(crate) async fn ask(&self, pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync) -> Result<Value> {
        self.ask_with_deadline(Instant::now() + self.options.timeout, pack).await
    }

    /// Does the same as [`Redis::ask`], with a deadline instead of the timeout.
    pub(crate) async fn ask_with_deadline(
        &self,
        deadline: Instant,
        pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync,
    ) -> Result<Value> {
        match self.link.call_scripts(deadline, pack).await?.pop() {
            Some(Value::ServerError(error)) => Err(refusal::refused(&error)),
            Some(value) => Ok(value),
            None => Err(refusal::unexpected_reply(&Value::Nil)),
        }
    }

    /// Puts the reply to each step into `answers`, at the position of this step. A group contains the positions of the
    /// steps that one command has sent, and `values` contains one reply for each group. Returns the groups that must be
    /// sent again.
    fn distribute(
        &self,
        steps: &[Step],
        groups: Vec<Group>,
        values: Vec<Value>,
        answers: &mut [Option<Result<Answer>>],
    ) -> Vec<Group> {
        let mut again = Vec::new();
        for (group, value) in groups.into_iter().zip(values) {
            match value {
                Value::Array(replies) if group.len() > 1 && group.len() == replies.len() => {
                    for (position, reply) in group.into_iter().zip(replies) {
                        answers[position] = Some(self.answer(&steps[position], reply));
                    }
                }
                // If the user lacks the right for one key, Redis refuses the whole call before it runs. So each step is
                // sent again, in its own command.
                Value::ServerError(error) if group.len() > 1 && refusal::is_out_of_reach(&error) => {
                    again.extend(group.into_iter().map(|position| vec![position]));
                }
                value => {
                    for position in group {
                        answers[position] = Some(self.answer(&steps[position], value.clone()));
                    }
                }
            }
        }
        again
    }

    /// Claims whose keys have another type than a lock of their kind: replaces their errors by errors that name the kind
    /// of lock that was found. If the server does not answer or the user lacks the rights, the error names no kind.
    async fn name_other_kinds(&self, steps: &[Step], deadline: Instant, answers: &mut [Option<Result<Answer>>]) {
        let mut wrong = Vec::new();
        for (step, answer) in steps.iter().zip(answers) {
            let Some(Err(error)) = answer else { continue };
            if let Step::Claim(claim) | Step::Pass { to: claim, .. } = step
                && refusal::is_of_wrong_type(error)
            {
                wrong.push((step, claim, error));
            }
        }
        if wrong.is_empty() {
            return;
        }
        let query = script::ask_for_type(wrong.iter().map(|(_, claim, _)| &claim.key));
        let replies = self.link.call_scripts(deadline, |_| query.clone()).await.unwrap_or_default();
        for (position, (step, claim, error)) in wrong.into_iter().enumerate() {
            let (text, mode) = (replies.get(2 * position), replies.get(2 * position + 1));
            let (family, layout) = (claim.kind.family(), self.options.format.layout);
            *error = refusal::other_kind(&claim.key, family, layout, text, mode).during(step.verb()).at(&claim.key);
        }
    }

    /// Reads the reply to one step.
    fn answer(&self, step: &Step, value: Value) -> Result<Answer> {
        let answer = match (step, value) {
            (_, Value::ServerError(error)) => Err(refusal::refused(&error)),
            (Step::Claim(claim) | Step::Pass { to: claim, .. }, Value::Int(reply)) => {
                verdict(claim, reply, None).map(Answer::Claimed)
            }
            (Step::Claim(claim), Value::Array(parts)) => queued(claim, &parts).map(Answer::Claimed),
            (Step::Release(claim), value) => self.released(claim, value).map(Answer::Released),
            (_, value) => Err(refusal::unexpected_reply(&value)),
        };
        answer.map_err(|error| error.during(step.verb()).at(step.key()))
    }

    /// Reads the reply of a script that releases locks.
    fn released(&self, claim: &Claim, reply: Value) -> Result<Released> {
        match reply {
            // This claim holds the lock no longer, and other claims hold it. No client was notified.
            Value::Int(-3) => Ok(Released::Freed { others: None }),
            Value::Int(-4) => Ok(Released::LeftQueue),
            // The lock is free, but this user has no right to publish the release.
            Value::Int(-2) => {
                self.warn_publish_denied();
                Ok(Released::Freed { others: None })
            }
            Value::Int(-1) => Ok(Released::NotHeld),
            Value::Int(receivers) => {
                let receivers = u32::try_from(receivers).map_err(|_| refusal::unexpected_reply(&reply))?;
                // If this backend is subscribed to the channel, it is one of the receivers. The script of fair locks counts
                // only the receivers of other clients.
                let is_counted = receivers > 0 && !matches!(claim.kind, Kind::Fair);
                let ours = is_counted && self.subscriptions.is_subscribed(&ClaimChannel(claim).to_string());
                Ok(Released::Freed { others: Some(receivers - u32::from(ours)) })
            }
            reply => Err(refusal::unexpected_reply(&reply)),
        }
    }

    /// Warns that this user has no right to publish releases. The warning is logged once for each connection.
    pub(crate) fn warn_publish_denied(&self) {
        if self.publish_warned.is_new(self.link.connection()) {
            let store = self.options.store();
            tracing::warn!(%store, "this user may not publish, so waiters poll instead of being woken");
        }
    }

    /// Renews the claims. Each call of a script renews at most `max_per_call` claims.
    async fn renew_in(&self, claims: &[Claim], max_per_call: usize, deadline: Instant) -> Vec<Result<Renewal>> {
        let mut renewals: Vec<_> = claims.iter().map(|_| None).collect();
        let format = self.options.format;
        let mut groups = script::renewal_groups(claims, max_per_call, format);
        while !groups.is_empty() {
            let sent = self.link.call_scripts(deadline, |form| script::renewals(claims, &groups, format, form)).await;
            let values = match sent {
                Ok(values) => values,
                Err(error) => {
                    let not_renewed = |claim| not_renewed(claim, error.clone());
                    let renewals = claims.iter().zip(renewals);
                    return renewals.map(|(claim, renewal)| renewal.unwrap_or_else(|| not_renewed(claim))).collect();
                }
            };
            let mut again = Vec::new();
            for (group, value) in groups.into_iter().zip(values) {
                match value {
                    Value::Array(replies) if replies.len() == group.len() => {
                        for (position, reply) in group.into_iter().zip(replies) {
                            renewals[position] = Some(renewal(&claims[position], reply));
                        }
                    }
                    // If the user lacks the right for one key, Redis refuses the whole call before it runs. So each
                    // claim is sent again, in its own call.
                    Value::ServerError(error) if group.len() > 1 && refusal::is_out_of_reach(&error) => {
                        again.extend(group.into_iter().map(|position| vec![position]));
                    }
                    value => {
                        for position in group {
                            renewals[position] = Some(renewal(&claims[position], value.clone()));
                        }
                    }
                }
            }
            groups = again;
        }
        let missing = |claim| not_renewed(claim, refusal::unexpected_reply(&Value::Nil));
        let renewals = claims.iter().zip(renewals);
        renewals.map(|(claim, renewal)| renewal.unwrap_or_else(|| missing(claim))).collect()
    }
}

#[cfg(test)]
mod tests;
