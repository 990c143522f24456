//! The registry of clients: one hash for each client, with a ttl, and an index of all clients.
//!
//! Clients of earlier versions are not in the index. If such a client holds a lock, the client's row is found by the
//! client's id. This id is a part of the lock's owner.

use std::time::{Duration, SystemTime};

use bandog_core::{BlockedCalls, ClientId, Error, Key, MAX_WAITS, Member, Result};
use bandog_redis_net::{
    Keys,
    reply::{list, text, time},
};
use redis::{Pipeline, Value};

use crate::{
    leases::Redis,
    names::{CLIENTS, ClientRowKey},
    refusal,
    script::{self, FIELDS},
};

/// Maximum number of rows that one pipeline reads.
const MAX_ROWS_PER_CALL: usize = 512;

impl Redis {
    /// Writes the client's row, and then adds the client to the index. These are two calls, because the server might
    /// refuse one of them, and because the two keys might be on different servers.
    pub(crate) async fn write_member(&self, member: &Member, ttl: Duration) -> Result<()> {
        let deadline = self.servers.deadline();
        match self.ask_with_deadline(deadline, |form| script::register(member, ttl, form)).await? {
            Value::Int(1) => {}
            reply => return Err(refusal::unexpected_reply(&reply)),
        }
        match self.ask_with_deadline(deadline, |form| script::enlist(member.id, ttl, form)).await {
            Err(error) if !error.is_retryable() => self.warn_of_index(&error),
            listed => drop(listed?),
        }
        Ok(())
    }

    /// Deletes the client from the registry.
    pub(crate) async fn delete_member(&self, client: ClientId) -> Result<()> {
        let mut pipe = Pipeline::with_capacity(2);
        pipe.cmd("DEL").arg(ClientRowKey(client).to_string());
        pipe.cmd("ZREM").arg(CLIENTS).arg(client.to_string());
        let replies = self.servers.call(Keys::FirstArguments, pipe).await?;
        match &replies[..] {
            [Value::ServerError(error), ..] => Err(refusal::refused(error)),
            // An error of ZREM is ignored: a client without the right to write the index is not in the index.
            [..] => Ok(()),
        }
    }

    /// The clients in the index whose rows have not expired.
    pub(crate) async fn registered(&self) -> Result<Vec<Member>> {
        let mut pipe = Pipeline::with_capacity(2);
        pipe.cmd("TIME");
        pipe.cmd("ZRANGE").arg(CLIENTS).arg(0).arg(-1).arg("WITHSCORES");
        let replies = self.servers.call(Keys::FirstArguments, pipe).await?;
        if let Some(error) = replies.iter().find_map(refusal::server_error) {
            return Err(refusal::refused(error));
        }
        let (Some(now), Some(Value::Array(listed))) = (replies.first().and_then(time), replies.get(1)) else {
            return Err(refusal::unexpected_reply(&Value::Array(replies)));
        };
        // The score of a client in the index is the time, in ms, at which the row of the client expires.
        let lives = |entry: &Value| match list(entry) {
            [id, Value::Double(until)] if *until > now.as_secs_f64() * 1000.0 => text(id)?.parse().ok(),
            _ => None,
        };
        self.rows(listed.iter().filter_map(lives).collect()).await
    }

    /// The rows of these clients. Missing and incomplete rows are left out, and those on nodes that do not answer.
    ///
    /// # Errors
    /// No row was found, and not all nodes have answered.
    pub(crate) async fn rows(&self, ids: Vec<ClientId>) -> Result<Vec<Member>> {
        let (mut members, mut fault) = (Vec::new(), None);
        for ids in ids.chunks(MAX_ROWS_PER_CALL) {
            let mut pipe = Pipeline::with_capacity(ids.len());
            for id in ids {
                pipe.cmd("HMGET").arg(ClientRowKey(*id).to_string()).arg(&FIELDS[..]);
            }
            let deadline = self.servers.deadline();
            let replies = self.servers.call_scripts(deadline, Keys::FirstArguments, |_| pipe.clone()).await?;
            for (id, reply) in ids.iter().zip(replies) {
                let reply = match reply {
                    Ok(reply) => reply,
                    Err(error) => {
                        fault = Some(error);
                        continue;
                    }
                };
                match reply {
                    // Rows that this user has no right to read are skipped.
                    Value::ServerError(error) if refusal::is_out_of_reach(&error) => {}
                    Value::ServerError(error) if refusal::is_denied(&error) => return Err(refusal::refused(&error)),
                    reply => members.extend(member(*id, &reply)),
                }
            }
        }
        match fault {
            Some(error) if members.is_empty() => Err(error),
            Some(_) | None => Ok(members),
        }
    }

    /// Warns once for each connection that this client is not in the index.
    fn warn_of_index(&self, error: &Error) {
        if self.index_warned.is_new(self.servers.connection()) {
            tracing::warn!(
                store = %self.servers.store(),
                %error,
                "this user may not write the index of clients ({CLIENTS}), so operators see what this client holds, \
                 but not what it waits for; see the rights in docs/redis.md"
            );
        }
    }
}

/// Reads the row of the client with this id. None if the row has expired or does not have our format.
fn member(id: ClientId, reply: &Value) -> Option<Member> {
    let (rest, blocked) = list(reply).split_at_checked(FIELDS.len() - 1)?;
    let blocked = blocked.first().and_then(text).map(|blocked| BlockedCalls::from_text(&blocked)).unwrap_or_default();
    let values: Vec<String> = rest.iter().filter_map(text).collect();
    let [host, pid, program, since, prefix, waits] = values.try_into().ok()?;
    let since = Duration::from_millis(since.parse().ok()?);
    let names = waits.split('\n').filter(|name| !name.is_empty()).take(MAX_WAITS);
    Some(Member {
        id,
        host,
        pid: pid.parse().ok()?,
        program,
        since: SystemTime::UNIX_EPOCH.checked_add(since)?,
        prefix,
        waits: names.map(|name| Key::new(name).ok()).collect::<Option<_>>()?,
        blocked,
    })
}

#[cfg(test)]
mod tests;
