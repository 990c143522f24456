//! The implementation of [`Inspect`]: locks and their holders.

mod fences;
mod fields;
mod rows;

use std::{borrow::Cow, time::Duration};

use async_trait::async_trait;
use bandog_core::{ClientId, Finding, IfUnused, Inspect, Key, Member, NamesPage, Pattern, Result, Row, Usage};
use bandog_redis_net::{Keys, reply::list};
use redis::{Pipeline, Value};

pub(crate) use self::{
    fields::{fields, is_lock},
    rows::row,
};
use crate::{
    leases::Redis,
    names::{StarvingKey, TokenKey},
    options::{Layout, Semaphores},
    refusal, script, slots,
};

/// Maximum number of locks that one round trip queries.
const MAX_LOCKS_PER_CALL: usize = 256;
#[async_trait]
impl Inspect for Redis {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        let rows = self.all(pattern).await.map_err(|error| error.during("list"))?;
        Ok(rows.into_values().collect())
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        let row = self.row_of(key).await.map_err(|error| error.during("show").at(key))?;
        Ok(row.unwrap_or_else(|| Row::free(key)))
    }

    async fn show_all(&self, keys: &[Key]) -> Result<Vec<Row>> {
        self.rows_of(keys).await.map_err(|error| error.during("show"))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.registered().await.map_err(|error| error.during("members"))
    }

    async fn members_of(&self, clients: &[ClientId]) -> Result<Vec<Member>> {
        self.rows(clients.to_vec()).await.map_err(|error| error.during("members"))
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        let evicted = async {
            self.check_name(key)?;
            let placed = self.lock_key(key);
            if self.format.semaphores == Semaphores::Plain {
                let reply = self.ask(|form| script::evict_plain(&placed, form)).await?;
                if reply != Value::Int(0) {
                    return self.evicted(key, &reply);
                }
            }
            self.evicted(key, &self.ask(|form| script::evict(&placed, self.format, form)).await?)
        };
        evicted.await.map_err(|error| error.during("evict").at(key))
    }

    async fn forget(&self, key: &Key) -> Result<bool> {
        let forgotten = async {
            self.check_name(key)?;
            let placed = self.lock_key(key);
            if self.format.layout == Layout::Setnx {
                return self.forget_setnx(key).await;
            }
            match self.ask(|form| script::forget(&placed, form)).await? {
                Value::Int(forgotten) => Ok(forgotten == 1),
                reply => Err(refusal::unexpected_reply(&reply)),
            }
        };
        forgotten.await.map_err(|error| error.during("forget").at(key))
    }

    async fn names_page(&self, pattern: &Pattern, unused_for: Duration, after: Option<&str>) -> Result<NamesPage> {
        self.unused_page(pattern, unused_for, after).await.map_err(|error| error.during("forget"))
    }

    async fn usage(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        self.usage_of(keys, unused_for, then).await.map_err(|error| error.during("forget"))
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.check_for("").await
    }

    async fn check_for(&self, prefix: &str) -> Result<Vec<Finding>> {
        self.findings(prefix).await.map_err(|error| error.during("check"))
    }
}

impl Redis {
    /// The row of this lock. None if no client holds the lock.
    async fn row_of(&self, key: &Key) -> Result<Option<Row>> {
        self.check_name(key)?;
        let placed = self.lock_name(key.as_str());
        let reply = self.ask(|form| script::show([&*placed].into_iter(), self.format, form)).await?;
        let mut row = row(key.as_str(), &reply)?;
        self.add_fences(row.iter_mut().collect()).await;
        Ok(row)
    }

    /// Deletes the token of a mutex of the layout [`Layout::Setnx`], if the mutex is free. If it is taken meanwhile, its
    /// next fence begins at the server's time.
    async fn forget_setnx(&self, key: &Key) -> Result<bool> {
        const ABSENT: i64 = -2;
        let placed = self.lock_key(key);
        // An offer to starving clients is no hold, but the key exists until the offer expires.
        if self.row_of(key).await?.is_some() || self.number("PTTL", &[placed.to_string()]).await? != ABSENT {
            return Ok(false);
        }
        let keys = [TokenKey(placed.as_str()).to_string(), StarvingKey(placed.as_str()).to_string()];
        self.number("DEL", &keys).await.map(|_| true)
    }

    /// The reply to this command, which is a number.
    async fn number(&self, command: &str, keys: &[String]) -> Result<i64> {
        let mut pipe = Pipeline::with_capacity(1);
        pipe.cmd(command).arg(keys);
        match self.command(pipe).await? {
            Value::Int(number) => Ok(number),
            reply => Err(refusal::unexpected_reply(&reply)),
        }
    }

    /// The rows of these locks, in the order of the keys.
    async fn rows_of(&self, keys: &[Key]) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(keys.len());
        for keys in keys.chunks(MAX_LOCKS_PER_CALL) {
            let names: Vec<&str> = keys.iter().map(Key::as_str).collect();
            let (replies, _) = self.show_replies(&names).await?;
            for (key, reply) in keys.iter().zip(replies) {
                let row = row(key.as_str(), &reply).map_err(|error| error.at(key))?;
                rows.push(row.unwrap_or_else(|| Row::free(key)));
            }
        }
        self.add_fences(rows.iter_mut().collect()).await;
        Ok(rows)
    }

    /// The replies of `show.lua` for these names, and the time that the server needed for them.
    pub(crate) async fn show_replies(&self, names: &[&str]) -> Result<(Vec<Value>, Duration)> {
        let names: Vec<_> = names.iter().map(|name| self.lock_name(name)).collect();
        self.timed(Keys::OfScripts, |form| script::show(names.iter().map(|name| &**name), self.format, form)).await
    }

    /// The name of a lock in its keys.
    pub(crate) fn lock_name<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.format.in_cluster { slots::placed_lock(name) } else { name.into() }
    }

    /// Reads the reply of `evict.lua`. Returns the row that the lock had before the eviction. None if the lock was
    /// free.
    fn evicted(&self, key: &Key, reply: &Value) -> Result<Option<Row>> {
        if matches!(reply, Value::Nil) {
            return Ok(None);
        }
        let [receivers, before] = list(reply) else { return Err(refusal::unexpected_reply(reply)) };
        // -2 means that this user has no right to publish.
        if matches!(receivers, Value::Int(-2)) {
            self.warn_publish_denied();
        }
        row(key.as_str(), before)
    }
}

#[cfg(test)]
mod tests;
