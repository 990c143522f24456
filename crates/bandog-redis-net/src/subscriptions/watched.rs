//! Keys that are watched: a subscriber is notified after each change of the key.
//!
//! A watched key is a channel whose name begins with a zero byte, which no channel of a user does. Its subscription is a
//! read of the key with `CLIENT TRACKING`: the server reports the next change once, and so ends the subscription. A new one
//! follows. If the key exists then, it may have changed in between, so the subscribers are notified once more.

use futures_util::future::try_join;
use redis::{RedisError, Value, aio::MultiplexedConnection};
use tokio::task::unconstrained;

use super::shared::SharedSubscriptions;

/// The channel of a watched key.
pub(crate) fn channel(key: &str) -> String {
    format!("\0{key}")
}

/// The key of a channel, if it is a watched key.
pub(crate) fn key(channel: &str) -> Option<&str> {
    channel.strip_prefix('\0')
}

/// Reads the key, so that the server reports its next change. Returns whether the key exists.
pub(super) async fn read(mux: &mut MultiplexedConnection, key: &str) -> Result<bool, RedisError> {
    let mut own = mux.clone();
    let (mut tracking, mut read) = (redis::cmd("CLIENT"), redis::cmd("EXISTS"));
    // Not a pipeline: its error would not say which command the server has refused.
    let tracking = tracking.arg("TRACKING").arg("ON").exec_async(&mut own);
    let ((), exists) = unconstrained(try_join(tracking, read.arg(key).query_async(mux))).await?;
    Ok(exists)
}

impl SharedSubscriptions {
    /// Handles the report that keys have changed. Without keys, any key may have changed.
    pub(super) fn invalidated(&self, keys: Option<&Value>) {
        let mut state = self.state();
        let channels: Vec<_> = match keys {
            Some(Value::Array(keys)) => keys.iter().filter_map(text).map(channel).collect(),
            _ => state.channels.names().filter(|name| key(name).is_some()).map(|name| name.to_string()).collect(),
        };
        for channel in channels {
            state.channels.ended(&channel);
            state.channels.message(&channel, &[]);
            if let Some(task) = &state.task {
                // If the task has ended, there is no connection, and the next one reads all keys.
                let _ = task.changes.send(channel.into());
            }
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}
