//! Reads the rows of locks from the replies of `show.lua`.

use std::{collections::HashMap, num::NonZeroU32, time::Duration};

use bandog_core::{ClientId, Fence, Holder, Kind, Result, Row};
use bandog_redis_net::reply::{list, text};
use redis::Value;

use crate::refusal;

/// Number of bytes of a permit's id.
const PERMIT_LEN: usize = 16;

/// Reads the reply of `show.lua` for the lock with this name. None if no client holds the lock, except that a free
/// semaphore has a row without holders.
pub(crate) fn row(name: &str, reply: &Value) -> Result<Option<Row>> {
    let row = match reply {
        Value::Nil => return Ok(None),
        Value::ServerError(error) => return Err(refusal::refused(error)),
        Value::Array(parts) => LockParts::read(parts).and_then(|parts| parts.row(name)),
        _ => None,
    };
    row.map(Some).ok_or_else(|| refusal::unexpected_reply(reply))
}

/// The parts of a reply: see `inspect.lua`.
struct LockParts<'v> {
    type_name: String,
    left: i64,
    /// The value of the fencing token.
    token: Option<Fence>,
    holders: &'v [Value],
    queue: Vec<String>,
    /// The private hash with the fences of single holds: the owner's text to the value.
    held: HashMap<String, &'v [u8]>,
}

impl<'v> LockParts<'v> {
    fn read(parts: &'v [Value]) -> Option<Self> {
        let [type_name, Value::Int(left), token, Value::Array(holders), queue, held] = parts else { return None };
        let held = list(held).chunks_exact(2).filter_map(|pair| match pair {
            [owner, Value::BulkString(value)] => Some((text(owner)?, value.as_slice())),
            _ => None,
        });
        Some(Self {
            type_name: text(type_name)?,
            left: *left,
            token: text(token).and_then(|token| token.parse().ok()).map(Fence::new),
            holders,
            queue: list(queue).iter().filter_map(text).collect(),
            held: held.collect(),
        })
    }

    /// The row of the lock. None if the parts do not fit together.
    fn row(self, name: &str) -> Option<Row> {
        if self.type_name == "free" {
            let of = u32::try_from(self.left).ok().and_then(NonZeroU32::new)?;
            let kind = Some(Kind::Permits { take: NonZeroU32::MIN, of });
            return Some(Row { name: name.into(), kind, holders: Vec::new(), queue: Vec::new(), waiters: Vec::new() });
        }
        let mut holders = match self.type_name.as_str() {
            "hash" | "map" => vec![self.exclusive_holder()],
            "string" => vec![self.holder_of_string()?],
            "read-write" => self.readers_or_writer()?,
            "semaphore" => self.permit_holders()?,
            "plain" => self.plain_permit_holders()?,
            _ => return None,
        };
        holders.sort_by(|a, b| (a.last_fence, &a.owner).cmp(&(b.last_fence, &b.owner)));
        let kind = holders.first()?.kind;
        Some(Row { name: name.into(), kind, holders, queue: self.queue, waiters: Vec::new() })
    }

    /// The holder of a mutex or of a fair mutex. Of another hash, it is the first field, and no kind is known.
    fn exclusive_holder(&self) -> Holder {
        let names: Vec<Option<String>> = self.holders.iter().map(text).collect();
        let is_owned = |name: &Option<String>| name.as_deref().is_some_and(ClientId::is_owner);
        let owner = names.iter().find(|name| is_owned(name)).or(names.first()).cloned().flatten();
        let is_ours = owner.as_deref().is_some_and(ClientId::made);
        // Only fair mutexes of ours have an entry in the private hash, and only fair mutexes have a queue.
        let is_fair = owner.as_ref().is_some_and(|owner| self.held.contains_key(owner));
        let kind = match self.type_name == "hash" {
            true if is_fair || !is_ours && !self.queue.is_empty() => Some(Kind::Fair),
            true => Some(Kind::Mutex),
            false => None,
        };
        Self::holder(owner, kind, self.left, self.token.filter(|_| is_ours))
    }

    /// The holder of a mutex of the layout `setnx`. The value of another library is shown as text, or in hexadecimal
    /// digits if it is not a readable text.
    fn holder_of_string(&self) -> Option<Holder> {
        let [Value::BulkString(value)] = self.holders else { return None };
        let owner = match std::str::from_utf8(value) {
            Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
            Ok(_) | Err(_) => hex(value),
        };
        let is_ours = ClientId::made(&owner);
        Some(Self::holder(Some(owner), Some(Kind::Mutex), self.left, self.token.filter(|_| is_ours)))
    }

    /// The holders of a plain semaphore's permits. The clients of other libraries are one holder without an owner.
    fn plain_permit_holders(&self) -> Option<Vec<Holder>> {
        let limit = u32::try_from(self.left).ok()?;
        let kind = |take: u32| {
            // An unknown limit is at least the number of permits that are taken.
            Some(Kind::Permits { take: NonZeroU32::new(take)?, of: NonZeroU32::new(limit.max(take))? })
        };
        let holder = |pair: &[Value]| {
            let [owner, Value::Int(number)] = pair else { return None };
            let owner = text(owner)?;
            if owner.is_empty() {
                return Some(Self::holder(None, kind(u32::try_from(*number).ok()?), -1, None));
            }
            let value = std::str::from_utf8(self.held.get(&owner)?).ok()?;
            let take = value.split_once(' ')?.1.parse().ok()?;
            let fence = self.own_fence(&owner);
            Some(Self::holder(Some(owner), kind(take), *number, fence))
        };
        self.holders.chunks(2).map(holder).collect()
    }

    /// The holders of a read-write lock.
    fn readers_or_writer(&self) -> Option<Vec<Holder>> {
        let holder = |pair: &[Value]| {
            let [field, Value::Int(left)] = pair else { return None };
            let field = text(field);
            let writer = field.as_deref().and_then(|field| field.strip_suffix(":write"));
            let (owner, kind) = match writer {
                Some(writer) => (Some(writer.to_owned()), Kind::Write),
                None => (field, Kind::Read),
            };
            let is_ours = owner.as_deref().is_some_and(ClientId::made);
            let own = owner.as_deref().and_then(|owner| self.own_fence(owner));
            // The hold of a writer is exclusive, so the token is its fence.
            let fence = if matches!(kind, Kind::Write) { self.token } else { own };
            Some(Self::holder(owner, Some(kind), *left, fence.filter(|_| is_ours)))
        };
        self.holders.chunks(2).map(holder).collect()
    }

    /// The holders of a semaphore's permits. Each permit of another library is a holder of its own.
    fn permit_holders(&self) -> Option<Vec<Holder>> {
        let limit = u32::try_from(self.left).ok().and_then(NonZeroU32::new);
        let kind = |take: usize| {
            let take = u32::try_from(take).ok().and_then(NonZeroU32::new)?;
            Some(Kind::Permits { take, of: limit? })
        };
        let mut permits = HashMap::new();
        for pair in self.holders.chunks(2) {
            let [Value::BulkString(id), Value::Int(left)] = pair else { return None };
            permits.insert(id.as_slice(), *left);
        }
        let mut holders = Vec::new();
        for (owner, value) in &self.held {
            let ids = value.iter().position(|byte| *byte == b' ').map_or(&[][..], |at| &value[at + 1..]);
            let left = ids.chunks_exact(PERMIT_LEN).filter_map(|id| permits.remove(id)).max();
            if let Some(left) = left {
                let kind = kind(ids.len() / PERMIT_LEN);
                holders.push(Self::holder(Some(owner.clone()), kind, left, self.own_fence(owner)));
            }
        }
        holders.extend(permits.into_iter().map(|(id, left)| Self::holder(Some(hex(id)), kind(1), left, None)));
        Some(holders)
    }

    /// The last fence of this owner's hold, from the private hash.
    fn own_fence(&self, owner: &str) -> Option<Fence> {
        let value = self.held.get(owner)?;
        let fence = value.split(|byte| *byte == b' ').next()?;
        std::str::from_utf8(fence).ok()?.parse().ok().map(Fence::new)
    }

    /// A holder. `left` is the reply of PTTL, which is negative for a hold that never expires.
    fn holder(owner: Option<String>, kind: Option<Kind>, left: i64, last_fence: Option<Fence>) -> Holder {
        let ttl = u64::try_from(left).ok().map(Duration::from_millis);
        let holder = Holder { owner, kind, ttl, ..Holder::default() };
        match last_fence {
            Some(last) => holder.fenced(last),
            None => holder,
        }
    }
}

/// The bytes in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
