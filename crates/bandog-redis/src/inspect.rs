//! The implementation of [`Inspect`]: locks and their holders.

use std::time::Duration;

use async_trait::async_trait;
use bandog_core::{ClaimId, ClientId, Fence, Finding, Holder, Inspect, Key, Kind, Member, Pattern, Result, Row};
use redis::{Pipeline, ServerError, Value};

use crate::{
    leases::Redis,
    names::TokenKey,
    refusal,
    reply::{list, text},
    script,
};

/// Maximum number of locks that one round trip queries.
const MAX_LOCKS_PER_CALL: usize = 256;
/// Approximate maximum number of fields that are read from a hash. A lock has one field. A read lock of Redisson has
/// one field for each reader.
const MAX_FIELDS: usize = 16;

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
        let evicted = async { self.evicted(key, &self.ask(|form| script::evict(key, form)).await?) };
        evicted.await.map_err(|error| error.during("evict").at(key))
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
        let mut pipe = Pipeline::with_capacity(3);
        lock_queries(&mut pipe, key.as_str());
        let replies = self.link.call(|_| pipe).await?;
        row(key.as_str(), &replies).map_err(|error| refusal::refused(&error))
    }

    /// The rows of these locks, in the order of the keys.
    async fn rows_of(&self, keys: &[Key]) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(keys.len());
        for keys in keys.chunks(MAX_LOCKS_PER_CALL) {
            let mut pipe = Pipeline::with_capacity(3 * keys.len());
            keys.iter().for_each(|key| lock_queries(&mut pipe, key.as_str()));
            let replies = self.link.call(|_| pipe).await?;
            for (key, replies) in keys.iter().zip(replies.chunks(3)) {
                let row = row(key.as_str(), replies).map_err(|error| refusal::refused(&error).at(key))?;
                rows.push(row.unwrap_or_else(|| Row::free(key)));
            }
        }
        Ok(rows)
    }

    /// Reads the reply of `evict.lua`. Returns the row that the lock had before the eviction. None if the lock was
    /// free.
    fn evicted(&self, key: &Key, reply: &Value) -> Result<Option<Row>> {
        if matches!(reply, Value::Nil) {
            return Ok(None);
        }
        let [receivers, owner, left, token] = list(reply) else { return Err(refusal::unexpected_reply(reply)) };
        // -2 means that this user has no right to publish.
        if matches!(receivers, Value::Int(-2)) {
            self.warn_publish_denied();
        }
        let owner = text(owner).ok_or_else(|| refusal::unexpected_reply(reply))?;
        let left = if let Value::Int(left) = left { *left } else { -1 };
        Ok(Some(held(key.as_str(), Some(Kind::Mutex), Some(owner), left, token)))
    }
}

/// Adds the first query for a lock, which reads some fields of the hash.
pub(crate) fn fields(pipe: &mut Pipeline, name: &str) {
    // A few fields are enough here, and a hash of another application might have millions of fields.
    pipe.cmd("HSCAN").arg(name).arg(0).arg("COUNT").arg(MAX_FIELDS);
}

/// Adds the three queries for a lock. [`row`] reads the replies.
pub(crate) fn lock_queries(pipe: &mut Pipeline, name: &str) {
    fields(pipe, name);
    pipe.cmd("PTTL").arg(name);
    pipe.cmd("GET").arg(TokenKey(name).to_string());
}

/// Whether a hash might be a lock. `fields` is the reply to the first query.
pub(crate) fn is_lock(fields: &Value) -> bool {
    names_of(fields).iter().any(|name| is_owner(name))
}

/// The names of the first fields of a hash.
fn names_of(fields: &Value) -> Vec<String> {
    match fields {
        Value::Array(parts) if parts.len() == 2 => list(&parts[1]).iter().step_by(2).filter_map(text).collect(),
        _ => Vec::new(),
    }
}

/// Makes the row of a lock from the replies to its queries. None if no client holds the lock.
pub(crate) fn row(name: &str, replies: &[Value]) -> Result<Option<Row>, ServerError> {
    if let Some(Value::ServerError(error)) = replies.iter().take(2).find(|reply| matches!(reply, Value::ServerError(_)))
    {
        return Err(error.clone());
    }
    let fields = match replies.first() {
        Some(Value::Array(parts)) if parts.len() == 2 => list(&parts[1]),
        Some(_) | None => &[],
    };
    let left = match replies.get(1) {
        Some(Value::Int(left)) => *left,
        Some(_) | None => -2,
    };
    // PTTL replies -2 if the lock has expired between the queries.
    if fields.is_empty() || left == -2 {
        return Ok(None);
    }
    let names: Vec<String> = fields.iter().step_by(2).filter_map(text).collect();
    // An offer reserves a released lock for a short time for starving clients, which have waited for a second or more:
    // see release.lua. No client holds such a lock.
    if *names == [ClaimId::OFFERED.to_string()] {
        return Ok(None);
    }
    // If no field has the format of an owner, the row shows the first field as the owner.
    let owner = names.iter().find(|name| is_owner(name)).or(names.first());
    // A read-write lock of Redisson has a field for its mode beside the fields of its owners.
    let has_owners_only = fields.iter().step_by(2).all(|field| text(field).is_some_and(|name| is_owner(&name)));
    let kind = has_owners_only.then_some(Kind::Mutex);
    Ok(Some(held(name, kind, owner.cloned(), left, replies.get(2).unwrap_or(&Value::Nil))))
}

/// The row of a held lock. `ttl_ms` is the reply of PTTL, which is negative for a lock that never expires. `token` is
/// the value of the fencing token.
fn held(name: &str, kind: Option<Kind>, owner: Option<String>, ttl_ms: i64, token: &Value) -> Row {
    // The token is a fence only if a bandog client holds the lock.
    let is_ours = owner.as_deref().is_some_and(ClientId::made);
    let last = Some(token).filter(|_| is_ours).and_then(text).and_then(|token| token.parse().ok());
    let holder = Holder { owner, ttl: u64::try_from(ttl_ms).ok().map(Duration::from_millis), ..Holder::default() };
    let holder = match last {
        Some(last) => holder.fenced(Fence::new(last)),
        None => holder,
    };
    Row { name: name.into(), kind, holders: vec![holder], queue: Vec::new(), waiters: Vec::new() }
}

/// Whether this field has the format of an owner's id: a UUID of 36 characters, a colon and a number. Redisson and
/// bandog use this format.
pub(crate) fn is_owner(field: &str) -> bool {
    let Some((uuid, number)) = field.split_once(':') else {
        return false;
    };
    let dashes = [8, 13, 18, 23];
    let is_uuid = |(at, byte): (usize, u8)| if dashes.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    uuid.len() == 36 && uuid.bytes().enumerate().all(is_uuid) && number.parse::<i64>().is_ok()
}

/// A Redis glob that matches all names that the pattern matches, and perhaps more. `?` becomes `*`, because `?` matches
/// one byte in a Redis glob, and one character in a pattern of bandog. Characters that are special only in Redis are
/// escaped.
pub(crate) fn redis_glob(pattern: &Pattern) -> String {
    let mut glob = String::new();
    let mut chars = pattern.as_str().chars();
    while let Some(c) = chars.next() {
        let literal = match c {
            '*' | '?' => {
                // A second star directly after a star would match the same names, and would cost the server time.
                if !glob.ends_with('*') || glob.ends_with("\\*") {
                    glob.push('*');
                }
                continue;
            }
            '\\' => chars.next().unwrap_or('\\'),
            c => c,
        };
        if "*?[]^-\\".contains(literal) {
            glob.push('\\');
        }
        glob.push(literal);
    }
    glob
}

#[cfg(test)]
mod tests;
