//! The messages on the channels of a Redis store.

use async_trait::async_trait;
use bandog_core::{
    Error, Result, Subscription,
    messages::{Channel, Channels, Messages, Sink},
};
use bandog_redis_net::{Keys, ScriptForm, refusal};
use redis::{Pipeline, Value};

use crate::RedisObjects;

#[async_trait]
impl Messages for RedisObjects {
    async fn publish(&self, messages: &[(Channel, Vec<u8>)]) -> Vec<Result<u64>> {
        if messages.is_empty() {
            return Vec::new();
        }
        let pack = |_: ScriptForm| {
            let mut pipe = Pipeline::with_capacity(messages.len());
            for (channel, payload) in messages {
                let (verb, name) = match channel {
                    Channel::Plain(name) => ("PUBLISH", name),
                    Channel::Sharded(name) => ("SPUBLISH", name),
                };
                pipe.cmd(verb).arg(name.as_str()).arg(payload);
            }
            pipe
        };
        // In a cluster, a plain message goes to the node of its channel's slot, too. So the messages of a channel keep their
        // order.
        let sent = self.servers.call_scripts(self.servers.deadline(), Keys::FirstArguments, pack).await;
        let mut replies: Vec<_> = match sent {
            Ok(replies) => replies.into_iter().collect(),
            Err(error) => vec![Err(error); messages.len()],
        };
        replies.resize_with(messages.len(), || Err(Error::unavailable("Redis has not answered").ambiguous()));
        let answer = |(reply, (Channel::Plain(name) | Channel::Sharded(name), _)): (Result<Value>, &(Channel, _))| {
            reply.and_then(receivers).map_err(|error| error.at(name))
        };
        replies.into_iter().zip(messages).map(answer).collect()
    }

    async fn subscribe_messages(&self, channels: &Channels, sink: Sink) -> Result<Subscription> {
        self.servers.subscribe_messages(channels, sink).await.map_err(|error| match channels {
            Channels::One(Channel::Plain(name) | Channel::Sharded(name)) => error.at(name),
            Channels::Matching(_) => error,
        })
    }
}

/// The number of receivers.
fn receivers(reply: Value) -> Result<u64> {
    match reply {
        Value::Int(receivers) => Ok(receivers.unsigned_abs()),
        Value::ServerError(error) => Err(refusal::refused(&error)),
        reply => Err(refusal::unexpected_reply(&reply)),
    }
}
