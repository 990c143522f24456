//! Count-down latches: a string for each latch, as in Redisson, and a sorted set of the latest operations on it.

use async_trait::async_trait;
use bandog_core::{
    Key, LatchAnswer, LatchOperation, LatchRow, Latches, Notifier, Pattern, Result, Subscription, messages::Sink,
};
use bandog_redis_net::reply::text;
use redis::{Pipeline, Value};

use crate::{leases::Redis, names::LatchChannel, refusal, script};

#[async_trait]
impl Latches for Redis {
    async fn change_latch(&self, operation: &LatchOperation) -> Result<Option<LatchAnswer>> {
        let reply = self.change(operation).await;
        let answer = reply.and_then(|reply| self.latch_answer(reply));
        answer.map(Some).map_err(|error| error.during(operation.action.verb()).at(&operation.key))
    }

    async fn clear_latches(&self) -> Result<()> {
        Ok(()) // The keys have a ttl.
    }

    async fn latch_count(&self, key: &Key) -> Result<u64> {
        let mut get = Pipeline::with_capacity(1);
        get.cmd("GET").arg(key.as_str());
        let reply = match self.check_name(key) {
            Ok(()) => self.command(get).await,
            Err(error) => Err(error),
        };
        reply.and_then(|reply| count(&reply)).map_err(|error| error.during("latch_count").at(key))
    }

    async fn list_latches(&self, pattern: &Pattern) -> Result<Vec<LatchRow>> {
        let counts = self.all_latches(pattern).await.map_err(|error| error.during("list"))?;
        Ok(counts.into_iter().map(|(name, count)| LatchRow { name, count }).collect())
    }

    async fn subscribe_latch(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let channel = LatchChannel(key.as_str(), self.format).to_string();
        let subscription = self.servers.subscribe(&channel, Sink::of(notifier)).await;
        subscription.map_err(|error| error.during("subscribe").at(key))
    }
}

impl Redis {
    async fn change(&self, operation: &LatchOperation) -> Result<Value> {
        self.check_name(&operation.key)?;
        self.ask(|form| script::change_latch(operation, self.format, form)).await
    }

    /// Reads the reply of `latch.lua`.
    fn latch_answer(&self, reply: Value) -> Result<LatchAnswer> {
        match &reply {
            Value::Array(parts) => match parts[..] {
                [Value::Int(changed @ 0..=1), Value::Int(count @ 0..), Value::Int(receivers)] => {
                    if receivers == -2 {
                        self.warn_publish_denied();
                    }
                    Ok(LatchAnswer { has_changed: changed == 1, count: count.unsigned_abs() })
                }
                _ => Err(refusal::unexpected_reply(&reply)),
            },
            _ => Err(refusal::unexpected_reply(&reply)),
        }
    }
}

/// Reads the count of a latch. As in Redisson, a latch with a count below 0 is open.
pub(crate) fn count(reply: &Value) -> Result<u64> {
    match reply {
        Value::Nil => Ok(0),
        reply => {
            let count = text(reply).and_then(|count| count.parse::<i64>().ok());
            Ok(count.ok_or_else(refusal::not_a_latch)?.max(0).unsigned_abs())
        }
    }
}
