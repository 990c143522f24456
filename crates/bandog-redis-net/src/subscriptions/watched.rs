//! Keys that are watched: a subscriber is notified after each change of the key.
//!
//! The subscription of a watched key is a read with `CLIENT TRACKING`: the server reports the next change once, and so ends
//! the subscription. A new one follows. If the key exists then, it may have changed in between, so the subscribers are notified once more.

use futures_util::future::try_join;
use redis::{RedisError, Value, aio::MultiplexedConnection};
use tokio::task::unconstrained;

use super::{shared::SharedSubscriptions, source::Source};

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
        self.change(|state| {
            let changed: Vec<_> = match keys {
                Some(Value::Array(keys)) => keys.iter().filter_map(text).map(|key| Source::Key(key.into())).collect(),
                _ => state.channels.sources().filter(|source| matches!(source, Source::Key(_))).cloned().collect(),
            };
            for key in changed {
                state.channels.ended(&key);
                state.channels.message(&key, None, &[]);
                if let Some(task) = &state.task {
                    // If the task has ended, there is no connection, and the next one reads all keys.
                    let _ = task.changes.send(key);
                }
            }
        });
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}
