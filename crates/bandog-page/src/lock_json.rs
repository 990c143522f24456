//! Locks as JSON.

use std::time::{Duration, SystemTime};

use bandog_core::{Fence, Holder, Kind, LatchRow, Member, Row, Waiting};
use serde::Serialize;

use crate::{
    source::{ListedLock, Trouble, json},
    wait_reason::wait_reason,
};

/// One lock in JSON, in the format of the page and of `bandog ls --json`. Programs rely on the field names.
#[derive(Debug, Serialize)]
pub struct LockJson<'a> {
    name: &'a str,
    /// The name of the kind ([`Kind::name`]).
    kind: Option<&'static str>,
    held: bool,
    owner: Option<&'a str>,
    fence: Option<u64>,
    /// The last fence of the first holder's grant.
    fence_to: Option<u64>,
    ttl_ms: Option<u64>,
    held_since: Option<String>,
    holder: Option<MemberJson<'a>>,
    holders: Vec<HolderJson<'a>>,
    /// The number of permits of a semaphore.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    /// The count of a latch.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    waiters: Vec<WaiterJson<'a>>,
    store: &'a str,
}

/// One holder of a lock in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct HolderJson<'a> {
    owner: Option<&'a str>,
    fence: Option<u64>,
    ttl_ms: Option<u64>,
    holder: Option<MemberJson<'a>>,
    /// `read` or `write`, for a read-write lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    /// The number of permits that the holder has, for a semaphore.
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<u32>,
}

/// One waiter in JSON: a place in the queue of the lock, or a client that waits without a place.
#[derive(Debug, Serialize)]
pub(crate) struct WaiterJson<'a> {
    /// The owner of the place. A client without a place has no such field.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    /// The client. A client that is not registered has none of these fields.
    #[serde(flatten)]
    member: Option<MemberJson<'a>>,
    /// The number of places before this place in the queue. A client without a place has no such field.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<usize>,
    /// Why the call waits, in words.
    reason: String,
}

/// A client in JSON: the holder of a lock, or a waiter.
#[derive(Debug, Serialize)]
pub struct MemberJson<'a> {
    host: &'a str,
    pid: u32,
    program: &'a str,
    since: String,
}

impl<'a> LockJson<'a> {
    /// Locks and latches, sorted by name.
    pub fn all(locks: &'a [Row], latches: &'a [LatchRow], store: &'a str) -> Vec<Self> {
        let locks = locks.iter().map(|row| Self::new(row, store));
        let mut all: Vec<_> = locks.chain(latches.iter().map(|row| Self::latch(row, store))).collect();
        all.sort_by_key(|lock| lock.name);
        all
    }

    /// The lock with its JSON.
    pub(crate) fn listed(&self) -> Result<ListedLock, Trouble> {
        Ok(ListedLock { name: self.name.to_owned(), waiters: self.waiters.len(), json: json(self)? })
    }

    /// The lock in `row`. `store` is the displayed name of the store, which must not contain a password.
    pub fn new(row: &'a Row, store: &'a str) -> Self {
        let holder = row.holder();
        Self {
            name: &row.name,
            kind: row.kind.map(Kind::name),
            held: row.is_held(),
            owner: row.owner(),
            fence: row.fence().map(Fence::get),
            fence_to: holder.and_then(|holder| holder.last_fence).map(Fence::get),
            ttl_ms: holder.and_then(|holder| holder.ttl).map(millis),
            held_since: holder.and_then(Holder::since).map(seconds),
            holder: row.member().map(MemberJson::from),
            holders: row.holders.iter().map(HolderJson::from).collect(),
            limit: row.kind.and_then(limit),
            count: None,
            waiters: row.waiting().map(|waiting| WaiterJson::new(row, waiting)).collect(),
            store,
        }
    }

    /// A count-down latch that is not open.
    pub fn latch(row: &'a LatchRow, store: &'a str) -> Self {
        Self {
            name: &row.name,
            kind: Some("latch"),
            held: false,
            owner: None,
            fence: None,
            fence_to: None,
            ttl_ms: None,
            held_since: None,
            holder: None,
            holders: Vec::new(),
            limit: None,
            count: Some(row.count),
            waiters: Vec::new(),
            store,
        }
    }
}

impl<'a> From<&'a Holder> for HolderJson<'a> {
    fn from(holder: &'a Holder) -> Self {
        let Holder { owner, kind, fence, ttl, member, last_fence: _ } = holder;
        let (mode, permits) = match kind {
            Some(Kind::Read) => (Some("read"), None),
            Some(Kind::Write) => (Some("write"), None),
            Some(Kind::Permits { take, .. }) => (None, Some(take.get())),
            Some(Kind::Mutex | Kind::Fair) | None => (None, None),
        };
        Self {
            owner: owner.as_deref(),
            fence: fence.map(Fence::get),
            ttl_ms: ttl.map(millis),
            holder: member.as_ref().map(MemberJson::from),
            mode,
            permits,
        }
    }
}

impl<'a> WaiterJson<'a> {
    fn new(row: &Row, waiting: Waiting<'a>) -> Self {
        let Waiting { place, member, before } = waiting;
        let ahead = place.map(|_| before.len());
        Self { owner: place, member: member.map(MemberJson::from), ahead, reason: wait_reason(row, waiting, client) }
    }
}

/// A client as text, for [`wait_reason`].
fn client(member: Option<&Member>, owner: Option<&str>) -> String {
    match (member, owner) {
        (Some(Member { program, pid, host, .. }), _) => format!("{program} (process {pid} on {host})"),
        (None, Some(owner)) => owner.to_owned(),
        (None, None) => "an unknown client".to_owned(),
    }
}

impl<'a> From<&'a Member> for MemberJson<'a> {
    fn from(member: &'a Member) -> Self {
        Self { host: &member.host, pid: member.pid, program: &member.program, since: seconds(member.since) }
    }
}

/// The number of permits that a semaphore has. None for other kinds.
fn limit(kind: Kind) -> Option<u32> {
    match kind {
        Kind::Permits { of, .. } => Some(of.get()),
        Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write => None,
    }
}

/// A duration in milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The time in RFC 3339, to the second.
fn seconds(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests;
