//! The verbs.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, ClientId, Error, Fence, Fences, Key, Leases, Member, Notifier, Profile, Released, Renewal, Result,
    Step, Subscription, Verdict,
};
use redis::{Pipeline, Value};

use crate::{
    bell::Subscriptions,
    link::Link,
    names::Channel,
    options::RedisOptions,
    refusal,
    script::{self, By, Group},
};

/// So many keys are renewed by one call of the script: more would keep the server from others for too long.
const RENEWALS: usize = 512;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Leases on one Redis server.
///
/// - The server's clock ends a lease, at its ttl in whole milliseconds, rounded up.
/// - A fence is the greater of the last one plus one and the server's time in microseconds. So it rises even when
///   the server has forgotten everything or a replica took over, as long as the servers' clocks agree.
/// - A server without persistence forgets its locks when it restarts, and a replica that takes over may not know the
///   latest ones: then two may hold one lock, and the fence tells them apart.
/// - The token is a key without a ttl that stays for ever, as Redisson's does.
///
/// # Layout
/// The lock `N` is the hash `N` with the owner as its field; the token is `redisson_lock_token:{N}`, and a release says
/// `0` on the channel `redisson_lock__channel:{N}`. The string `bandog:starving:{N}` is there for up to 3 s while a client
/// waits that goes before others. A name with a `{` gets no braces. These are Redisson's RLock and
/// RFencedLock. Who a client is stands in the hash `bandog:client:UUID`, with a ttl, and which clients there are in the
/// sorted set `bandog:clients`.
/// The record `R` is the hash `bandog:record:{R}`, its history is the hash `bandog:history:{R}`, and all their names are
/// in the set `bandog:records`; they have no ttl.
///
/// # Rights
/// A user needs the keys and channels above, and the commands `EVALSHA`, `SCRIPT LOAD` (or `EVAL` instead of both),
/// `PTTL`, `HEXISTS`, `GET`, `TIME`, `SET`, `HSET`, `DEL`, `PEXPIRE`, `PUBLISH`, `SUBSCRIBE` and `UNSUBSCRIBE`, and
/// `SELECT` for another database than 0. Without `PUBLISH` or `SUBSCRIBE` locks work all the same, and waiters poll.
/// With `ZADD`, `ZREM` and `ZRANGEBYSCORE` operators see what it waits for.
/// For records it also needs `HGET`, `HMGET`, `HGETALL`, `SADD`, `SREM` and `SSCAN`.
/// To look at locks it also needs `HSCAN`, `SCAN`, `HMGET` and `ZRANGE`, to take one from its holder `HSCAN`, and to look at
/// the server's health `INFO`, `CONFIG GET` and `ACL DRYRUN`.
///
/// # Connections
/// There are two, one of them for subscriptions, made when first needed. A broken one is dialled again by itself, and
/// a refused login is tried again only with the next call.
///
/// Nothing is dialled until the first call is polled, and then on its runtime. Should that runtime end, the next
/// call dials anew on its own.
pub struct Redis {
    pub(crate) options: RedisOptions,
    pub(crate) link: Link,
    pub(crate) bells: Subscriptions,
    /// What was warned of, once for each connection: a refused bell, and a refused index of clients.
    silence: Warned,
    pub(crate) unlisted: Warned,
}

/// The connection of which something was told last.
#[derive(Default)]
pub(crate) struct Warned(AtomicU64);

impl Warned {
    /// Whether it is the first time for this connection.
    pub(crate) fn is_new(&self, connection: u64) -> bool {
        self.0.swap(connection, Ordering::Relaxed) != connection
    }
}

impl Redis {
    /// A backend for this server. It does no I/O.
    ///
    /// # Errors
    /// `Misused` for a timeout that is not between 1 ms and a day.
    ///
    /// ```
    /// use bandog_redis::{Redis, RedisOptions};
    /// let redis = Redis::new(RedisOptions::from_url("redis://localhost")?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(options: RedisOptions) -> Result<Self> {
        if !(SHORTEST..=LONGEST).contains(&options.timeout) {
            return Err(Error::misused(format!("the timeout is {:?}; it takes 1 ms to 1 day", options.timeout)));
        }
        let (link, bells) = (Link::new(options.clone()), Subscriptions::new(options.clone()));
        Ok(Self { options, link, bells, silence: Warned::default(), unlisted: Warned::default() })
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
        let values = self.link.call(|_| ping).await.map_err(|error| error.during("connect"))?;
        match values.first() {
            // Whoever is refused a PING has reached the store, and was let in.
            Some(Value::ServerError(error)) if !refusal::is_denied(error) => {
                Err(refusal::refused(error).during("connect"))
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let mut answers = vec![None; steps.len()];
        let mut groups = script::groups(steps);
        let mut fault = None;
        let deadline = Instant::now() + self.options.timeout;
        while !groups.is_empty() {
            groups = match self.link.call_by(deadline, |by| script::steps(steps, &groups, by)).await {
                Ok(values) => self.sort(steps, groups, values, &mut answers),
                Err(error) => {
                    fault = Some(error);
                    Vec::new()
                }
            };
        }
        let none = |step: &Step| {
            let fault = fault.clone().unwrap_or_else(|| refusal::nonsense(&Value::Nil));
            Err(fault.during(step.verb()).at(step.key()))
        };
        answers.into_iter().zip(steps).map(|(answer, step)| answer.unwrap_or_else(|| none(step))).collect()
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.renew_in(claims, RENEWALS, Instant::now() + self.options.timeout).await
    }

    async fn subscribe(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let bell = self.bells.listen(Channel(key.as_str()), notifier).await;
        bell.map_err(|error| error.during("subscribe").at(key))
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.write_down(member, ttl).await.map_err(|error| error.during("announce"))
    }

    async fn withdraw(&self, client: ClientId) -> Result<()> {
        self.strike_out(client).await.map_err(|error| error.during("withdraw"))
    }

    fn profile(&self) -> Profile {
        Profile {
            store: self.options.store(),
            timeout: self.options.timeout,
            fence_survives_failover: true,
            expiry: "the Redis server's clock",
            epoch: self.link.epoch(),
        }
    }
}

impl Redis {
    /// Sends one command, once more if the server had forgotten our scripts.
    ///
    /// # Errors
    /// As [`Link::call`], and for a refusal.
    pub(crate) async fn ask(&self, pack: impl Fn(By) -> Pipeline + Send + Sync) -> Result<Value> {
        self.ask_by(Instant::now() + self.options.timeout, pack).await
    }

    /// As [`Redis::ask`], with a deadline.
    pub(crate) async fn ask_by(&self, deadline: Instant, pack: impl Fn(By) -> Pipeline + Send + Sync) -> Result<Value> {
        let mut values = self.link.call_by(deadline, &pack).await?;
        if values.first().is_some_and(refusal::is_no_script) {
            values = self.link.call_by(deadline, &pack).await?;
        }
        match values.pop() {
            Some(Value::ServerError(error)) => Err(refusal::refused(&error)),
            Some(value) => Ok(value),
            None => Err(refusal::nonsense(&Value::Nil)),
        }
    }

    /// Puts each group's answers where they belong, and tells which groups are to be sent again.
    fn sort(
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
                    for (place, reply) in group.into_iter().zip(replies) {
                        answers[place] = Some(self.answer(&steps[place], reply));
                    }
                }
                // A right that is missing for one key refuses the call for all of them before it begins.
                Value::ServerError(error) if group.len() > 1 && refusal::is_out_of_reach(&error) => {
                    again.extend(group.into_iter().map(|place| vec![place]));
                }
                value => {
                    for place in group {
                        answers[place] = Some(self.answer(&steps[place], value.clone()));
                    }
                }
            }
        }
        again
    }

    fn answer(&self, step: &Step, value: Value) -> Result<Answer> {
        let answer = match (step, value) {
            (_, Value::ServerError(error)) => Err(refusal::refused(&error)),
            (Step::Claim(claim) | Step::Pass { to: claim, .. }, Value::Int(reply)) => {
                verdict(claim, reply).map(Answer::Claimed)
            }
            (Step::Release(claim), value) => self.released(&claim.key, value).map(Answer::Released),
            (_, value) => Err(refusal::nonsense(&value)),
        };
        answer.map_err(|error| error.during(step.verb()).at(step.key()))
    }

    /// Reads the reply of `release.lua`.
    fn released(&self, key: &Key, reply: Value) -> Result<Released> {
        match reply {
            Value::Int(-2) => {
                self.warn_of_silence();
                Ok(Released::Freed { others: None })
            }
            Value::Int(-1) => Ok(Released::NotHeld),
            Value::Int(told) => {
                let told = u32::try_from(told).map_err(|_| refusal::nonsense(&reply))?;
                // We may be among those who were told.
                let ours = told > 0 && self.bells.hears(Channel(key.as_str()));
                Ok(Released::Freed { others: Some(told - u32::from(ours)) })
            }
            reply => Err(refusal::nonsense(&reply)),
        }
    }

    /// Says once for each connection that nobody may be told of a release.
    pub(crate) fn warn_of_silence(&self) {
        if self.silence.is_new(self.link.connection()) {
            let store = self.options.store();
            tracing::warn!(%store, "this user may not publish, so those who wait for a lock poll instead of being woken");
        }
    }

    /// Renews so many at once.
    async fn renew_in(&self, claims: &[Claim], each: usize, deadline: Instant) -> Vec<Result<Renewal>> {
        if claims.is_empty() {
            return Vec::new();
        }
        let values = match self.link.call_by(deadline, |by| script::renewals(claims, each, by)).await {
            Ok(values) => values,
            Err(error) => return claims.iter().map(|claim| not_renewed(claim, error.clone())).collect(),
        };
        let mut renewals = Vec::with_capacity(claims.len());
        for (claims, value) in claims.chunks(each).zip(values) {
            match value {
                Value::Array(replies) if replies.len() == claims.len() => {
                    renewals.extend(claims.iter().zip(replies).map(|(claim, reply)| renewal(claim, reply)));
                }
                // A right that is missing for one key refuses the call for all of them before it begins.
                Value::ServerError(error) if claims.len() > 1 && refusal::is_out_of_reach(&error) => {
                    renewals.extend(Box::pin(self.renew_in(claims, 1, deadline)).await);
                }
                value => renewals.extend(claims.iter().map(|claim| renewal(claim, value.clone()))),
            }
        }
        renewals
    }
}

/// Reads the reply of `claim.lua`.
fn verdict(claim: &Claim, reply: i64) -> Result<Verdict> {
    let number = reply.unsigned_abs();
    match reply {
        1.. => Ok(Verdict::Granted { fences: Fences::ending(Fence::new(number), claim.fences), valid_for: claim.ttl }),
        0 => Err(refusal::nonsense(&Value::Int(reply))),
        _ => Ok(Verdict::Busy { retry_after: Duration::from_millis(number) }),
    }
}

/// Reads one reply of `renew.lua`.
fn renewal(claim: &Claim, reply: Value) -> Result<Renewal> {
    match reply {
        Value::Int(1) => Ok(Renewal::Extended { valid_for: claim.ttl }),
        Value::Int(0) => Ok(Renewal::Gone),
        Value::ServerError(error) => not_renewed(claim, refusal::refused(&error)),
        reply => not_renewed(claim, refusal::nonsense(&reply)),
    }
}

fn not_renewed(claim: &Claim, error: Error) -> Result<Renewal> {
    Err(error.during("renew").at(&claim.key))
}

#[cfg(test)]
mod tests;
